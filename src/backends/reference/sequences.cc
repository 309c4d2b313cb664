#include <algorithm>

#include "backends/reference/reference_ops.h"
#include "base/check.h"

namespace glint {

void ReferenceOps::place_rows(const PlaceRowsArgs& args) {
  check(args);
  const std::int64_t T = args.tokens.dim(0), P = args.page_table.dim(1);
  const std::int32_t* const tokens = args.tokens.ptr<std::int32_t>();
  for (const Tensor* out : {&args.ids, &args.positions, &args.slots, &args.seqs}) {
    std::fill_n(out->ptr<std::int32_t>(), T, -1);
  }
  for (std::int64_t s = 0; s < args.slices.dim(0); ++s) {
    const std::int32_t* const slice = args.slices.row<std::int32_t>(s);
    const std::int32_t begin = slice[0], count = slice[1], first = slice[2], seat = slice[3];
    GLINT_CHECK(begin >= 0 && count >= 0 && begin + count <= T && first >= 0,
                "place_rows: a slice outside the rows");
    GLINT_CHECK(first + count <= P * kPageSize, "place_rows: a slice beyond its pages");
    GLINT_CHECK(seat < args.last.dim(0), "place_rows: a seat outside the table");
    for (std::int32_t t = begin; t < begin + count; ++t) {
      const std::int32_t position = first + t - begin;
      const std::int32_t page = args.page_table.row<std::int32_t>(s)[position / kPageSize];
      const bool known = tokens[t] >= 0 || seat < 0;
      args.ids.ptr<std::int32_t>()[t] = known ? tokens[t] : args.last.ptr<std::int32_t>()[seat];
      args.positions.ptr<std::int32_t>()[t] = position;
      args.slots.ptr<std::int32_t>()[t] = page * kPageSize + position % kPageSize;
      args.seqs.ptr<std::int32_t>()[t] = static_cast<std::int32_t>(s);
    }
  }
}

void ReferenceOps::keep_tokens(const KeepTokensArgs& args) {
  check(args);
  for (std::int64_t r = 0; r < args.tokens.dim(0); ++r) {
    const std::int32_t seat = args.seats.ptr<std::int32_t>()[r];
    const std::int32_t token = args.tokens.ptr<std::int32_t>()[r];
    GLINT_CHECK(seat < args.last.dim(0), "keep_tokens: a seat outside the table");
    if (seat >= 0 && token >= 0) args.last.ptr<std::int32_t>()[seat] = token;
  }
}

void ReferenceOps::count_tokens(const CountTokensArgs& args) {
  check(args);
  const auto at = [](const Tensor& ints, std::int64_t r) { return ints.ptr<std::int32_t>()[r]; };
  const auto is_right = [&](const auto& self, std::int64_t r) -> bool {
    if (at(args.seats, r) < 0 || at(args.tokens, r) < 0) return false;
    if (at(args.drafts, r) < 0) return true;
    return r > 0 && at(args.drafts, r) == at(args.tokens, r - 1) && self(self, r - 1);
  };
  for (std::int64_t r = 0; r < args.tokens.dim(0); ++r) {
    if (!is_right(is_right, r)) continue;
    GLINT_CHECK(at(args.seats, r) < args.counts.dim(0), "count_tokens: a seat outside the table");
    GLINT_CHECK(at(args.tokens, r) < args.counts.dim(1), "count_tokens: a token outside the table");
    args.counts.row<std::int32_t>(at(args.seats, r))[at(args.tokens, r)] += kCountOfSaid;
  }
}

}  // namespace glint
