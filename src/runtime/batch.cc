#include "runtime/batch.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/str.h"

namespace glint {
namespace {

template <class T>
Tensor upload(const std::vector<T>& host, std::initializer_list<std::int64_t> dims, Arena& arena) {
  const Tensor tensor = arena.take(kDTypeOf<T>, dims);
  arena.device().copy_in(tensor.data, host.data(), host.size() * sizeof(T));
  return tensor;
}

// cos and sin [T, pairs] of position * inv_freq. The product is rounded to f32 once, as every
// implementation of the model does: at position 200,000 that angle is up to 0.008 rad off the exact
// one, and the weights have learned with it.
void rope_table(std::span<const std::int32_t> positions, const Rotation& rotation,
                std::vector<float>& cos, std::vector<float>& sin) {
  for (const std::int32_t position : positions) {
    for (const float frequency : rotation.inv_freq) {
      const float angle = static_cast<float>(position) * frequency;
      const auto c = static_cast<float>(std::cos(static_cast<double>(angle)));
      const auto s = static_cast<float>(std::sin(static_cast<double>(angle)));
      cos.push_back(c * rotation.attention_factor);
      sin.push_back(s * rotation.attention_factor);
    }
  }
}

}  // namespace

Batch build_batch(const StepPlan& plan, const Rotation& rotation, Arena& arena) {
  const std::int64_t T = static_cast<std::int64_t>(plan.tokens.size());
  const std::int64_t S = static_cast<std::int64_t>(plan.slices.size());
  std::int64_t P = 1, end = 0;
  for (const SeqSlice& slice : plan.slices) {
    P = std::max<std::int64_t>(P, slice.num_pages);
    end = std::max<std::int64_t>(end, slice.first + slice.count);
  }

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
  std::vector<float> cos, sin;
  rope_table(positions, rotation, cos, sin);
  const std::int64_t pairs = static_cast<std::int64_t>(rotation.inv_freq.size());
  const std::int64_t R = static_cast<std::int64_t>(logit_rows.size());
  return {.token_ids = upload(plan.tokens, {T}, arena),
          .view = {.positions = upload(positions, {T}, arena),
                   .slots = upload(slots, {T}, arena),
                   .seqs = upload(seqs, {T}, arena),
                   .page_table = upload(page_table, {S, P}, arena),
                   .cos = upload(cos, {T, pairs}, arena),
                   .sin = upload(sin, {T, pairs}, arena),
                   .end = end},
          .logit_rows = upload(logit_rows, {R}, arena)};
}

}  // namespace glint
