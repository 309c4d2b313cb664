#include "runtime/slice_sampler.h"

namespace glint {
namespace {

void fail(SliceRun& run) {
  run.sequence->failed = run.sequence->ended = true;
  run.result->failed = true;
}

// Takes `token` into the sequence; false if the answer ends with it.
bool take(TokenId token, SliceRun& run) {
  SequenceState& sequence = *run.sequence;
  TokenConstraint* const constraint = sequence.request->constraint.get();
  if (constraint && !constraint->accept(token)) {
    fail(run);
    return false;
  }
  sequence.push(token);
  run.result->tokens.push_back(token);
  if (sequence.stops(token) || sequence.answered() >= sequence.request->max_tokens) {
    sequence.ended = true;
  } else {
    run.result->complete = constraint && constraint->is_complete();
  }
  return !sequence.ended && !run.result->complete;
}

}  // namespace

void sample_slice(Sampler& sampler, const SliceLogits& logits, const RowMasks& masks,
                  SliceRun& run) {
  SequenceState& sequence = *run.sequence;
  const Request& request = *sequence.request;
  const int limit = run.limit();
  run.result->drafted = static_cast<int>(run.drafts.size());
  for (std::size_t r = 0; r <= run.drafts.size(); ++r) {
    const std::span<const float> row = logits.row(r);
    SamplingContext context = {.position = sequence.size(), .answer = sequence.answer()};
    if (request.sampling.penalizes()) context.counts = &sequence.counts;
    if (sequence.answered() < request.min_tokens) context.forbidden = request.stop_ids;
    context.mask = masks.row(r);
    const std::optional<TokenId> token =
        sampler.sample(row.first(logits.num_token_ids), request.sampling, context);
    if (!token) return fail(run);
    const bool goes_on = take(*token, run);
    if (sequence.failed) return;
    if (request.want.top_logprobs >= 0) {
      run.result->logprobs.push_back(
          token_logprob(row, *token, request.want.top_logprobs, logits.num_token_ids));
    }
    const bool right = r < run.drafts.size() && run.drafts[r] == *token;
    if (!goes_on || !right || static_cast<int>(run.result->tokens.size()) >= limit) return;
  }
}

}  // namespace glint
