#include "train/peer_followers.h"

#include "runtime/command_runner.h"
#include "runtime/rank_wire.h"

namespace glint {
namespace {

// The first byte of a message. No message, as of a lost first, ends the session.
constexpr char kCommand = 'p', kFinish = 'f';

}  // namespace

PeerFollowers::~PeerFollowers() { peers_.from_first(""); }

void PeerFollowers::start(RankCommand command) {
  peers_.from_first(kCommand + write_command(command));
}

Status PeerFollowers::finish() {
  peers_.from_first(std::string(1, kFinish));
  return peers_.agree(Ok{});
}

void follow_first(const TrainPeers& peers,
                  const std::function<Status(const RankCommand&)>& follow) {
  CommandRunner runner(follow);
  for (;;) {
    const std::string said = peers.from_first("");
    if (said.starts_with(kFinish)) {
      (void)peers.agree(runner.drain());
      continue;
    }
    if (!said.starts_with(kCommand)) return;
    Result<RankCommand> command = read_command(std::string_view(said).substr(1));
    if (!command.ok()) return;  // the group has ended in the midst of it
    runner.add(std::make_shared<const RankCommand>(std::move(command).value()));
  }
}

}  // namespace glint
