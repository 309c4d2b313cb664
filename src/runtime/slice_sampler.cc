#include "runtime/slice_sampler.h"

#include <algorithm>

namespace glint {
namespace {

using Next = TokenConstraint::Next;

void fail(SliceRun& run, SliceFailure failure) {
  run.sequence->failure = run.result->failure = failure;
  run.sequence->ended = true;
}

void end(SliceRun& run, FinishReason reason) {
  run.result->finished = reason;
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
  if (run.sequence->answered() > 0 && may_end) return end(run, FinishReason::kStop);
  fail(run, SliceFailure::kNoToken);
}

// Takes `token` into the sequence; false if the answer ends with it.
bool take(TokenId token, SliceRun& run) {
  SequenceState& sequence = *run.sequence;
  sequence.tokens.append(token);
  run.result->tokens.push_back(token);
  if (sequence.stops(token)) {
    run.result->stop_id = token;
    end(run, FinishReason::kStop);
  } else if (sequence.answered() >= sequence.request->max_tokens) {
    end(run, FinishReason::kLength);
  }
  return !sequence.ended;
}

}  // namespace

bool reads_answer(const Request& request) {
  const SamplingParams& sampling = request.sampling;
  return request.constraint ||
         std::any_of(sampling.bad_words.begin(), sampling.bad_words.end(),
                     [](const std::vector<TokenId>& word) { return word.size() > 1; });
}

void add_rows(const SliceRun& run, std::span<const MaskRow> masks, SampleRows& rows) {
  const SequenceState& sequence = *run.sequence;
  const Request& request = *sequence.request;
  std::vector<TokenId> answer(sequence.answer().begin(), sequence.answer().end());
  answer.insert(answer.end(), run.drafts.begin(), run.drafts.end());
  for (std::size_t r = 0; r <= run.drafts.size(); ++r) {
    const int row = static_cast<int>(r);
    const int answered = sequence.launched_size() - sequence.prompt_size() + row;
    const bool sized = sequence.drafts_in_flight == 0;
    SamplingContext context = {
        .position = (sized ? sequence.launched_size() : 0) + row,
        .length_seat = sized ? -1 : run.slice->seat,
        .answer = std::span(answer).first(static_cast<std::size_t>(sequence.answered() + row)),
        .draft = r > 0 ? run.drafts[r - 1] : -1};
    if (request.sampling.penalizes() && !run.late) context.seat = run.slice->seat;
    if (answered < request.min_tokens) context.forbidden = *request.stop_ids;
    if (r < masks.size() && masks[r].next == Next::kMasked) context.mask = masks[r].bits;
    rows.add(request.sampling, context);
  }
}

void take_rows(std::span<const std::int32_t> drawn, std::span<const MaskRow> masks, SliceRun& run) {
  const int limit = run.limit();
  run.result->drafted = static_cast<int>(run.drafts.size());
  for (std::size_t r = 0; r < drawn.size(); ++r) {
    const MaskRow* const mask = r < masks.size() ? &masks[r] : nullptr;
    if (mask && mask->next == Next::kEnd) return end(run, FinishReason::kStop);
    if (mask && mask->next == Next::kGivenUp) return fail(run, SliceFailure::kGrammar);
    const TokenId token = drawn[r];
    if (token == kNotNumbers) return fail(run, SliceFailure::kNotNumbers);
    if (token == kNoToken) return end_or_fail(mask, run);
    const bool goes_on = take(token, run);
    const bool right = r < run.drafts.size() && run.drafts[r] == token;
    if (!goes_on || !right || static_cast<int>(run.result->tokens.size()) >= limit) return;
  }
}

}  // namespace glint
