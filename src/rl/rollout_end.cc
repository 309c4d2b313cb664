#include "rl/rollout_end.h"

#include <algorithm>

#include "base/check.h"

namespace glint {

RolloutEnd::RolloutEnd(std::size_t answers, int group_size, int wanted)
    : group_size_(static_cast<std::size_t>(group_size)), wanted_(static_cast<std::size_t>(wanted)) {
  GLINT_CHECK(group_size > 0 && answers % group_size_ == 0, "whole groups");
  groups_.assign(answers / group_size_, {.left = group_size});
}

void RolloutEnd::finish(std::size_t answer, int tokens) {
  Group& group = groups_[answer / group_size_];
  group.tokens = std::max(group.tokens, tokens);
  if (--group.left > 0) return;
  ends_.insert(std::upper_bound(ends_.begin(), ends_.end(), group.tokens), group.tokens);
  if (wanted_ > 0 && ends_.size() >= wanted_) limit_ = ends_[wanted_ - 1];
}

}  // namespace glint
