// Cases of place_rows, place_draws, accept, keep_rows and count_tokens.
#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

// Slices with gaps of padding before, between and after them; every second has a seat, whose length
// is where it begins, and whose last row may be cut off. Tokens are known, a seat's last, or
// guesses of which one is none.
Case place_rows_case(std::int64_t S, std::int64_t count, std::int64_t gap, bool cuts = false) {
  return {.op = "place_rows",
          .name = str(S, " slices of ", count, " rows, ", gap, " of padding", cuts ? ", cut" : ""),
          .need = {.ops = {Op::kPlaceRows}},
          .prepare = [=](Workspace& ws) {
            const std::int64_t T = gap + S * (count + gap), seats = 2 * S + 1;
            std::vector<std::int32_t> tokens(static_cast<std::size_t>(T), -1), slices, last, pages;
            std::vector<std::int32_t> lengths(static_cast<std::size_t>(seats)), rejected;
            std::int32_t furthest = 0;
            for (std::int64_t n = 0; n < seats; ++n) {
              last.push_back(static_cast<std::int32_t>(1000 + n));
              rejected.push_back(static_cast<std::int32_t>(std::min(count, n % 4 / 2)));
            }
            for (std::int64_t s = 0; s < S; ++s) {
              const auto begin = static_cast<std::int32_t>(gap + s * (count + gap));
              const auto first = static_cast<std::int32_t>(s * 61);
              const auto seat = s % 2 ? static_cast<std::int32_t>(2 * s + 1) : -1;
              const std::int32_t offset = static_cast<std::int32_t>(s % 5) - 2;
              furthest = std::max(furthest, first + static_cast<std::int32_t>(count) + 1);
              if (seat >= 0) lengths[static_cast<std::size_t>(seat)] = first - offset;
              slices.insert(slices.end(), {begin, static_cast<std::int32_t>(count),
                                           seat >= 0 ? offset : first, seat});
              for (std::int64_t i = 0; i + 1 < count; ++i) {
                tokens[static_cast<std::size_t>(begin + i)] =
                    static_cast<std::int32_t>(i % 3 == 1 ? -2 - (s + i) % 3 : 7 * s + i);
              }
            }
            const std::int64_t P = pages_of(furthest) + 1;
            for (std::int64_t i = 0; i < S * P; ++i) {
              pages.push_back(static_cast<std::int32_t>(i * 13 % 1009));
            }
            PlaceRowsArgs args = {.tokens = ws.ints(tokens, {T}),
                                  .slices = ws.ints(slices, {S, 4}),
                                  .page_table = ws.ints(pages, {S, P}),
                                  .last = ws.ints(last, {seats}),
                                  .lengths = ws.ints(lengths, {seats}),
                                  .guesses = ws.ints({40, -1, 42}, {3}),
                                  .ids = ws.whole_output("ids", DType::kI32, {T}),
                                  .positions = ws.whole_output("positions", DType::kI32, {T}),
                                  .slots = ws.whole_output("slots", DType::kI32, {T}),
                                  .seqs = ws.whole_output("seqs", DType::kI32, {T})};
            if (cuts) args.rejected = ws.ints(rejected, {seats});
            return Call{[=, &ws] { ws.ops().place_rows(args); }, cost(args)};
          }};
}

Case place_draws_case(std::int64_t R) {
  return {.op = "place_draws",
          .name = str(R, " rows"),
          .need = {.ops = {Op::kPlaceDraws}},
          .prepare = [=](Workspace& ws) {
            std::vector<std::int32_t> positions, drafts, seats, lengths;
            for (std::int64_t r = 0; r < R; ++r) {
              positions.push_back(static_cast<std::int32_t>(r % 4));
              drafts.push_back(static_cast<std::int32_t>(r % 3 ? r % 5 - 4 : r));
              seats.push_back(static_cast<std::int32_t>(r % 7 == 6 ? -1 : r / 4));
              lengths.push_back(static_cast<std::int32_t>(100 * r + 5));
            }
            const PlaceDrawsArgs args = {
                .positions = ws.whole_updated("positions", ws.ints(positions, {R})),
                .drafts = ws.whole_updated("drafts", ws.ints(drafts, {R})),
                .seats = ws.ints(seats, {R}),
                .lengths = ws.ints(lengths, {R}),
                .guesses = ws.ints({70, 71, 72}, {3})};
            return Call{[=, &ws] { ws.ops().place_draws(args); }, cost(args)};
          }};
}

