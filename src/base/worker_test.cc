#include "base/worker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace glint {
namespace {

TEST(Worker, jobs_run_in_order_beside_their_owner) {
  std::vector<int> done;
  Worker worker;
  worker.wait();  // nothing to wait for
  for (int i = 0; i < 100; ++i) worker.start([&done, i] { done.push_back(i); });
  worker.wait();
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[i], i);
}

TEST(Worker, the_end_waits_for_the_job) {
  bool done = false;
  {
    Worker worker;
    worker.start([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      done = true;
    });
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace glint
