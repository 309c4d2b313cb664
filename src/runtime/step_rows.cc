#include "runtime/step_rows.h"

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

void count_all_tokens(std::span<StepRows> shards) {
  if (shards.size() == 1) return;
  std::int64_t all = 0;
  for (const StepRows& rows : shards) all += std::ssize(rows.tokens);
  for (StepRows& rows : shards) rows.all_tokens = all;
}

}  // namespace glint
