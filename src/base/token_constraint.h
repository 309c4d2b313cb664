// TokenConstraint: what may come next in a text that must follow a grammar. Implemented by
// text/grammar.h, used by the sampler, so that neither knows the other.
//
// One per sequence, used by one thread at a time.
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"

namespace glint {

class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Sets bit i of `bits` (word i / 32, bit i % 32) for each token i that may come next, and clears
  // the others. `bits` has ceil(vocabulary / 32) words. Returns false, with `bits` unspecified, if
  // every token may come.
  virtual bool fill_mask(std::span<std::uint32_t> bits) = 0;

  // Takes the next token. False, with nothing changed, if it may not come here.
  virtual bool accept(TokenId token) = 0;

  // Takes back the last `count` accepted tokens: drafts that turned out wrong.
  virtual void rollback(int count) = 0;

  // Nothing but the end of the answer may come.
  virtual bool is_complete() const = 0;
};

}  // namespace glint
