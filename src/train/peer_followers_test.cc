#include "train/peer_followers.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/queue.h"
#include "comm/shared_comm.h"

namespace glint {
namespace {

RankPass pass_of(int pages) { return {.kind = RankPass::Kind::kReservePages, .num_pages = pages}; }

TEST(PeerFollowers, run_all_passes_in_order_and_tell_the_first_failure) {
  const auto comms = make_thread_comms(2);
  const TrainPeers first({}, *comms[0], 2), other({}, *comms[1], 2);
  Queue<bool> may_run;
  std::vector<int> ran;
  std::thread thread([&] {
    follow_first(other, [&](const RankPass& pass) -> Status {
      may_run.pop();
      ran.push_back(pass.num_pages);
      if (pass.num_pages % 2 == 0) return exhausted(std::to_string(pass.num_pages));
      return Ok{};
    });
    EXPECT_EQ(other.from_first(""), "after the session");
  });
  {
    PeerFollowers followers(first);
    // The first does not wait until they have run.
    for (int pages = 1; pages <= 5; ++pages) followers.start(pass_of(pages));
    for (int i = 0; i < 5; ++i) may_run.push(true);
    EXPECT_EQ(followers.finish().error().message, "2");
    EXPECT_EQ(ran, (std::vector<int>{1, 2, 3, 4, 5}));
    EXPECT_TRUE(followers.finish().ok());
    followers.start(pass_of(7));
    may_run.push(true);
  }
  first.from_first("after the session");
  thread.join();
  EXPECT_EQ(ran.back(), 7);
}

TEST(PeerFollowers, nobody_waits_for_a_lost_rank) {
  const SharedGroup group = SharedGroup::map(2, -1).value();
  group.end();
  const auto one = make_shared_comm(group, 0), two = make_shared_comm(group, 1);
  const TrainPeers first({}, *one, 2), other({}, *two, 2);
  follow_first(other, [](const RankPass&) { return Status(Ok{}); });
  PeerFollowers followers(first);
  followers.start(pass_of(1));
  EXPECT_EQ(followers.finish().error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(followers.state().ok());
  followers.lose("the first has other weights");
  EXPECT_EQ(followers.restart({}).error().message, "the first has other weights");
}

}  // namespace
}  // namespace glint
