#include "runtime/rank_threads.h"

#include "base/ending_signals.h"
#include "base/undo.h"

namespace glint {

RankThreads::RankThreads(Ranks& ranks) : ranks_(ranks) {
  Undo undo([this] { end(); });
  for (int rank = 1; rank < ranks.size(); ++rank) {
    auto& passes =
        *passes_.emplace_back(std::make_unique<Queue<std::shared_ptr<const RankPass>>>());
    threads_.emplace_back([this, rank, &passes] { follow(ranks_.model(rank), passes); });
  }
  undo.keep();
  if (ranks.size() > 1) ranks.model(0).set_followers(this);
}

RankThreads::~RankThreads() {
  ranks_.model(0).set_followers(nullptr);
  end();
}

void RankThreads::end() {
  for (auto& passes : passes_) passes->close();
  for (std::thread& thread : threads_) thread.join();
}

void RankThreads::start(RankPass pass) {
  const auto shared = std::make_shared<const RankPass>(std::move(pass));
  {
    const std::lock_guard lock(mutex_);
    open_ += passes_.size();
  }
  for (auto& passes : passes_) passes->push(shared);
}

Status RankThreads::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return open_ == 0; });
  if (const std::optional<Error> failure = std::exchange(failure_, {})) return *failure;
  return Ok{};
}

bool RankThreads::have_leaders_weights() const {
  const std::string leaders = ranks_.model(0).fingerprint();
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    if (ranks_.model(rank).fingerprint() != leaders) return false;
  }
  return true;
}

Status RankThreads::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void RankThreads::lose(const std::string& why) {
  const std::lock_guard lock(mutex_);
  state_ = unavailable(why);
}

void RankThreads::follow(LoadedModel& model, Queue<std::shared_ptr<const RankPass>>& passes) {
  leave_terminal_signals();
  while (const auto pass = passes.pop()) {
    const Status status = model.follow(**pass);
    const std::lock_guard lock(mutex_);
    if (!status.ok() && !failure_) failure_ = status.error();
    --open_;
    changed_.notify_all();
  }
}

}  // namespace glint
