// Looking at every stored value for one that is no number.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "checkpoint/tensor_source.h"

namespace glint {

class ThreadPool;

// The number of the first element of `bytes` that is NaN or infinite; none if all are finite, or if
// `type` has only finite numbers.
std::optional<std::int64_t> first_non_finite(StoredType type, std::span<const std::byte> bytes);

// The largest magnitude of `count` values; infinity if one of them is NaN or infinite.
float largest_or_infinity(const float* values, std::int64_t count);
float largest_or_infinity(const BF16* values, std::int64_t count);

struct NonFinite {
  const StoredTensor* tensor = nullptr;
  std::int64_t count = 0;  // of its NaN and infinite values
  std::int64_t first = 0;  // index of the first, row-major
};

// Reads every value of every tensor that has a float type, scales and FP8 codes included. The
// result is in the order of the tensors. `done` is called from any thread with the bytes just read.
std::vector<NonFinite> find_non_finite(const TensorSource& source, ThreadPool& pool,
                                       const std::function<void(std::int64_t bytes)>& done);

}  // namespace glint
