#include "runtime/slice_sampler.h"

#include <algorithm>
#include <limits>

namespace glint {
namespace {

using Next = TokenConstraint::Next;

void fail(SliceRun& run, SliceFailure failure) {
  run.sequence->failure = run.result->failure = failure;
  run.sequence->ended = true;
}

// Whether a row from which nothing could be drawn is sound, so that the model is not to blame.
bool has_numbers(std::span<const float> logits) {
  const Extent extent = extent_of(logits);
  return extent.numbers && extent.max > -std::numeric_limits<float>::infinity();
}

void complete(SliceRun& run) {
  run.result->complete = true;
  run.sequence->ended = true;
}

// No token may come after those there are.
void end_or_fail(const MaskRow* mask, SliceRun& run) {
  const Request& request = *run.sequence->request;
  const auto may_come = [&](TokenId id) {
    return mask->bits[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1;
  };
  const bool may_end = !mask || mask->next != Next::kMasked ||
                       std::any_of(request.stop_ids.begin(), request.stop_ids.end(), may_come);
  if (run.sequence->answered() > 0 && may_end) return complete(run);
  fail(run, SliceFailure::kNoToken);
}

// Takes `token` into the sequence; false if the answer ends with it.
bool take(TokenId token, SliceRun& run) {
  SequenceState& sequence = *run.sequence;
  sequence.push(token);
  run.result->tokens.push_back(token);
  sequence.ended = sequence.stops(token) || sequence.answered() >= sequence.request->max_tokens;
  return !sequence.ended;
}

}  // namespace

void sample_slice(Sampler& sampler, const SliceLogits& logits, std::span<const MaskRow> masks,
                  SliceRun& run) {
  SequenceState& sequence = *run.sequence;
  const Request& request = *sequence.request;
  const int limit = run.limit();
  run.result->drafted = static_cast<int>(run.drafts.size());
  for (std::size_t r = 0; r <= run.drafts.size(); ++r) {
    const MaskRow* const mask = r < masks.size() ? &masks[r] : nullptr;
    if (mask && mask->next == Next::kEnd) return complete(run);
    if (mask && mask->next == Next::kGivenUp) return fail(run, SliceFailure::kGrammar);
    const std::span<const float> row = logits.row(r);
    SamplingContext context = {.position = sequence.size(), .answer = sequence.answer()};
    if (request.sampling.penalizes()) context.counts = &sequence.counts;
    if (sequence.answered() < request.min_tokens) context.forbidden = *request.stop_ids;
    if (mask && mask->next == Next::kMasked) context.mask = mask->bits;
    const std::span<const float> known = row.first(logits.num_token_ids);
    const std::optional<TokenId> token = sampler.sample(known, request.sampling, context);
    if (!token && !has_numbers(known)) return fail(run, SliceFailure::kNotNumbers);
    if (!token) return end_or_fail(mask, run);
    const bool goes_on = take(*token, run);
    if (request.want.top_logprobs >= 0) {
      run.result->logprobs.push_back(
          token_logprob(row, *token, request.want.top_logprobs, logits.num_token_ids));
    }
    const bool right = r < run.drafts.size() && run.drafts[r] == *token;
    if (!goes_on || !right || static_cast<int>(run.result->tokens.size()) >= limit) return;
  }
}

}  // namespace glint
