#include "runtime/step_rows.h"

#include <algorithm>

#include "base/check.h"

namespace glint {

void StepRows::add(int first, std::span<const TokenId> new_tokens,
                   std::span<const PageId> its_pages, int logit_rows) {
  slices.push_back({.first = first,
                    .count = static_cast<int>(new_tokens.size()),
                    .logit_rows = logit_rows,
                    .token_begin = static_cast<int>(tokens.size()),
                    .page_begin = static_cast<int>(pages.size()),
                    .num_pages = static_cast<int>(its_pages.size())});
  tokens.insert(tokens.end(), new_tokens.begin(), new_tokens.end());
  pages.insert(pages.end(), its_pages.begin(), its_pages.end());
}

std::vector<StepRows> split_rows(const StepRows& all, std::span<const std::int64_t> ends) {
  std::vector<StepRows> parts(ends.size(), StepRows{.step = all.step});
  std::size_t part = 0;
  for (const RowSlice& slice : all.slices) {
    const auto tokens = std::span(all.tokens).subspan(slice.token_begin, slice.count);
    const auto pages = std::span(all.pages).subspan(slice.page_begin, slice.num_pages);
    for (int at = 0; at < slice.count;) {
      const std::int64_t row = slice.token_begin + at;
      while (row >= ends[part]) ++part;
      const int count =
          static_cast<int>(std::min<std::int64_t>(slice.count - at, ends[part] - row));
      const int behind = slice.count - at - count;
      parts[part].add(slice.first + at, tokens.subspan(at, count), pages,
                      std::clamp(slice.logit_rows - behind, 0, count));
      GLINT_CHECK(slice.seat < 0 || count == slice.count,
                  "rows whose place only the device knows are split");
      parts[part].slices.back().seat = slice.seat;
      parts[part].slices.back().from_length = slice.from_length;
      at += count;
    }
  }
  return parts;
}

void count_all_tokens(std::span<StepRows> replicas) {
  if (replicas.size() == 1) return;
  std::int64_t all = 0;
  for (const StepRows& rows : replicas) all += std::ssize(rows.tokens);
  for (StepRows& rows : replicas) rows.all_tokens = all;
}

}  // namespace glint
