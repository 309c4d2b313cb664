// RolloutEnd: when rollouts of which only some groups are needed may stop.
//
// Time is counted in new tokens of each answer, as if all ran at once and one a step: so what is
// finished, and where the others stop, is a function of the answers, not of how many ran at once.
#pragma once

#include <climits>
#include <cstddef>
#include <vector>

namespace glint {

class RolloutEnd {
 public:
  // Answers come in groups of `group_size`, one after another. 0 `wanted`: all go to their end.
  RolloutEnd(std::size_t answers, int group_size, int wanted);

  // Answer number `answer` has ended by itself after so many new tokens.
  void finish(std::size_t answer, int tokens);

  // No unfinished answer needs more than so many new tokens; what goes beyond is not part of the
  // rollouts. It falls as answers finish, and is final once no running answer has fewer.
  int limit() const { return limit_; }

 private:
  struct Group {
    int left = 0, tokens = 0;
  };
  std::vector<Group> groups_;
  const std::size_t group_size_, wanted_;
  std::vector<int> ends_ = {};  // of finished groups, ascending
  int limit_ = INT_MAX;
};

}  // namespace glint
