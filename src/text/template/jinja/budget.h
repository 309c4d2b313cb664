// Limits on a template's work and memory. A template is hostile input: every loop, call and growing
// value spends from a Budget, and an empty Budget is an error, never a hang or a crash.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/str.h"

namespace glint::jinja {

struct Limits {
  std::uint64_t max_steps = 20'000'000;  // nodes evaluated, items iterated: about a second
  std::uint64_t max_bytes = std::uint64_t{1} << 29;  // of all values made, alive or not
  std::size_t max_output_bytes = std::size_t{1} << 26;
  int max_depth = 1500;  // of nested evaluation: expressions, statements and macro calls together
};

// How deep values may nest. Printing, comparing and freeing them recurse.
inline constexpr int kMaxValueDepth = 500;

class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  Status spend_steps(std::uint64_t count) {
    steps_ += count;
    if (steps_ <= limits_.max_steps) return Ok{};
    return used_up("steps", limits_.max_steps);
  }

  // For a text of `bytes` whose characters are looked up one by one: a step takes as long as a few.
  Status spend_reading(std::uint64_t bytes) { return spend_steps(bytes / 4); }

  // To be called before memory for a value of `count` bytes is taken.
  Status spend_bytes(std::uint64_t count) {
    if (count > limits_.max_bytes - bytes_) return used_up("bytes of values", limits_.max_bytes);
    bytes_ += count;
    return Ok{};
  }

  const Limits& limits() const { return limits_; }
  std::uint64_t bytes_left() const { return limits_.max_bytes - bytes_; }

 private:
  static Error used_up(const char* what, std::uint64_t limit) {
    return exhausted(str("the template uses more than ", limit, " ", what));
  }

  Limits limits_;
  std::uint64_t steps_ = 0;
  std::uint64_t bytes_ = 0;  // never above max_bytes
};

}  // namespace glint::jinja
