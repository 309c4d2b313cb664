// TokenConstraint: what may come next in a text that must follow a grammar. Implemented by
// text/grammar/grammar.h, used by the sampler, so that neither knows the other.
//
// One per sequence, used by one thread at a time. Its work is counted, not timed, so that what is
// given up does not depend on the machine or its load.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"

namespace glint {

// In steps of a grammar's parser, each some 50 ns.
inline constexpr std::int64_t kQuickMaskWork = std::int64_t{1} << 16;  // some milliseconds
inline constexpr std::int64_t kMaxMaskWork = std::int64_t{1} << 22;    // some tenths of a second

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  enum class Next {
    kAnything,  // every token may come; the bits are unspecified
    kMasked,    // what the bits say; none: the text is in a dead end
    kEnd,       // nothing but the end of the text, a stop id
    kGivenUp,   // it took more than `max_work`; nothing has changed, the bits are unspecified
  };

  // Sets bit i of `bits` (word i / 32, bit i % 32) for each token i that may come next, and clears
  // the others. `bits` has ceil(vocabulary / 32) words.
  virtual Next fill_mask(std::span<std::uint32_t> bits, std::int64_t max_work) = 0;

  // Takes the next token. False, with nothing changed, if it may not come here. A token that costs
  // too much is taken as well: then every mask that follows is given up.
  virtual bool accept(TokenId token) = 0;

  // Takes back the last `count` accepted tokens: drafts that turned out wrong.
  virtual void rollback(int count) = 0;
};

}  // namespace glint
