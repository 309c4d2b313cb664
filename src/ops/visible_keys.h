// The keys that the tokens of an assumed batch see: tokens follow one another in their sequences,
// so that each sees one key more than the one before it.
#pragma once

#include <algorithm>

#include "ops/cost.h"

namespace glint {

struct VisibleKeys {
  double first = 0, last = 0;  // that the first and the last token of a sequence see

  explicit VisibleKeys(const Assume& assume)
      : first(2 * assume.visible - assume.longest), last(assume.longest) {}

  // Share of the tokens that see more than `most` keys.
  double share_beyond(double most) const {
    return std::clamp((last - most) / (last - first + 1), 0.0, 1.0);
  }
  // Means over those that see more, and over those that see `most` or fewer.
  double mean_beyond(double most) const { return (std::max(first, most + 1) + last) / 2; }
  double mean_within(double most) const { return (first + std::min(last, most)) / 2; }
};

}  // namespace glint
