#include "runtime/logprobs.h"

#include <numeric>

#include "tensor/transfer.h"

namespace glint {
namespace {

int wanted(const SliceRun& run) { return run.sequence->request->want.top_logprobs; }
int wanted_of_prompt(const SliceRun& run) { return run.sequence->request->want.prompt_logprobs; }

// Numbers of a block's results, unless so few tokens have more.
constexpr std::int64_t kBlockNumbers = 1 << 16;

// Two of the token itself, and of each other one.
std::int64_t numbers_of_token(std::int64_t others) { return 2 * (1 + others); }

int tokens_of_block(std::int64_t others) {
  return std::max(kLogprobRows, static_cast<int>(kBlockNumbers / numbers_of_token(others)));
}

// Tokens of the block that begins with the n-th.
int block_from(int n, const AskedLogprobs& asked) {
  return std::min(tokens_of_block(asked.others), asked.rows - n);
}

}  // namespace

TokenLogprob AskedLogprobs::read(int n, int most) const {
  const int row = n % tokens_of_block(others), first = n - row, count = block_from(first, *this);
  const auto each = static_cast<std::size_t>(numbers_of_token(others));
  const std::size_t begin = static_cast<std::size_t>(first) * each;
  const std::size_t size = static_cast<std::size_t>(count) * each;
  const std::span<const float> floats = values.floats().subspan(begin, size);
  const std::span<const std::int32_t> ints = values.ints().subspan(begin, size);
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  TokenLogprob one = {.logprob = floats[at(row)], .rank = ints[at(count + row)]};
  const int ids = 2 * count + row * others, logprobs = ids + count * others;
  for (int k = 0; k < std::min(most, others); ++k) {
    if (ints[at(ids + k)] < 0) break;
    one.top.push_back({.id = ints[at(ids + k)], .logprob = floats[at(logprobs + k)]});
  }
  return one;
}

std::int64_t Logprobs::scratch_bytes(std::int64_t rows, std::int64_t others) {
  constexpr std::int64_t kAlignment = 3 * 256;
  const std::int64_t block = tokens_of_block(others) * numbers_of_token(others);
  const std::int64_t uploads = rows + 2 * kLogprobRows;  // of what is drawn, or of a prompt
  return 4 * (block + uploads) + kAlignment;
}

// Memory of a block, in the scratch arena's present scope.
Tensor Logprobs::begin(AskedLogprobs& asked) const {
  asked.others = std::min(asked.others, num_token_ids_);
  const std::int64_t each = numbers_of_token(asked.others);
  asked.values.begin(static_cast<std::size_t>(4 * asked.rows * each), model_.ops().device());
  return model_.scratch().take(DType::kI32, {block_from(0, asked), each});
}

TokenLogProbsArgs Logprobs::results_in(const Tensor& block) const {
  const std::int64_t N = block.dim(0), K = block.dim(1) / 2 - 1;
  const auto part = [&](std::int64_t begin, DType dtype, std::initializer_list<std::int64_t> dims) {
    return Tensor(block.data + 4 * begin, dtype, dims);
  };
  return {.num_ids = num_token_ids_,
          .log_probs = part(0, DType::kF32, {N}),
          .ranks = part(N, DType::kI32, {N}),
          .top_ids = part(2 * N, DType::kI32, {N, K}),
          .top_log_probs = part((2 + K) * N, DType::kF32, {N, K})};
}

void Logprobs::ask(std::span<const SliceRun> runs, const Tensor& logits, const Tensor& tokens,
                   AskedLogprobs& asked) {
  std::vector<std::int32_t> rows;
  asked.others = 0;
  for (const SliceRun& run : runs) {
    if (wanted(run) < 0) continue;
    asked.others = std::max(asked.others, wanted(run));
    for (int r = 0; r < run.sampling_rows(); ++r) rows.push_back(run.logit_begin + r);
  }
  asked.rows = static_cast<int>(rows.size());
  if (rows.empty()) return;
  const Arena::Scope scope(model_.scratch());
  const Tensor memory = begin(asked);
  const Tensor places = upload(rows, {asked.rows}, model_.scratch());
  for (int n = 0, count = 0; n < asked.rows; n += count) {
    count = block_from(n, asked);
    const Tensor block = memory.slice(0, 0, count);
    TokenLogProbsArgs args = results_in(block);
    args.logits = logits;
    args.rows = places.slice(0, n, count);
    args.ids = tokens;
    model_.ops().token_log_probs(args);
    asked.values.add(block, model_.ops().device());
  }
}

void Logprobs::tell(std::span<SliceRun> runs, const AskedLogprobs& asked) {
  int n = 0;
  for (SliceRun& run : runs) {
    if (wanted(run) < 0) continue;
    for (int i = 0; i < static_cast<int>(run.result->tokens.size()); ++i) {
      run.result->logprobs.push_back(asked.read(n + i, wanted(run)));
    }
    n += run.sampling_rows();
  }
}

// Row p tells of token p + 1, once.
void Logprobs::ask_prompts(std::span<SliceRun> runs, AskedLogprobs& asked) {
  asked.rows = asked.others = 0;
  std::vector<int> begins(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    SliceRun& run = runs[i];
    if (wanted_of_prompt(run) < 0) continue;
    SequenceState& sequence = *run.sequence;
    const int end = std::min(run.first + run.known + 1, sequence.prompt_size());
    begins[i] = std::max(sequence.told_prompt_tokens, run.first + 1);
    if (begins[i] >= end) continue;
    run.num_prompt_logprobs = end - begins[i];
    sequence.told_prompt_tokens = end;
    asked.rows += run.num_prompt_logprobs;
    asked.others = std::max(asked.others, wanted_of_prompt(run));
  }
  if (asked.rows == 0) return;
  const Arena::Scope scope(model_.scratch());
  const Tensor memory = begin(asked);
  Tensor block;
  int n = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::span<const TokenId> prompt = runs[i].sequence->tokens.prompt();
    const int end = begins[i] + runs[i].num_prompt_logprobs;
    for (int at = begins[i], count = 0; at < end; at += count, n += count) {
      const LoadedModel::RowPlace place =
          model_.place_of(runs[i].slice->replica, runs[i].row_begin + at - 1 - runs[i].first);
      const int filled = n % tokens_of_block(asked.others);
      if (filled == 0) block = memory.slice(0, 0, block_from(n, asked));
      count = static_cast<int>(
          std::min<std::int64_t>({kLogprobRows, block.dim(0) - filled, end - at, place.count}));
      ask_rows(place.replica, static_cast<int>(place.row),
               prompt.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)),
               filled, results_in(block));
      if (filled + count == block.dim(0)) asked.values.add(block, model_.ops().device());
    }
  }
}

