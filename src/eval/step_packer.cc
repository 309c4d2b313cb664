#include "eval/step_packer.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "ops/kv_layout.h"

namespace glint {
namespace {

int pages_of(const std::vector<TokenId>& ids) {
  return static_cast<int>(glint::pages_of(std::ssize(ids)));
}

}  // namespace

StepPacker::StepPacker(const TokenSequences& sequences, int tokens_per_step)
    : sequences_(sequences), tokens_per_step_(tokens_per_step) {
  GLINT_CHECK(tokens_per_step >= 1, "a step has a token");
  // Live at once are the sequences of one step. They are neighbours, and all but the first and last
  // lie in it whole: a dry run finds the most pages.
  std::int64_t room = tokens_per_step;
  int live = 0;
  for (const std::vector<TokenId>& ids : sequences) {
    if (ids.empty()) continue;
    if (room == 0) live = 0, room = tokens_per_step;
    live += pages_of(ids);
    pages_needed_ = std::max(pages_needed_, live);
    std::int64_t left = static_cast<std::int64_t>(ids.size());
    while (left > room) {
      left -= room;
      room = tokens_per_step;
      live = pages_of(ids);
    }
    room -= left;
  }
  free_.resize(static_cast<std::size_t>(pages_needed_));
  std::iota(free_.rbegin(), free_.rend(), 0);
}

StepPacker::Step StepPacker::next() {
  Step step;
  std::vector<PageId> ended;
  std::int64_t room = tokens_per_step_;
  for (; sequence_ < sequences_.size() && room > 0;) {
    const std::vector<TokenId>& ids = sequences_[sequence_];
    const std::int64_t size = static_cast<std::int64_t>(ids.size());
    if (position_ == 0) {
      const auto taken = free_.end() - pages_of(ids);
      pages_.assign(taken, free_.end());
      free_.erase(taken, free_.end());
    }
    const std::int64_t count = std::min(room, size - position_);
    if (count > 0) {
      step.parts.push_back({.sequence = sequence_, .first = position_, .count = count});
      step.plan.add(static_cast<int>(position_), std::span(ids).subspan(position_, count), pages_,
                    0);
    }
    position_ += count;
    room -= count;
    if (position_ < size) break;  // the step is full
    ended.insert(ended.end(), pages_.begin(), pages_.end());
    pages_.clear();
    position_ = 0;
    ++sequence_;
  }
  free_.insert(free_.end(), ended.begin(), ended.end());
  return step;
}

}  // namespace glint
