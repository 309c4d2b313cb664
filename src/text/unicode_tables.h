// The tables behind unicode_normalize.cc, written by tools/make_unicode_tables.py. Each is sorted
// by its first member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace glint {

// Characters of one combining class that is not 0.
struct CombiningRun {
  char32_t first, last;
  std::uint8_t combining_class;
};
extern const CombiningRun kCombiningRuns[];
extern const std::size_t kNumCombiningRuns;

// One step of a canonical decomposition, into one or two characters (`second` is 0 for one).
struct Decomposition {
  char32_t character, first, second;
};
extern const Decomposition kDecompositions[];
extern const std::size_t kNumDecompositions;

// Indices of the decompositions that composing undoes, sorted by (first, second).
extern const std::uint16_t kCompositions[];
extern const std::size_t kNumCompositions;

// Characters of class 0 that compose with one before them.
extern const char32_t kJoining[];
extern const std::size_t kNumJoining;

// The whole compatibility decomposition, where it is not the canonical one.
struct Expansion {
  char32_t character;
  const char32_t* text;
};
extern const Expansion kExpansions[];
extern const std::size_t kNumExpansions;

// Every `step`th character from first to last has its lower case `distance` behind it.
struct LowerRun {
  char32_t first, last;
  std::uint8_t step;
  std::int32_t distance;
};
extern const LowerRun kLowerRuns[];
extern const std::size_t kNumLowerRuns;

}  // namespace glint
