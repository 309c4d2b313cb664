#include "train/peer_followers.h"

#include "runtime/pass_runner.h"
#include "runtime/rank_wire.h"

namespace glint {
namespace {

// The first byte of a message. No message, as of a lost first, ends the session.
constexpr char kPass = 'p', kFinish = 'f';

}  // namespace

PeerFollowers::~PeerFollowers() { peers_.from_first(""); }

void PeerFollowers::start(RankPass pass) { peers_.from_first(kPass + write_pass(pass)); }

Status PeerFollowers::finish() {
  peers_.from_first(std::string(1, kFinish));
  return peers_.agree(Ok{});
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
    runner.add(std::make_shared<const RankPass>(std::move(pass).value()));
  }
}

}  // namespace glint
