#include "runtime/pass_runner.h"

#include "base/ending_signals.h"

namespace glint {

PassRunner::PassRunner(std::function<Status(const RankPass&)> follow)
    : thread_([this, follow = std::move(follow)] {
        leave_terminal_signals();
        while (const auto pass = passes_.pop()) {
          Status status = follow(**pass);
          const std::lock_guard lock(mutex_);
          if (failure_.ok()) failure_ = std::move(status);
          --open_;
          changed_.notify_all();
        }
      }) {}

PassRunner::~PassRunner() {
  passes_.close();
  thread_.join();
}

void PassRunner::add(std::shared_ptr<const RankPass> pass) {
  {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  passes_.push(std::move(pass));
}

Status PassRunner::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return open_ == 0; });
  return std::exchange(failure_, Ok{});
}

Status LastingFollowers::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void LastingFollowers::lose(const std::string& why) {
  const std::lock_guard lock(mutex_);
  state_ = unavailable(why);
}

}  // namespace glint