// Asks for the log-probabilities of `ids`, which follow the replica's rows from `first` on: the
// results from the n-th on.
void Logprobs::ask_rows(int replica, int first, std::span<const TokenId> ids, int n,
                        TokenLogProbsArgs args) {
  Arena& scratch = model_.scratch();
  const Arena::Scope scope(scratch);
  const auto count = static_cast<std::int64_t>(ids.size());
  std::vector<std::int32_t> places(ids.size()), rows(ids.size());
  std::iota(places.begin(), places.end(), first);
  std::iota(rows.begin(), rows.end(), 0);
  args.logits = model_.logits_of({.rows = places}, replica);
  args.rows = upload(rows, {count}, scratch);
  args.ids = upload(std::vector<TokenId>(ids.begin(), ids.end()), {count}, scratch);
  for (Tensor* part : {&args.log_probs, &args.ranks, &args.top_ids, &args.top_log_probs}) {
    *part = part->slice(0, n, count);
  }
  model_.ops().token_log_probs(args);
}

void Logprobs::tell_prompts(std::span<SliceRun> runs, const AskedLogprobs& asked) {
  int n = 0;
  for (SliceRun& run : runs) {
    for (int i = 0; i < run.num_prompt_logprobs; ++i, ++n) {
      run.result->extras.prompt_logprobs.push_back(asked.read(n, wanted_of_prompt(run)));
    }
  }
}

}  // namespace glint
