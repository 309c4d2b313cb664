// The whole path: requests through the engine's threads.
#include "engine/engine.h"

#include <condition_variable>
#include <mutex>

#include "executor/harness.h"

namespace glint {
namespace {

// Collects events until every request has ended.
class Collector {
 public:
  void take(std::vector<TokenEvent> events) {
    const std::lock_guard lock(mutex_);
    for (TokenEvent& event : events) {
      Outcome& out = outcomes_[event.id];
      out.tokens.insert(out.tokens.end(), event.tokens.begin(), event.tokens.end());
      if (event.finished) out.finished = event.finished, out.usage = event.usage, ++ended_;
    }
    changed_.notify_all();
  }
  std::map<RequestId, Outcome> wait(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ >= count; });
    return outcomes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, Outcome> outcomes_;
  int ended_ = 0;
};

TEST(EngineWithModel, answers_are_those_of_each_request_alone) {
  const std::vector<Request> requests = mixed_requests(10, 70, 20);
  std::map<RequestId, Outcome> alone;
  for (const Request& request : requests) alone.merge(run_all({request}));
  for (const int drafts : {0, 3}) {
    ASSERT_TRUE(tiny().reserve_pages(200).ok());
    ModelExecutor executor(tiny(), {.max_drafts = drafts});
    Collector collector;
    Engine engine({.scheduler = {.max_step_tokens = 100, .depth = 2, .max_drafts = drafts},
                   .cache = {.num_pages = 200}},
                  executor, [&](std::vector<TokenEvent> events) { collector.take(events); });
    for (const Request& request : requests) {
      const Status status = engine.submit(request);
      ASSERT_TRUE(status.ok()) << status.error().message;
    }
    const auto outcomes = collector.wait(static_cast<int>(requests.size()));
    for (const auto& [id, outcome] : alone) {
      EXPECT_EQ(outcomes.at(id).tokens, outcome.tokens) << "request " << id;
      EXPECT_EQ(outcomes.at(id).finished, FinishReason::kLength);
    }
    EXPECT_EQ(engine.stats().accepted_tokens > 0, drafts > 0);
  }
}

}  // namespace
}  // namespace glint
