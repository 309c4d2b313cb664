// RankThreads: followers that are threads of this process.
#pragma once

#include <memory>
#include <vector>

#include "runtime/command_runner.h"
#include "runtime/ranks.h"

namespace glint {

class RankThreads final : public LastingFollowers {
 public:
  // The ranks above 0 of `ranks`, whose models are loaded, follow rank 0's from now until this
  // ends. `ranks` outlives it.
  explicit RankThreads(Ranks& ranks);
  ~RankThreads() override;

  void start(RankCommand command) override;
  Status finish() override;
  bool have_leaders_weights() const override;

 private:
  Ranks& ranks_;
  std::vector<std::unique_ptr<CommandRunner>> runners_;  // of each follower
};

}  // namespace glint
