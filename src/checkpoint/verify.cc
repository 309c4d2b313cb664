#include "checkpoint/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/thread_pool.h"

namespace glint {
namespace {

constexpr std::size_t kPartBytes = std::size_t{8} << 20;  // a multiple of every element's size

// Which bit patterns of a type are NaN or infinite: those with all bits of `mask` set. Types whose
// every pattern is a number have no mask.
struct Pattern {
  int bytes = 0;
  std::uint64_t mask = 0;
};

Pattern pattern_of(StoredType type) {
  switch (type) {
    case StoredType::kF8E4M3:
      return {1, 0x7f};
    case StoredType::kF8E5M2:
      return {1, 0x7c};
    case StoredType::kF8E8M0:
      return {1, 0xff};
    case StoredType::kF16:
      return {2, 0x7c00};
    case StoredType::kBF16:
      return {2, 0x7f80};
    case StoredType::kF32:
    case StoredType::kC64:
      return {4, 0x7f800000};
    case StoredType::kF64:
      return {8, 0x7ff0000000000000};
    default:
      return {};
  }
}

template <class Word>
std::int64_t count_matches(std::span<const std::byte> bytes, std::uint64_t mask64) {
  const auto mask = static_cast<Word>(mask64);
  std::int64_t count = 0;
  for (std::size_t i = 0; i + sizeof(Word) <= bytes.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    count += (word & mask) == mask;
  }
  return count;
}

std::int64_t count_matches(std::span<const std::byte> bytes, const Pattern& pattern) {
  switch (pattern.bytes) {
    case 1:
      return count_matches<std::uint8_t>(bytes, pattern.mask);
    case 2:
      return count_matches<std::uint16_t>(bytes, pattern.mask);
    case 4:
      return count_matches<std::uint32_t>(bytes, pattern.mask);
    default:
      return count_matches<std::uint64_t>(bytes, pattern.mask);
  }
}

std::int64_t first_match(std::span<const std::byte> bytes, const Pattern& pattern) {
  const auto size = static_cast<std::size_t>(pattern.bytes);
  std::size_t i = 0;
  while (!count_matches(bytes.subspan(i * size, size), pattern)) ++i;
  return static_cast<std::int64_t>(i);
}

// Without its sign, a float's bits order as its magnitude does, and NaN comes above infinity. BF16
// is the upper half of f32.
template <class Bits, class Float>
float largest_magnitude_of(const Float* values, std::int64_t count) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  Bits largest = 0;
  for (std::int64_t i = 0; i < count; ++i)
    largest = std::max<Bits>(largest, std::bit_cast<Bits>(values[i]) & kMagnitude);
  const auto value = std::bit_cast<float>(std::uint32_t{largest} << (32 - 8 * sizeof(Bits)));
  return std::isfinite(value) ? value : INFINITY;
}

struct Part {
  const StoredTensor* tensor = nullptr;
  std::size_t begin = 0, size = 0;  // bytes
  std::int64_t count = 0;
};

}  // namespace

std::optional<std::int64_t> first_non_finite(StoredType type, std::span<const std::byte> bytes) {
  const Pattern pattern = pattern_of(type);
  if (!pattern.mask || !count_matches(bytes, pattern)) return {};
  return first_match(bytes, pattern);
}

float largest_or_infinity(const float* values, std::int64_t count) {
  return largest_magnitude_of<std::uint32_t>(values, count);
}
float largest_or_infinity(const BF16* values, std::int64_t count) {
  return largest_magnitude_of<std::uint16_t>(values, count);
}

std::vector<NonFinite> find_non_finite(const TensorSource& source, ThreadPool& pool,
                                       const std::function<void(std::int64_t bytes)>& done) {
  std::vector<Part> parts;
  for (const StoredTensor& tensor : source.tensors()) {
    if (!pattern_of(tensor.type).mask) continue;
    for (std::size_t at = 0; at < tensor.bytes.size(); at += kPartBytes) {
      parts.push_back({&tensor, at, std::min(kPartBytes, tensor.bytes.size() - at)});
    }
  }
  pool.run_dynamic(std::ssize(parts), [&](std::int64_t i, int) {
    Part& part = parts[static_cast<std::size_t>(i)];
    part.count = count_matches(part.tensor->bytes.subspan(part.begin, part.size),
                               pattern_of(part.tensor->type));
    if (done) done(static_cast<std::int64_t>(part.size));
  });
  std::vector<NonFinite> found;
  for (const Part& part : parts) {
    if (!part.count) continue;
    if (found.empty() || found.back().tensor != part.tensor) {
      const Pattern pattern = pattern_of(part.tensor->type);
      const auto begin = static_cast<std::int64_t>(part.begin) / pattern.bytes;
      found.push_back(
          {.tensor = part.tensor,
           .first = begin + first_match(part.tensor->bytes.subspan(part.begin), pattern)});
    }
    found.back().count += part.count;
  }
  return found;
}

}  // namespace glint
