#include "runtime/rank_threads.h"

namespace glint {

RankThreads::RankThreads(Ranks& ranks) : ranks_(ranks) {
  for (int rank = 1; rank < ranks.size(); ++rank) {
    runners_.push_back(
        std::make_unique<CommandRunner>([&model = ranks.model(rank)](const RankCommand& command) {
          return model.follow(command);
        }));
  }
  if (ranks.size() > 1) ranks.model(0).set_followers(this);
}

RankThreads::~RankThreads() { ranks_.model(0).set_followers(nullptr); }

void RankThreads::start(RankCommand command) {
  const auto shared = std::make_shared<const RankCommand>(std::move(command));
  for (const auto& runner : runners_) runner->add(shared);
}

Status RankThreads::finish() {
  Status all = Ok{};
  for (const auto& runner : runners_) {  // also behind one that failed
    const Status own = runner->drain();
    if (all.ok()) all = own;
  }
  return all;
}

bool RankThreads::have_leaders_weights() const {
  const std::string leaders = ranks_.model(0).fingerprint();
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    if (ranks_.model(rank).fingerprint() != leaders) return false;
  }
  return true;
}

}  // namespace glint
