// Tables of what Python's str knows about characters; characters.h is the way to them.
#pragma once

#include <cstdint>
#include <span>

namespace glint::jinja {

struct CodePointRange {
  std::uint32_t first, last;
};

struct CaseRun {  // every step-th character of [first, last] moves by delta
  std::uint32_t first, last, step;
  std::int32_t delta;
};

struct LongCase {  // a character that becomes several; unused places are 0
  std::uint32_t from;
  std::uint32_t to[3];
};

struct CaseMapping {
  std::span<const CaseRun> runs;
  std::span<const LongCase> longer;
};

// Sorted, without overlap.
extern const std::span<const CodePointRange> kAlpha, kDecimal, kDigit, kNumeric, kSpace, kPrintable,
    kLower, kUpper, kCased, kCaseIgnorable, kIdentifierStart, kIdentifierPart;
extern const CaseMapping kToLower, kToUpper, kToTitle, kToFold;

}  // namespace glint::jinja
