// Cases of place_rows, keep_tokens and count_tokens.
#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

// Slices with gaps of padding before, between and after them; every second has a seat.
Case place_rows_case(std::int64_t S, std::int64_t count, std::int64_t gap) {
  return {.op = "place_rows",
          .name = str(S, " slices of ", count, " rows, ", gap, " of padding"),
          .need = {.ops = {Op::kPlaceRows}},
          .prepare = [=](Workspace& ws) {
            const std::int64_t T = gap + S * (count + gap), seats = 2 * S + 1;
            std::vector<std::int32_t> tokens(static_cast<std::size_t>(T), -1), slices, last, pages;
            std::int32_t furthest = 0;
            for (std::int64_t s = 0; s < S; ++s) {
              const auto begin = static_cast<std::int32_t>(gap + s * (count + gap));
              const auto first = static_cast<std::int32_t>(s * 61);
              furthest = std::max(furthest, first + static_cast<std::int32_t>(count));
              slices.insert(slices.end(), {begin, static_cast<std::int32_t>(count), first,
                                           s % 2 ? static_cast<std::int32_t>(2 * s + 1) : -1});
              for (std::int64_t i = 0; i + 1 < count; ++i) {
                tokens[static_cast<std::size_t>(begin + i)] = static_cast<std::int32_t>(7 * s + i);
              }
            }
            for (std::int64_t n = 0; n < seats; ++n) {
              last.push_back(static_cast<std::int32_t>(1000 + n));
            }
            const std::int64_t P = (furthest + kPageSize - 1) / kPageSize + 1;
            for (std::int64_t i = 0; i < S * P; ++i) {
              pages.push_back(static_cast<std::int32_t>(i * 13 % 1009));
            }
            const PlaceRowsArgs args = {.tokens = ws.ints(tokens, {T}),
                                        .slices = ws.ints(slices, {S, 4}),
                                        .page_table = ws.ints(pages, {S, P}),
                                        .last = ws.ints(last, {seats}),
                                        .ids = ws.whole_output("ids", DType::kI32, {T}),
                                        .positions = ws.whole_output("positions", DType::kI32, {T}),
                                        .slots = ws.whole_output("slots", DType::kI32, {T}),
                                        .seqs = ws.whole_output("seqs", DType::kI32, {T})};
            return Call{[=, &ws] { ws.ops().place_rows(args); }, cost(args)};
          }};
}

Case keep_tokens_case(std::int64_t R) {
  return {.op = "keep_tokens",
          .name = str(R, " tokens"),
          .need = {.ops = {Op::kKeepTokens}},
          .prepare = [=](Workspace& ws) {
            std::vector<std::int32_t> tokens, seats;
            const std::vector<std::int32_t> last(static_cast<std::size_t>(2 * R + 1), 5);
            for (std::int64_t r = 0; r < R; ++r) {
              tokens.push_back(static_cast<std::int32_t>(r % 5 == 4 ? -1 : 100 + r));
              seats.push_back(static_cast<std::int32_t>(r % 3 == 2 ? -1 : 2 * (R - r)));
            }
            const KeepTokensArgs args = {
                .tokens = ws.ints(tokens, {R}),
                .seats = ws.ints(seats, {R}),
                .last = ws.whole_updated("last", ws.ints(last, {2 * R + 1}))};
            return Call{[=, &ws] { ws.ops().keep_tokens(args); }, cost(args)};
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
      cases.push_back(keep_tokens_case(S));
      cases.push_back(count_tokens_case(S, 154880));
    }
    return;
  }
  for (const std::int64_t S : {0, 1, 2, 130}) {
    for (const std::int64_t count : {1, 5, 300}) {
      for (const std::int64_t gap : {0, 3}) cases.push_back(place_rows_case(S, count, gap));
    }
  }
  for (const std::int64_t R : {0, 1, 7, 300}) cases.push_back(keep_tokens_case(R));
  for (const std::int64_t R : {0, 1, 7, 300}) cases.push_back(count_tokens_case(R, 3));
  cases.push_back(count_tokens_case(20, 1001));
}

}  // namespace glint::conformance
