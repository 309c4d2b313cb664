// The sizes of select_keys' memory: a block's queries, and their scores of all keys.
#pragma once

#include <algorithm>

#include "backends/cpu/products.h"

namespace glint::cpu {

struct KeyScores {
  bool as_bf16;
  std::int64_t heads, stride;  // of the indexer; elements of a query's row
  std::int64_t most;           // tokens of a block

  KeyScores(const SelectKeysArgs& args, const Products& products)
      : as_bf16(products.in_bf16(args.q.dtype, weight_format(args.cache.format))),
        heads(args.q.dim(1)),
        stride(x_stride(args.q.dim(2))),
        most(std::max<std::int64_t>(1, Scratch::kTokens / heads)) {}

  // A page of keys as a weight.
  static WeightFormat weight_format(IndexFormat format) {
    static constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBF16,
                                                WeightFormat::kFp8Block};
    return kFormats[static_cast<std::size_t>(format)];
  }

  int size() const { return as_bf16 ? 2 : 4; }
  std::int64_t query_bytes() const { return most * heads * stride * size(); }
  std::int64_t score_bytes(std::int64_t tokens, std::int64_t visible) const {
    return tokens * aligned_up(visible, kPageSize) * std::int64_t{sizeof(float)};
  }
};

}  // namespace glint::cpu
