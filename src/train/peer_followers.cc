#include "train/peer_followers.h"

#include <condition_variable>
#include <thread>

#include "base/ending_signals.h"
#include "base/queue.h"
#include "runtime/rank_wire.h"

namespace glint {
namespace {

// The first byte of a message. No message, as of a lost first, ends the session.
constexpr char kPass = 'p', kFinish = 'f';

// Runs passes, one after another, while others come.
class PassRunner {
 public:
  explicit PassRunner(const std::function<Status(const RankPass&)>& follow)
      : thread_([this, &follow] {
          leave_terminal_signals();
          while (const auto pass = passes_.pop()) note(follow(*pass));
        }) {}
  ~PassRunner() {
    passes_.close();
    thread_.join();
  }

  void add(RankPass pass) {
    {
      const std::lock_guard lock(mutex_);
      ++open_;
    }
    passes_.push(std::move(pass));
  }
  // Once all have run: the first failure since the last call.
  Status drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ == 0; });
    return std::exchange(failure_, Ok{});
  }

 private:
  void note(Status status) {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
    --open_;
    changed_.notify_all();
  }

  Queue<RankPass> passes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t open_ = 0;
  Status failure_ = Ok{};
  std::thread thread_;
};

}  // namespace

PeerFollowers::~PeerFollowers() { peers_.from_first(""); }

void PeerFollowers::start(RankPass pass) { peers_.from_first(kPass + write_pass(pass)); }

Status PeerFollowers::finish() {
  peers_.from_first(std::string(1, kFinish));
  return peers_.agree(Ok{});
}

Status PeerFollowers::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

void PeerFollowers::lose(const std::string& why) {
  const std::lock_guard lock(mutex_);
  state_ = unavailable(why);
}

void follow_first(const TrainPeers& peers, const std::function<Status(const RankPass&)>& follow) {
  PassRunner runner(follow);
  for (;;) {
    const std::string said = peers.from_first("");
    if (said.starts_with(kFinish)) {
      (void)peers.agree(runner.drain());
      continue;
    }
    if (!said.starts_with(kPass)) return;
    Result<RankPass> pass = read_pass(std::string_view(said).substr(1));
    if (!pass.ok()) return;  // the group has ended in the midst of it
    runner.add(std::move(pass).value());
  }
}

}  // namespace glint
