// SequenceState: what the executor keeps of a request between its steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/contains.h"
#include "engine/step_plan.h"
#include "engine/token_list.h"
#include "runtime/grammar_masks.h"

namespace glint {

// Where drafting goes on: what the MTP layer said at the row of the last token but one.
struct DraftSeed {
  int position = -1;                    // of that row; -1: there is none
  std::vector<std::byte> hidden = {};   // the layer's hidden state
  std::vector<std::int32_t> keys = {};  // positions that it attended to (where drafts share them)
};

struct SequenceState {
  std::shared_ptr<const Request> request;
  TokenList tokens;
  // Tickets of its seat (SeatTable); 0: none.
  std::uint64_t counts = 0, draft = 0;
  DraftSeed seed = {};  // where drafts are the host's (Drafter)
  // By a stop id, its length, its grammar or a failure: it runs no more.
  bool ended = false;
  SliceFailure failure = SliceFailure::kNone;
  // The masks of its next rows, from when they are wanted until they are used.
  std::shared_ptr<MaskTask> masks = {};
  std::uint64_t num_mask_tasks = 0;
  int num_matched = 0;      // tokens of the answer that its grammar knows
  bool slow_masks = false;  // the last ones were much work
  // How much of the Extras (engine/request.h) was reported already.
  int told_prompt_tokens = 1, told_routed_rows = 0;
  bool told_keys = false;

  explicit SequenceState(std::shared_ptr<const Request> r) : request(std::move(r)) {
    tokens = request->prompt;
  }

  // Launched steps, not read yet, that give it a token each, and the drafts in them, each of which
  // gives one more if it is right.
  int in_flight = 0, drafts_in_flight = 0;

  int size() const { return static_cast<int>(tokens.size()); }
  int prompt_size() const { return static_cast<int>(request->prompt.size()); }
  int answered() const { return size() - prompt_size(); }
  // With those that are not read yet, at least; and at most.
  int launched_size() const { return size() + in_flight; }
  int largest_size() const { return launched_size() + drafts_in_flight; }
  std::span<const TokenId> answer() const { return tokens.answer(); }

  bool stops(TokenId token) const { return contains(request->stop_ids, token); }
};

}  // namespace glint
