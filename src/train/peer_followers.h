// PeerFollowers: the processes of training as followers (runtime/rank_command.h) of the first,
// while its model answers. They hear commands in a thread of their own, so that the first never
// waits until one has been run.
#pragma once

#include <functional>

#include "runtime/command_runner.h"
#include "train/train_peers.h"

namespace glint {

// The first's side: a session, in which nothing else may use the peers' group.
class PeerFollowers final : public LastingFollowers {
 public:
  // `peers` outlives it; the others call follow_first().
  explicit PeerFollowers(const TrainPeers& peers) : peers_(peers) {}
  ~PeerFollowers() override;

  void start(RankCommand command) override;
  Status finish() override;
  // The trainer's, which each takes over between sessions.
  bool have_leaders_weights() const override { return true; }

 private:
  const TrainPeers& peers_;
};

// The others': follow(command) of each, in order, until the session ends, or the group does.
void follow_first(const TrainPeers& peers, const std::function<Status(const RankCommand&)>& follow);

}  // namespace glint
