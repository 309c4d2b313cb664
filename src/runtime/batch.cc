#include "runtime/batch.h"

#include <algorithm>

#include "base/str.h"

namespace glint {
namespace {

template <class T>
Tensor upload(const std::vector<T>& host, std::initializer_list<std::int64_t> dims, Arena& arena) {
  const Tensor tensor = arena.take(kDTypeOf<T>, dims);
  arena.device().copy_in(tensor.data, host.data(), host.size() * sizeof(T));
  return tensor;
}

}  // namespace

Batch build_batch(const StepPlan& plan, const Tensor& rope_table, Arena& arena) {
  const std::int64_t T = static_cast<std::int64_t>(plan.tokens.size());
  const std::int64_t S = static_cast<std::int64_t>(plan.slices.size());
  std::int64_t P = 1, end = 0;
  for (const SeqSlice& slice : plan.slices) {
    P = std::max<std::int64_t>(P, slice.num_pages);
    end = std::max<std::int64_t>(end, slice.first + slice.count);
  }

  GLINT_CHECK(end <= rope_table.dim(0), "a position beyond the rotary table");

  std::vector<std::int32_t> positions, slots, seqs, logit_rows;
  std::vector<std::int32_t> page_table(static_cast<std::size_t>(S * P), -1);
  for (std::int64_t s = 0; s < S; ++s) {
    const SeqSlice& slice = plan.slices[s];
    GLINT_CHECK(slice.first + slice.count <= slice.num_pages * kPageSize,
                str("slice ", s, " ends at position ", slice.first + slice.count, " but has ",
                    slice.num_pages, " pages"));
    const PageId* pages = plan.pages.data() + slice.page_begin;
    std::copy_n(pages, slice.num_pages, page_table.begin() + s * P);
    for (int i = 0; i < slice.count; ++i) {
      const int position = slice.first + i;
      positions.push_back(position);
      slots.push_back(pages[position / kPageSize] * kPageSize + position % kPageSize);
      seqs.push_back(static_cast<std::int32_t>(s));
      if (i >= slice.count - slice.logit_rows) logit_rows.push_back(slice.token_begin + i);
    }
  }
  const std::int64_t R = static_cast<std::int64_t>(logit_rows.size());
  return {.token_ids = upload(plan.tokens, {T}, arena),
          .view = {.positions = upload(positions, {T}, arena),
                   .slots = upload(slots, {T}, arena),
                   .seqs = upload(seqs, {T}, arena),
                   .page_table = upload(page_table, {S, P}, arena),
                   .rope_table = rope_table,
                   .end = end,
                   .all_tokens = plan.all_tokens},
          .logit_rows = upload(logit_rows, {R}, arena)};
}

}  // namespace glint
