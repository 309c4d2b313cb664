#include "runtime/logprobs.h"

#include <numeric>

#include "tensor/transfer.h"

namespace glint {
namespace {

// Prompt rows whose logits are there at once.
constexpr int kLogprobRows = 64;

}  // namespace

std::vector<TokenLogprob> Logprobs::of(const Tensor& logits, const std::vector<std::int32_t>& rows,
                                       const std::vector<std::int32_t>& ids, int num_top) {
  Arena& scratch = model_.scratch();
  Device& device = model_.ops().device();
  const Arena::Scope scope(scratch);
  const auto N = static_cast<std::int64_t>(rows.size());
  const std::int64_t K = std::min(num_top, num_token_ids_);
  const TokenLogProbsArgs args = {.logits = logits,
                                  .rows = upload(rows, {N}, scratch),
                                  .ids = upload(ids, {N}, scratch),
                                  .num_ids = num_token_ids_,
                                  .log_probs = scratch.take(DType::kF32, {N}),
                                  .ranks = scratch.take(DType::kI32, {N}),
                                  .top_ids = scratch.take(DType::kI32, {N, K}),
                                  .top_log_probs = scratch.take(DType::kF32, {N, K})};
  model_.ops().token_log_probs(args);
  const auto log_probs = download<float>(args.log_probs, device);
  const auto ranks = download<std::int32_t>(args.ranks, device);
  const auto top_ids = download<std::int32_t>(args.top_ids, device);
  const auto top = download<float>(args.top_log_probs, device);
  std::vector<TokenLogprob> all(rows.size());
  for (std::size_t n = 0; n < all.size(); ++n) {
    all[n].logprob = log_probs[n];
    all[n].rank = ranks[n];
    const std::size_t begin = n * static_cast<std::size_t>(K);
    for (std::size_t k = begin; k < begin + static_cast<std::size_t>(K); ++k) {
      if (top_ids[k] >= 0) all[n].top.push_back({.id = top_ids[k], .logprob = top[k]});
    }
  }
  return all;
}

void Logprobs::tell(std::span<SliceRun> runs, const Tensor& logits) {
  std::vector<std::int32_t> rows, ids;
  int most = 0;
  const auto wanted = [](const SliceRun& run) { return run.sequence->request->want.top_logprobs; };
  for (const SliceRun& run : runs) {
    if (wanted(run) < 0) continue;
    most = std::max(most, wanted(run));
    for (std::size_t i = 0; i < run.result->tokens.size(); ++i) {
      rows.push_back(run.logit_begin + static_cast<std::int32_t>(i));
      ids.push_back(run.result->tokens[i]);
    }
  }
  if (rows.empty()) return;
  auto next = of(logits, rows, ids, most);
  std::size_t n = 0;
  for (SliceRun& run : runs) {
    if (wanted(run) < 0) continue;
    for (std::size_t i = 0; i < run.result->tokens.size(); ++i, ++n) {
      const auto count = static_cast<std::size_t>(wanted(run));
      if (next[n].top.size() > count) next[n].top.resize(count);
      run.result->logprobs.push_back(std::move(next[n]));
    }
  }
}

void Logprobs::tell_prompt(SliceRun& run, const Tensor& hidden) {
  SequenceState& sequence = *run.sequence;
  const int wanted = sequence.request->want.prompt_logprobs;
  if (wanted < 0) return;
  // Row p tells of token p + 1.
  const int end = std::min(run.first + run.known + 1, sequence.prompt_size());
  for (int at = std::max(sequence.told_prompt_tokens, run.first + 1); at < end;) {
    const int count = std::min(kLogprobRows, end - at);
    const Tensor block = hidden.slice(0, run.row_begin + at - 1 - run.first, count);
    std::vector<std::int32_t> rows(static_cast<std::size_t>(count));
    std::iota(rows.begin(), rows.end(), 0);
    const auto next = sequence.request->prompt.begin() + at;
    for (TokenLogprob& one :
         of(model_.logits_of({.on_device = block}), rows, {next, next + count}, wanted)) {
      run.result->extras.prompt_logprobs.push_back(std::move(one));
    }
    at += count;
    sequence.told_prompt_tokens = at;
  }
}

}  // namespace glint
