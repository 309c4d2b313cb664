#include "runtime/drafter.h"

#include <numeric>
#include <unordered_map>

#include "tensor/transfer.h"

namespace glint {
namespace {

// The way back of slots_to_positions().
void positions_to_slots(std::span<std::int32_t> positions, std::span<const PageId> pages) {
  for (std::int32_t& position : positions) {
    if (position >= 0) {
      position =
          pages[static_cast<std::size_t>(position / kPageSize)] * kPageSize + position % kPageSize;
    }
  }
}

}  // namespace

void slots_to_positions(std::span<std::int32_t> slots, std::span<const PageId> pages) {
  std::unordered_map<PageId, std::int32_t> index;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    index.emplace(pages[i], static_cast<std::int32_t>(i));
  }
  for (std::int32_t& slot : slots) {
    if (slot >= 0) slot = index.at(slot / kPageSize) * kPageSize + slot % kPageSize;
  }
}

void Drafter::run_rows(std::span<const Rows> rows) {
  std::vector<StepRows> replicas = empty_replicas();
  std::vector<std::int32_t> hidden_rows;
  for (const Rows& r : rows) {
    replicas[static_cast<std::size_t>(r.replica)].add(r.first, r.next_tokens, r.pages, 0);
    const std::size_t begin = hidden_rows.size();
    hidden_rows.resize(begin + r.next_tokens.size());
    std::iota(hidden_rows.begin() + static_cast<std::ptrdiff_t>(begin), hidden_rows.end(),
              r.hidden_row);
  }
  if (hidden_rows.empty()) return;
  count_all_tokens(replicas);
  const StepOutput out = model_.draft(replicas, {.rows = hidden_rows});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].seed) keep_seed(out, static_cast<std::int64_t>(i), rows[i]);
  }
}

void Drafter::keep_seed(const StepOutput& out, std::int64_t slice, const Rows& rows) {
  DraftSeed& seed = *rows.seed;
  seed.position = rows.first + static_cast<int>(rows.next_tokens.size()) - 1;
  seed.hidden.resize(model_.hidden_row_bytes());
  model_.read_row(out.hidden, slice, seed.hidden);
  if (!shares_keys()) return;
  seed.keys.resize(static_cast<std::size_t>(model_.config().index_topk));
  model_.read_row(out.selected, slice, std::as_writable_bytes(std::span(seed.keys)));
  slots_to_positions(seed.keys, rows.pages);
}

void Drafter::take_best(const Tensor& logits, std::span<const Guess> guesses) {
  const Arena::Scope scope(model_.scratch());
  const ArgmaxArgs args = {.logits = logits,
                           .num_ids = static_cast<std::int64_t>(num_token_ids_),
                           .tokens = model_.scratch().take(DType::kI32, {logits.dim(0)})};
  model_.ops().argmax(args);
  const auto best = download<TokenId>(args.tokens, model_.ops().device());
  for (std::size_t i = 0; i < guesses.size(); ++i) guesses[i].drafts->push_back(best[i]);
}

void Drafter::guess(std::span<const Guess> guesses) {
  std::vector<Guess> active;
  std::vector<std::byte> hidden;  // [active, hidden]
  for (const Guess& guess : guesses) {
    guess.drafts->clear();
    if (guess.count == 0) continue;
    active.push_back(guess);
    hidden.insert(hidden.end(), guess.seed->hidden.begin(), guess.seed->hidden.end());
  }
  if (active.empty()) return;
  take_best(model_.logits_of({.on_host = hidden}), active);

  const std::size_t row_bytes = model_.hidden_row_bytes();
  for (int step = 1; !active.empty(); ++step) {
    // Slices that want more drafts, with the layer's hidden states of the step before.
    std::size_t kept = 0;
    std::vector<StepRows> replicas = empty_replicas();
    std::vector<std::int32_t> keys;
    for (std::size_t i = 0; i < active.size(); ++i) {
      const Guess guess = active[i];
      if (guess.count <= step) continue;
      std::copy_n(hidden.begin() + static_cast<std::ptrdiff_t>(i * row_bytes), row_bytes,
                  hidden.begin() + static_cast<std::ptrdiff_t>(kept * row_bytes));
      active[kept++] = guess;
      replicas[static_cast<std::size_t>(guess.replica)].add(
          guess.seed->position + step, std::span(&guess.drafts->back(), 1), guess.pages, 1);
      if (!shares_keys()) continue;
      const std::size_t begin = keys.size();
      keys.insert(keys.end(), guess.seed->keys.begin(), guess.seed->keys.end());
      positions_to_slots(std::span(keys).subspan(begin), guess.pages);
    }
    active.resize(kept);
    hidden.resize(kept * row_bytes);
    if (active.empty()) return;
    count_all_tokens(replicas);
    const StepOutput out = model_.draft(replicas, {.on_host = hidden}, keys);
    take_best(out.device_logits, active);
    for (std::size_t i = 0; i < kept; ++i) {
      model_.read_row(out.hidden, static_cast<std::int64_t>(i),
                      std::span(hidden).subspan(i * row_bytes, row_bytes));
    }
  }
}

}  // namespace glint
