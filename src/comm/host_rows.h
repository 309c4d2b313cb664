// Rows of tensors in host memory: added, and copied.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "comm/comm.h"
#include "comm/tree.h"
#include "tensor/tensor.h"

namespace glint {

// Elements [begin, end) of out = the tree's sum (tree.h) of `parts`, f32 tensors of out's size,
// rounded once to out's type. All dense.
inline void add_parts(std::span<const Tensor> parts, const Tensor& out, std::int64_t begin,
                      std::int64_t end) {
  with_float_type(out.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = begin; i < end; ++i) {
      out.ptr<T>()[i] = from_float<T>(tree_sum(static_cast<int>(parts.size()), [&](int p) {
        return parts[static_cast<std::size_t>(p)].ptr<float>()[i];
      }));
    }
  });
}

// Zeros a dense tensor.
inline void clear(const Tensor& x) {
  std::fill_n(x.data, x.size() * size_of(x.dtype), std::byte{});
}

// to[i] = x[rows[begin + i]], or x[begin + i] where `rows` is empty, for `count` i's. `x` may
// have strided rows, `to` is dense.
inline void copy_rows(const Tensor& x, const Tensor& rows, std::int64_t begin, const Tensor& to,
                      std::int64_t count) {
  const std::int64_t element = size_of(x.dtype), width = x.rank > 1 ? x.dim(1) : 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = rows ? rows.ptr<std::int32_t>()[begin + i] : begin + i;
    GLINT_CHECK(from >= 0 && from < x.dim(0), "a row that is not there is to be sent");
    std::memcpy(to.data + i * width * element, x.data + from * x.stride[0] * element,
                static_cast<std::size_t>(width * element));
  }
}

// Rows [begin, begin + count) of what rank `other` sends, in its order of sending, which become the
// receiver's rows of `out` from `at` on.
struct SentRows {
  int other = 0;
  std::int64_t begin = 0, count = 0, at = 0;
};

// The number of rows that `from` sends `to` in the first exchange, and where they begin among all
// that it sends.
inline std::int64_t dealt(const ExchangeArgs& args, int from, int to) {
  const std::int32_t* const offsets = args.offsets.row<std::int32_t>(from);
  return offsets[args.first[to + 1]] - offsets[args.first[to]];
}
inline std::int64_t begin_of(const ExchangeArgs& args, int from, int to) {
  return args.offsets.row<std::int32_t>(from)[args.first[to]];
}

// The rows that each of `size` ranks sends to `rank`. Forward, one stretch behind the other;
// backwards, rank r has what it got from this rank behind what it got from the ranks before. They
// fit into `out` if that is the rank's.
inline std::vector<SentRows> rows_sent_to(const ExchangeArgs& args, int rank, int size,
                                          bool fits = true) {
  std::vector<SentRows> all;
  std::int64_t at = 0;
  for (int r = 0; r < size; ++r) {
    if (!args.backwards) {
      all.push_back({r, begin_of(args, r, rank), dealt(args, r, rank), at});
      at += all.back().count;
      continue;
    }
    std::int64_t behind = 0;
    for (int s = 0; s < rank; ++s) behind += dealt(args, s, r);
    all.push_back({r, behind, dealt(args, rank, r), begin_of(args, rank, r)});
  }
  for (const SentRows& s : all) {
    GLINT_CHECK(!fits || s.at + s.count <= args.out.dim(0), "exchange: more rows than `out` has");
  }
  return all;
}

}  // namespace glint
