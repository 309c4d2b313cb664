// RankThreads: followers that are threads of this process.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/queue.h"
#include "runtime/rank_pass.h"
#include "runtime/ranks.h"

namespace glint {

class RankThreads final : public Followers {
 public:
  // The ranks above 0 of `ranks`, whose models are loaded, follow rank 0's from now until this
  // ends. `ranks` outlives it.
  explicit RankThreads(Ranks& ranks);
  ~RankThreads() override;

  void start(RankPass pass) override;
  Status finish() override;
  bool have_leaders_weights() const override;
  Status state() const override;
  void lose(const std::string& why) override;
  // Not threads: what is lost stays so.
  Status restart(const std::function<Status()>&) override { return state(); }

 private:
  void end();
  void follow(LoadedModel& model, Queue<std::shared_ptr<const RankPass>>& passes);

  Ranks& ranks_;
  std::vector<std::unique_ptr<Queue<std::shared_ptr<const RankPass>>>> passes_;  // of each follower
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t open_ = 0;          // passes that a follower still has to run
  std::optional<Error> failure_;  // the first
  Status state_ = Ok{};
  std::vector<std::thread> threads_;
};

}  // namespace glint
