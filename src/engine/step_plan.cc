#include "engine/step_plan.h"

#include <algorithm>

#include "base/str.h"

namespace glint {

void StepPlan::add(SeqSlice slice, std::span<const TokenId> new_tokens,
                   std::span<const PageId> its_pages) {
  slice.count = static_cast<int>(new_tokens.size());
  slice.token_begin = static_cast<int>(tokens.size());
  slice.page_begin = static_cast<int>(pages.size());
  slice.num_pages = static_cast<int>(its_pages.size());
  slices.push_back(slice);
  tokens.insert(tokens.end(), new_tokens.begin(), new_tokens.end());
  pages.insert(pages.end(), its_pages.begin(), its_pages.end());
}

std::string describe(const StepPlan& plan) {
  constexpr std::size_t kMaxLines = 64;
  std::string text =
      str("step ", plan.step, ": ", plan.slices.size(), " sequences, ", plan.tokens.size(),
          " tokens, ", plan.started.size(), " started, ", plan.ended.size(), " ended");
  for (std::size_t i = 0; i < std::min(plan.slices.size(), kMaxLines); ++i) {
    const SeqSlice& slice = plan.slices[i];
    text += str("\n  request ", slice.id, ": positions ", slice.first, " to ",
                slice.first + slice.count - 1, ", ", slice.num_drafts, " drafts, ",
                slice.sample ? "samples, " : "", slice.num_pages, " pages",
                slice.replica > 0 ? str(" of replica ", slice.replica) : "");
  }
  if (plan.slices.size() > kMaxLines)
    text += str("\n  and ", plan.slices.size() - kMaxLines, " more");
  return text;
}

}  // namespace glint