// Draws of 0 to `most` rows, with drafts that are right, wrong, and right after wrong ones; some
// tokens are none, and some draws are nobody's.
Case accept_case(std::int64_t S, std::int64_t most) {
  return {
      .op = "accept",
      .name = str(S, " draws of up to ", most, " rows"),
      .need = {.ops = {Op::kAccept}},
      .prepare = [=](Workspace& ws) {
        std::vector<std::int32_t> tokens, drafts, draws, table;
        for (std::int64_t s = 0; s < S; ++s) {
          const auto begin = static_cast<std::int32_t>(tokens.size());
          const auto count = static_cast<std::int32_t>((s + most) % (most + 1));
          for (std::int32_t i = 0; i < count; ++i) {
            const std::int32_t before = i > 0 ? tokens.back() : 0;
            drafts.push_back((s * i) % 5 == 3 ? before + 1 : before);
            tokens.push_back(static_cast<std::int32_t>((s + i) % 11 == 10 ? -1 - i % 2 : s + i));
          }
          draws.insert(draws.end(),
                       {begin, count, static_cast<std::int32_t>(s % 6 == 5 ? -1 : 2 * (S - s)),
                        static_cast<std::int32_t>(s % 2 ? -1 : 50 + s)});
        }
        const std::int64_t N = 2 * S + 1, R = std::ssize(tokens);
        for (std::int64_t n = 0; n < N; ++n) table.push_back(static_cast<std::int32_t>(9 * n));
        const AcceptArgs args = {.tokens = ws.ints(tokens, {R}),
                                 .drafts = ws.ints(drafts, {R}),
                                 .draws = ws.ints(draws, {S, 4}),
                                 .last = ws.whole_updated("last", ws.ints(table, {N})),
                                 .lengths = ws.whole_updated("lengths", ws.ints(table, {N})),
                                 .rejected = ws.whole_updated("rejected", ws.ints(table, {N}))};
        return Call{[=, &ws] { ws.ops().accept(args); }, cost(args)};
      }};
}

Case keep_rows_case(DType dtype, std::int64_t S, std::int64_t D) {
  return {.op = "keep_rows",
          .name = str(short_name(dtype), ", ", S, " rows of ", D),
          .need = {.ops = {Op::kKeepRows}, .activations = {dtype}},
          .prepare = [=](Workspace& ws) {
            const std::int64_t T = 2 * S + 1, N = S + 3;
            std::vector<std::int32_t> rows, seats, rejected;
            for (std::int64_t s = 0; s < S; ++s) {
              rows.push_back(static_cast<std::int32_t>(2 * s + 1));
              seats.push_back(static_cast<std::int32_t>(s % 4 == 3 ? -1 : S - s));
            }
            for (std::int64_t n = 0; n < N; ++n) {
              rejected.push_back(static_cast<std::int32_t>(n % 2));
            }
            const KeepRowsArgs args = {.x = ws.input(dtype, {T, D}),
                                       .rows = ws.ints(rows, {S}),
                                       .seats = ws.ints(seats, {S}),
                                       .rejected = ws.ints(rejected, {N}),
                                       .out = ws.whole_updated("out", ws.input(dtype, {N, D}))};
            return Call{[=, &ws] { ws.ops().keep_rows(args); }, cost(args)};
          }};
}

// Rows of a seat one after the other, with drafts that are right, wrong, and right after wrong
// ones.
Case count_tokens_case(std::int64_t R, std::int64_t V) {
  return {.op = "count_tokens",
          .name = str(R, " rows of ", V, " ids"),
          .need = {.ops = {Op::kCountTokens}},
          .prepare = [=](Workspace& ws) {
            std::vector<std::int32_t> tokens, drafts, seats;
            std::vector<std::int32_t> counts(static_cast<std::size_t>((R + 1) * V));
            for (std::size_t i = 0; i < counts.size(); i += 3) {
              counts[i] = static_cast<std::int32_t>(i % 17);
            }
            for (std::int64_t r = 0; r < R; ++r) {
              const std::int32_t before = r > 0 ? tokens.back() : 0;
              tokens.push_back(static_cast<std::int32_t>(r % 13 == 12 ? -1 : r * r % V));
              drafts.push_back(r % 5 == 0 ? -1 : r % 7 == 6 ? before + 1 : before);
              seats.push_back(static_cast<std::int32_t>(r / 5 % 4 == 3 ? -1 : R - r / 5));
            }
            const CountTokensArgs args = {
                .tokens = ws.ints(tokens, {R}),
                .drafts = ws.ints(drafts, {R}),
                .seats = ws.ints(seats, {R}),
                .counts = ws.whole_updated("counts", ws.ints(counts, {R + 1, V}))};
            return Call{[=, &ws] { ws.ops().count_tokens(args); }, cost(args)};
          }};
}

}  // namespace

void add_sequences_cases(std::vector<Case>& cases, bool timing) {
  if (timing) {
    for (const std::int64_t S : {1, 128}) {
      cases.push_back(place_rows_case(S, 1, 0));
      cases.push_back(place_draws_case(4 * S));
      cases.push_back(accept_case(S, 4));
      cases.push_back(keep_rows_case(DType::kBF16, S, 6144));
      cases.push_back(count_tokens_case(S, 154880));
    }
    return;
  }
  for (const std::int64_t S : {0, 1, 2, 130}) {
    for (const std::int64_t count : {1, 5, 300}) {
      for (const std::int64_t gap : {0, 3}) cases.push_back(place_rows_case(S, count, gap));
      cases.push_back(place_rows_case(S, count, 2, true));
    }
  }
  for (const std::int64_t R : {0, 1, 7, 300}) cases.push_back(place_draws_case(R));
  for (const std::int64_t S : {0, 1, 7, 300}) {
    for (const std::int64_t most : {1, 2, 5}) cases.push_back(accept_case(S, most));
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::int64_t D : {1, 300}) cases.push_back(keep_rows_case(dtype, S, D));
    }
  }
  for (const std::int64_t R : {0, 1, 7, 300}) cases.push_back(count_tokens_case(R, 3));
  cases.push_back(count_tokens_case(20, 1001));
}

}  // namespace glint::conformance
