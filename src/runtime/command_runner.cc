#include "runtime/command_runner.h"

#include "base/ending_signals.h"

namespace glint {

CommandRunner::CommandRunner(std::function<Status(const RankCommand&)> follow)
    : thread_([this, follow = std::move(follow)] {
        leave_terminal_signals();
        while (const auto command = commands_.pop()) {
          Status status = follow(**command);
          const std::lock_guard lock(mutex_);
          if (failure_.ok()) failure_ = std::move(status);
          --open_;
          changed_.notify_all();
        }
      }) {}

CommandRunner::~CommandRunner() {
  commands_.close();
  thread_.join();
}

void CommandRunner::add(std::shared_ptr<const RankCommand> command) {
  {
    const std::lock_guard lock(mutex_);
    ++open_;
  }
  commands_.push(std::move(command));
}

Status CommandRunner::drain() {
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
