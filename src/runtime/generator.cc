#include "runtime/generator.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/str.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One sequence on its way. Invariant between steps: tokens[0, cached) are in the main caches and,
// with drafts, in the MTP layer's too (row p of which holds token p + 1); the last token is not.
class Sequence {
 public:
  Sequence(LoadedModel& model, std::vector<TokenId>& tokens, int* cached,
           const GenerateOptions& options)
      : model_(model),
        tokens_(tokens),
        cached_(*cached),
        options_(options),
        num_drafts_(model.has_mtp() ? options.num_drafts : 0) {
    pages_.resize(static_cast<std::size_t>(model.kv().num_pages()));
    std::iota(pages_.begin(), pages_.end(), 0);
  }

  // Runs what is not cached yet; returns the logits of the last token.
  std::span<const float> prefill() {
    const int end = static_cast<int>(tokens_.size());
    for (;;) {
      const int count = std::min(options_.chunk, end - cached_);
      const bool last = cached_ + count == end;
      StepOutput out = run(cached_, std::span(tokens_).subspan(cached_, count), last ? 1 : 0);
      hidden_ = out.hidden;
      first_hidden_ = cached_;
      cached_ += count;
      if (last) return out.logits;
      // The next chunk's first token is known, so the chunk's MTP rows are complete.
      if (num_drafts_) draft_rows(cached_ + 1, 0);
    }
  }

  // Guesses up to `limit` tokens after the last one, which was sampled and is not cached.
  std::vector<TokenId> draft(int limit) {
    std::vector<TokenId> drafts;
    const int count = std::min(num_drafts_, limit);
    if (num_drafts_ == 0) return drafts;
    // Rows of the positions that the last step verified, with the hidden states of the model
    // itself.
    const bool share = model_.config().index_share_for_mtp_iteration;
    StepOutput out = draft_rows(static_cast<int>(tokens_.size()), count > 0 ? 1 : 0, share);
    for (int i = 0; i < count; ++i) {
      drafts.push_back(argmax(out.logits));
      if (i + 1 == count) break;
      const Tensor z = out.hidden.slice(0, out.hidden.dim(0) - 1, 1);
      StepPlan plan;
      plan.add(cached_ + i, std::span(&drafts.back(), 1), pages_, 1);
      out = model_.draft(plan, z, {.reuse_selected = share});
    }
    return drafts;
  }

  // Runs the last token and the drafts after it; row i of the result follows i drafts.
  StepOutput verify(std::span<const TokenId> drafts) {
    std::vector<TokenId> rows = {tokens_.back()};
    rows.insert(rows.end(), drafts.begin(), drafts.end());
    StepOutput out = run(cached_, rows, static_cast<int>(rows.size()));
    hidden_ = out.hidden;
    first_hidden_ = cached_;
    return out;
  }

  // The last token and `accepted` drafts are cached now.
  void advance(int accepted) { cached_ += 1 + accepted; }

  // Leaves as cached only what a later call can build on: the MTP rows of the last step were never
  // run.
  void finish() {
    if (num_drafts_) cached_ = std::min(cached_, first_hidden_);
  }

 private:
  StepOutput run(int first, std::span<const TokenId> tokens, int logit_rows) {
    StepPlan plan;
    plan.add(first, tokens, pages_, logit_rows);
    return model_.step(plan);
  }

  // MTP rows for positions [first_hidden_, end - 1): row p takes the hidden state of p and token p
  // + 1 < end.
  StepOutput draft_rows(int end, int logit_rows, bool keep_selected = false) {
    const int count = end - 1 - first_hidden_;
    StepPlan plan;
    plan.add(first_hidden_, std::span(tokens_).subspan(first_hidden_ + 1, count), pages_,
             logit_rows);
    return model_.draft(plan, hidden_.slice(0, 0, count), {.keep_selected = keep_selected});
  }

  LoadedModel& model_;
  std::vector<TokenId>& tokens_;
  int& cached_;
  const GenerateOptions& options_;
  const int num_drafts_;
  std::vector<PageId> pages_;
  Tensor hidden_ = {};    // of the last step's rows
  int first_hidden_ = 0;  // position of its first row
};

}  // namespace

int pages_for(int num_tokens, int num_drafts) {
  return (num_tokens + num_drafts + kPageSize - 1) / kPageSize;
}

Result<GenerateStats> generate(LoadedModel& model, std::vector<TokenId>& tokens, int* num_cached,
                               const GenerateOptions& options, const OnToken& on_token) {
  GLINT_TRY_STATUS(validate(options.sampling));
  if (tokens.empty()) return invalid("the prompt is empty; give at least one token");
  GLINT_TRY_STATUS(check_vocabulary(model, tokens));
  const int prompt = static_cast<int>(tokens.size());
  const int room = model.kv().num_pages() * kPageSize - options.num_drafts - prompt;
  if (room < 1) {
    return invalid(str("the prompt has ", prompt,
                       " tokens and leaves no room for an answer in a context of ",
                       model.kv().num_pages() * kPageSize, " tokens"));
  }
  const int budget = std::min(options.max_tokens, room);
  GenerateStats stats = {.prompt_tokens = prompt};
  if (budget == 0) return stats;

  // The logits that a token is chosen by: of real tokens, penalised for what the sequence holds by
  // now.
  std::vector<float> scratch;
  const auto choosable = [&](std::span<const float> row) {
    if (options.num_token_ids) row = row.first(static_cast<std::size_t>(options.num_token_ids));
    return penalized(row, options.sampling, tokens, scratch);
  };
  // Takes one token into the answer; false when the answer ends with it or without it.
  const auto take = [&](TokenId token, std::span<const float> logits) {
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), token) !=
        options.stop_ids.end()) {
      stats.reason = FinishReason::kStop;
      return false;
    }
    tokens.push_back(token);
    ++stats.completion_tokens;
    if (!on_token(token, options.want_logprobs ? logprob(logits, token) : 0.0f)) {
      stats.reason = FinishReason::kCancelled;
      return false;
    }
    return stats.completion_tokens < budget;
  };

  Sequence sequence(model, tokens, num_cached, options);
  const auto start = Clock::now();
  const std::span<const float> first = sequence.prefill();
  bool going = take(sample(choosable(first), options.sampling, prompt), first);
  stats.prefill_s = seconds_since(start);
  const auto decode_start = Clock::now();
  while (going) {
    const int left = budget - stats.completion_tokens;
    const std::vector<TokenId> drafts = sequence.draft(left - 1);
    const StepOutput out = sequence.verify(drafts);
    int accepted = 0;
    for (std::size_t i = 0; going; ++i) {
      const std::span<const float> row = out.row(static_cast<std::int64_t>(i));
      const std::int64_t position = static_cast<std::int64_t>(tokens.size());
      if (i == drafts.size()) {
        going = take(sample(choosable(row), options.sampling, position), row);
        break;
      }
      const Verdict verdict = verify_draft(choosable(row), options.sampling, position, drafts[i]);
      ++stats.drafted;
      stats.accepted += verdict.accepted;
      going = take(verdict.token, row);
      // A draft that ended the answer as a stop token is not part of the sequence.
      if (!verdict.accepted || stats.reason == FinishReason::kStop) break;
      ++accepted;
    }
    sequence.advance(accepted);
  }
  sequence.finish();
  stats.decode_s = seconds_since(decode_start);
  return stats;
}

}  // namespace glint
