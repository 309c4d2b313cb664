#include "runtime/grammar_masks.h"

namespace glint {

void GrammarMasks::start(std::span<const SliceRun> runs) {
  masks_.clear();
  masks_.resize(runs.size());
  const auto constrained = [](const SliceRun& run) {
    return run.slice->sample && run.sequence->request->constraint;
  };
  if (std::none_of(runs.begin(), runs.end(), constrained)) return;
  worker_.start([this, runs, constrained] {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (constrained(runs[i])) fill(runs[i], masks_[i]);
    }
  });
}

void GrammarMasks::fill(const SliceRun& run, RowMasks& masks) const {
  TokenConstraint& constraint = *run.sequence->request->constraint;
  int accepted = 0;
  for (std::size_t r = 0; r <= run.drafts.size(); ++r) {
    std::vector<std::uint32_t>& bits = masks.rows.emplace_back(words_);
    if (!constraint.fill_mask(bits)) bits.clear();
    if (r == run.drafts.size() || !constraint.accept(run.drafts[r])) break;
    ++accepted;
  }
  if (accepted) constraint.rollback(accepted);
}

}  // namespace glint
