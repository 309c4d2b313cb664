// StepPlan: what one forward pass runs, and StepResult: what came of it. There is no prefill or
// decode: a sequence is a list of tokens of which the first `first` are in the cache, and a slice
// runs the next `count` of them. All replicas step together; one may have no slice.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "engine/request.h"

namespace glint {

// In StepPlan::tokens: the token that a step still in flight will produce.
inline constexpr TokenId kPendingToken = -1;

// One sequence's share of a step: positions [first, first + count).
struct SeqSlice {
  RequestId id = 0;
  int first = 0;
  int count = 0;
  int num_drafts = 0;   // the last num_drafts of `count` are guesses, known to the executor only
  bool sample = false;  // the slice reaches the last known token, so a token is wanted
  int max_new = 0;      // the executor may report at most this many tokens (a limit is near)
  int seat = 0;         // of its sequence, while it runs: below SchedulerConfig::max_running
  int replica = 0;      // that runs it, whose pages its pages are
  int token_begin = 0;  // its tokens start here in StepPlan::tokens
  int page_begin = 0;   // and its pages here in ::pages, for positions [0, first + count)
  int num_pages = 0;

  bool decodes() const { return count == 1 + num_drafts; }  // one known token, and its drafts
};

struct StepPlan {
  std::uint64_t step = 0;
  // Requests that the executor has not seen before, and those that it can forget.
  std::vector<std::shared_ptr<const Request>> started = {};
  std::vector<RequestId> ended = {};
  std::vector<SeqSlice> slices = {};
  // Tokens of all slices, in order; drafts and tokens in flight are kPendingToken.
  std::vector<TokenId> tokens = {};
  std::vector<PageId> pages = {};

  bool empty() const { return slices.empty() && ended.empty(); }

  // Appends `slice`, which runs `tokens`. `pages` are its sequence's, in position order, and must
  // cover first + tokens.size() positions.
  void add(SeqSlice slice, std::span<const TokenId> tokens, std::span<const PageId> pages);
};

// The plan as text, a line for each of its first slices, for the report of a step that hung.
std::string describe(const StepPlan& plan);

// Why a request cannot go on.
enum class SliceFailure {
  kNone,
  kNotNumbers,  // its logits
  kNoToken,     // what it asks for leaves no token that may come
  kGrammar,     // its grammar takes too much work
};

struct StepResult {
  struct Sampled {
    RequestId id = 0;
    // Accepted drafts, then one new token; empty: no token wanted.
    std::vector<TokenId> tokens = {};
    std::vector<TokenLogprob> logprobs = {};  // of the tokens, if wanted
    Extras extras = {};
    int drafted = 0;  // drafts that were verified
    // The request ends with these tokens, if it does not fail: kStop or kLength. Nobody else
    // decides.
    std::optional<FinishReason> finished = {};
    std::optional<TokenId> stop_id = {};         // the one that ended it, which is the last token
    SliceFailure failure = SliceFailure::kNone;  // the request ends with kError
    // Not 0: the tokens allowed next are not known yet, so there is no token, and the sequence sits
    // out until Executor::Wake tells this number.
    std::uint64_t late = 0;
  };
  std::vector<Sampled> sampled;  // one per slice, in plan order
  double seconds = 0;            // the step took this long
};

}  // namespace glint
