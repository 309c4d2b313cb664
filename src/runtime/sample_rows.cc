#include "runtime/sample_rows.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/ceil_div.h"
#include "engine/request.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

constexpr std::int64_t kMaxEdits = kMaxLogitBias + kMaxBadWords + kMaxStopIds;

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

// 1 / temperature, capped so that 0 * infinity cannot occur; 0 for the most likely token.
float scale_of(const SamplingParams& params) {
  return params.greedy() ? 0 : static_cast<float>(std::min(1 / params.temperature, 1e30));
}

void push_halves(std::uint64_t bits, std::vector<std::int32_t>& to) {
  to.push_back(static_cast<std::int32_t>(bits));
  to.push_back(static_cast<std::int32_t>(bits >> 32));
}

// Tokens that are forbidden, by rising id.
std::vector<TokenId> never_ids(const SamplingParams& params, const SamplingContext& context) {
  std::vector<TokenId> ids(context.forbidden.begin(), context.forbidden.end());
  // The last token of each word whose other tokens end the answer so far.
  for (const std::vector<TokenId>& word : params.bad_words) {
    if (word.empty() || word.size() - 1 > context.answer.size()) continue;
    const auto begun = context.answer.last(word.size() - 1);
    if (std::equal(begun.begin(), begun.end(), word.begin())) ids.push_back(word.back());
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

void SampleRows::add(const SamplingParams& params, const SamplingContext& context) {
  scales_.push_back(scale_of(params));
  top_k_.push_back(params.top_k);
  // In f32 a share of almost nothing is still one.
  top_p_.push_back(std::max(static_cast<float>(params.top_p), std::numeric_limits<float>::min()));
  min_p_.push_back(static_cast<float>(params.min_p));
  push_halves(params.seed, seeds_);
  positions_.push_back(static_cast<std::int32_t>(context.position));
  add_mask(params, context);
  add_edits(params, context);
  seats_.push_back(context.seat);
  length_seats_.push_back(context.length_seat);
  drafts_.push_back(context.draft);
  for (const double penalty :
       {params.repetition_penalty, params.presence_penalty, params.frequency_penalty}) {
    push_halves(std::bit_cast<std::uint64_t>(penalty), penalties_);
  }
}

void SampleRows::add_mask(const SamplingParams& params, const SamplingContext& context) {
  if (params.allowed_ids.empty() && context.mask.empty()) return mask_rows_.push_back(-1);
  const std::size_t words = mask_words();
  std::vector<std::uint32_t> mask(words, params.allowed_ids.empty() ? ~std::uint32_t{0} : 0);
  for (const TokenId id : params.allowed_ids) {
    if (holds(id)) mask[static_cast<std::size_t>(id) / 32] |= std::uint32_t{1} << (id % 32);
  }
  for (std::size_t w = 0; w < std::min(words, context.mask.size()); ++w) mask[w] &= context.mask[w];
  mask_rows_.push_back(static_cast<std::int32_t>(masks_.size() / words));
  for (const std::uint32_t word : mask) masks_.push_back(static_cast<std::int32_t>(word));
}

void SampleRows::add_edits(const SamplingParams& params, const SamplingContext& context) {
  const std::vector<TokenId> never = never_ids(params, context);
  const auto add = [&](TokenId id, float added) {
    if (!holds(id)) return;
    edit_ids_.push_back(id);
    edit_values_.push_back(added);
  };
  auto next = never.begin();
  for (const auto& [id, bias] : params.logit_bias) {
    for (; next != never.end() && *next < id; ++next) add(*next, kImpossible);
    if (next == never.end() || *next != id) add(id, bias);
  }
  for (; next != never.end(); ++next) add(*next, kImpossible);
  edit_begins_.push_back(static_cast<std::int32_t>(edit_ids_.size()));
}

std::int64_t SampleRows::upload_bytes(std::int64_t num_ids, std::int64_t rows) {
  constexpr std::int64_t kEach = 80;          // scales to penalties
  constexpr std::int64_t kAlignment = 16384;  // of all lists
  const std::int64_t mask = ceil_div(num_ids, std::int64_t{32}) * 4;
  const std::int64_t edits = 8 * std::min(num_ids, kMaxEdits);
  return rows * (kEach + mask + edits) + kAlignment;
}

SampleRows::Drawn SampleRows::draw(Ops& ops, const Tensor& logits, const SeatTensors& seats,
                                   Arena& arena) const {
  Uploads uploads(arena);
  return draw(ops, logits, seats, uploads, arena);
}

SampleRows::Drawn SampleRows::draw(Ops& ops, const Tensor& logits, const SeatTensors& seats,
                                   Uploads& uploads, Arena& arena) const {
  const std::int64_t R = size();
  const auto has_seat = [](const std::vector<std::int32_t>& seats_of_rows) {
    return std::any_of(seats_of_rows.begin(), seats_of_rows.end(),
                       [](std::int32_t seat) { return seat >= 0; });
  };
  const bool penalizes = has_seat(seats_);
  const bool unplaced =
      has_seat(length_seats_) ||
      std::any_of(drafts_.begin(), drafts_.end(), [](std::int32_t draft) { return draft < -1; });
  SampleArgs args = {.logits = logits, .num_ids = num_ids_, .tokens = arena.take(DType::kI32, {R})};
  uploads.add(scales_, {R}, &args.scales);
  uploads.add(top_k_, {R}, &args.top_k);
  uploads.add(top_p_, {R}, &args.top_p);
  uploads.add(min_p_, {R}, &args.min_p);
  uploads.add(seeds_, {R, 2}, &args.seeds);
  uploads.add(positions_, {R}, &args.positions);
  Tensor drafts, length_seats;
  uploads.add(drafts_, {R}, &drafts);
  if (unplaced) uploads.add(length_seats_, {R}, &length_seats);
  if (!masks_.empty()) {
    const auto words = static_cast<std::int64_t>(mask_words());
    uploads.add(masks_, {static_cast<std::int64_t>(masks_.size()) / words, words}, &args.masks);
    uploads.add(mask_rows_, {R}, &args.mask_rows);
  }
  if (!edit_ids_.empty()) {
    const auto N = static_cast<std::int64_t>(edit_ids_.size());
    uploads.add(edit_begins_, {R + 1}, &args.edit_begins);
    uploads.add(edit_ids_, {N}, &args.edit_ids);
    uploads.add(edit_values_, {N}, &args.edit_values);
  }
  if (penalizes) {
    args.counts = seats.counts;
    uploads.add(seats_, {R}, &args.seats);
    uploads.add(penalties_, {R, 3, 2}, &args.penalties);
  }
  uploads.send();
  if (unplaced) {
    ops.place_draws({.positions = args.positions,
                     .drafts = drafts,
                     .seats = length_seats,
                     .lengths = seats.lengths,
                     .guesses = seats.guesses});
  }
  if (penalizes) args.drafts = drafts;
  if (args.masks || args.edit_begins || penalizes) {
    args.work = arena.take(DType::kF32, {R, logits.dim(1)});
  }
  if (R > 0) ops.sample(args);
  if (penalizes) {
    ops.count_tokens(
        {.tokens = args.tokens, .drafts = drafts, .seats = args.seats, .counts = seats.counts});
  }
  return {.tokens = args.tokens, .drafts = drafts};
}

}  // namespace glint
