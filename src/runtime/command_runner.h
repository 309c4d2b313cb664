// Parts of followers (rank_command.h): a thread that runs commands while others come, and a base of
// followers that cannot be restarted.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/queue.h"
#include "runtime/rank_command.h"

namespace glint {

class CommandRunner {
 public:
  // Runs follow(command) of each command, one after another, on a thread of its own.
  explicit CommandRunner(std::function<Status(const RankCommand&)> follow);
  // Once all have run.
  ~CommandRunner();

  void add(std::shared_ptr<const RankCommand> command);
  // Once all have run: the first failure since the last call.
  Status drain();

 private:
  Queue<std::shared_ptr<const RankCommand>> commands_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t open_ = 0;  // commands that have not run
  Status failure_ = Ok{};
  std::thread thread_;
};

// Base of followers that cannot be restarted: once lost, they stay lost.
class LastingFollowers : public Followers {
 public:
  Status state() const override;
  void lose(const std::string& why) override;
  Status restart(const std::function<Status()>&) override { return state(); }

 private:
  mutable std::mutex mutex_;
  Status state_ = Ok{};
};

}  // namespace glint
