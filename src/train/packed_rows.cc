#include "train/packed_rows.h"

#include <algorithm>

#include "ops/kv_layout.h"
#include "train/gradient_source.h"

namespace glint {
namespace {

// The keys of tokens [first, last) of a sequence, whose rows are there already, for its new page
// at `to`: in runs that lie one after another on both sides.
void copy_keys(const std::vector<std::int32_t>& row_of, const std::vector<int>& slot_of_row,
               std::size_t first, std::size_t last, int to, std::vector<KeyCopy>& copies) {
  for (std::size_t t = first; t < last; ++t, ++to) {
    const int from = slot_of_row[static_cast<std::size_t>(row_of[t])];
    if (t > first && copies.back().from + copies.back().count == from && from % kPageSize != 0) {
      ++copies.back().count;
    } else {
      copies.push_back({.from = from, .to = to, .count = 1});
    }
  }
}

}  // namespace

PackedRows pack(std::span<const TrainSequence> sequences, bool shares) {
  PackedRows packed;
  std::vector<PageId> pages;  // of the sequence before
  std::vector<int> slot_of_row;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::vector<TokenId>& ids = sequences[i].ids;
    const std::size_t shared = shares && i > 0 ? common_tokens(sequences[i - 1], sequences[i]) : 0;
    packed.shared.push_back(static_cast<std::int64_t>(shared));
    std::vector<std::int32_t> row_of;
    if (shared > 0)
      row_of.assign(packed.row_of[i - 1].begin(), packed.row_of[i - 1].begin() + shared);
    if (shared < ids.size()) {
      pages.resize(shared / kPageSize);
      while (std::ssize(pages) * kPageSize < std::ssize(ids)) pages.push_back(packed.num_pages++);
      const std::size_t whole = shared / kPageSize * kPageSize;
      copy_keys(row_of, slot_of_row, whole, shared, pages[shared / kPageSize] * kPageSize,
                packed.copies);
      packed.rows.add(static_cast<int>(shared), std::span(ids).subspan(shared), pages, 0);
    }
    for (std::size_t t = shared; t < ids.size(); ++t) {
      row_of.push_back(static_cast<std::int32_t>(slot_of_row.size()));
      slot_of_row.push_back(pages[t / kPageSize] * kPageSize + static_cast<int>(t % kPageSize));
    }
    packed.row_of.push_back(std::move(row_of));
  }
  return packed;
}

PackedRows part_of(const PackedRows& all, int part, int parts) {
  const auto begin = static_cast<int>(all.size() * part / parts);
  const auto end = static_cast<int>(all.size() * (part + 1) / parts);
  PackedRows mine = {.shared = all.shared, .num_pages = all.num_pages};
  GLINT_CHECK(all.copies.empty(), "keys are copied where all rows are");
  for (const RowSlice& slice : all.rows.slices) {
    const int first = std::max(slice.token_begin, begin);
    const int last = std::min(slice.token_begin + slice.count, end);
    if (first >= last) continue;
    const auto of = [](const auto& values, int from, int count) {
      return std::span(values).subspan(static_cast<std::size_t>(from),
                                       static_cast<std::size_t>(count));
    };
    mine.rows.add(slice.first + first - slice.token_begin, of(all.rows.tokens, first, last - first),
                  of(all.rows.pages, slice.page_begin, slice.num_pages), 0);
  }
  mine.row_of = all.row_of;
  for (auto& rows : mine.row_of) {
    for (std::int32_t& row : rows) row = row >= begin && row < end ? row - begin : -1;
  }
  mine.rows.all_tokens = all.size();
  return mine;
}

PackedRows pack_for_draft(std::span<const TrainSequence> sequences) {
  PackedRows packed = pack(sequences, false);
  for (const RowSlice& slice : packed.rows.slices) {
    const auto first = packed.rows.tokens.begin() + slice.token_begin;
    std::rotate(first, first + 1, first + slice.count);
    first[slice.count - 1] = -1;
    first[0] = -1;
  }
  return packed;
}

BatchShape batch_shape(std::span<const TrainSequence> batch, const PassKind& kind) {
  const PackedRows packed = pack(batch, kind.shares);
  BatchShape shape = {.rows = packed.size(),
                      .targets = count_targets(batch, 1),
                      .sequences = std::ssize(batch),
                      .pages = packed.num_pages,
                      .learns = kind.learns};
  for (const TrainSequence& sequence : batch) {
    shape.longest = std::max(shape.longest, sequence.size());
    if (kind.drafts) shape.draft_rows += sequence.size();
  }
  if (kind.drafts) shape.pages = pack(batch, false).num_pages;
  return shape;
}

LossRows loss_rows(std::span<const TrainSequence> sequences, const PackedRows& packed,
                   std::size_t ahead) {
  LossRows loss;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    for (std::size_t t = ahead; t < sequences[i].ids.size(); ++t) {
      const float weight = sequences[i].weight(t);
      if (weight == 0 || packed.row_of[i][t - ahead] < 0) continue;
      loss.places.push_back({.sequence = i, .token = static_cast<std::int64_t>(t)});
      loss.rows.push_back(packed.row_of[i][t - ahead]);
      loss.ids.push_back(sequences[i].ids[t]);
      loss.weights.push_back(weight);
    }
  }
  return loss;
}

}  // namespace glint
