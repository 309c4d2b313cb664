#include <algorithm>
#include <cstring>

#include "backends/reference/reference_ops.h"
#include "base/check.h"

namespace glint {

namespace {

std::int32_t at(const Tensor& ints, std::int64_t i) { return ints.ptr<std::int32_t>()[i]; }
std::int32_t& to(const Tensor& ints, std::int64_t i) { return ints.ptr<std::int32_t>()[i]; }

std::int32_t guess_of(std::int32_t code, const Tensor& guesses) {
  const std::int32_t g = -2 - code;
  GLINT_CHECK(g < guesses.dim(0), "a guess outside of those there are");
  return at(guesses, g);
}

}  // namespace

void ReferenceOps::place_rows(const PlaceRowsArgs& args) {
  check(args);
  const std::int64_t T = args.tokens.dim(0), P = args.page_table.dim(1);
  for (const Tensor* out : {&args.ids, &args.positions, &args.slots, &args.seqs}) {
    std::fill_n(out->ptr<std::int32_t>(), T, -1);
  }
  for (std::int64_t s = 0; s < args.slices.dim(0); ++s) {
    const std::int32_t* const slice = args.slices.row<std::int32_t>(s);
    const std::int32_t begin = slice[0], count = slice[1], seat = slice[3];
    GLINT_CHECK(seat < args.last.dim(0), "place_rows: a seat outside the table");
    const std::int32_t cut = seat >= 0 && args.rejected ? at(args.rejected, seat) : 0;
    const std::int32_t first = slice[2] + (seat >= 0 ? at(args.lengths, seat) + cut : 0);
    GLINT_CHECK(begin >= 0 && count >= 0 && begin + count <= T && first >= 0,
                "place_rows: a slice outside the rows");
    GLINT_CHECK(first + count - cut <= P * kPageSize, "place_rows: a slice beyond its pages");
    for (std::int32_t i = 0; i < count - cut; ++i) {
      const std::int32_t t = begin + i, position = first + i, token = at(args.tokens, t);
      const std::int32_t page = args.page_table.row<std::int32_t>(s)[position / kPageSize];
      std::int32_t id = token;
      if (token == -1 && seat >= 0) id = at(args.last, seat);
      if (token < -1) id = std::max(guess_of(token, args.guesses), -1);
      to(args.ids, t) = id;
      to(args.positions, t) = position;
      to(args.slots, t) = page * kPageSize + position % kPageSize;
      to(args.seqs, t) = static_cast<std::int32_t>(s);
    }
  }
}

void ReferenceOps::place_draws(const PlaceDrawsArgs& args) {
  check(args);
  for (std::int64_t r = 0; r < args.positions.dim(0); ++r) {
    const std::int32_t seat = at(args.seats, r), draft = at(args.drafts, r);
    GLINT_CHECK(seat < args.lengths.dim(0), "place_draws: a seat outside the table");
    if (seat >= 0) to(args.positions, r) += at(args.lengths, seat);
    if (draft < -1) to(args.drafts, r) = guess_of(draft, args.guesses);
  }
}

void ReferenceOps::accept(const AcceptArgs& args) {
  check(args);
  for (std::int64_t s = 0; s < args.draws.dim(0); ++s) {
    const std::int32_t* const draw = args.draws.row<std::int32_t>(s);
    const std::int32_t begin = draw[0], count = draw[1], seat = draw[2], length = draw[3];
    GLINT_CHECK(begin >= 0 && count >= 0 && begin + count <= args.tokens.dim(0),
                "accept: a draw outside the rows");
    GLINT_CHECK(seat < args.last.dim(0), "accept: a seat outside the table");
    if (seat < 0) continue;
    std::int32_t n = 0;
    for (; n < count && at(args.tokens, begin + n) >= 0; ++n) {
      if (n > 0 && at(args.drafts, begin + n) != at(args.tokens, begin + n - 1)) break;
    }
    if (n > 0) to(args.last, seat) = at(args.tokens, begin + n - 1);
    to(args.lengths, seat) = n + (length >= 0 ? length : at(args.lengths, seat));
    to(args.rejected, seat) = count - n;
  }
}

void ReferenceOps::keep_rows(const KeepRowsArgs& args) {
  check(args);
  const std::int64_t bytes = args.x.dim(1) * size_of(args.x.dtype);
  for (std::int64_t s = 0; s < args.rows.dim(0); ++s) {
    const std::int32_t seat = at(args.seats, s);
    GLINT_CHECK(seat < args.out.dim(0), "keep_rows: a seat outside the table");
    if (seat < 0) continue;
    const std::int32_t row = at(args.rows, s) - at(args.rejected, seat);
    GLINT_CHECK(row >= 0 && row < args.x.dim(0), "keep_rows: a row outside of x");
    std::memcpy(args.out.data + seat * bytes, args.x.data + row * bytes,
                static_cast<std::size_t>(bytes));
  }
}

void ReferenceOps::count_tokens(const CountTokensArgs& args) {
  check(args);
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
