// Sequence: a request while it is alive, as the scheduler sees it. Private to engine/scheduler*.cc.
//
//   position   0 ........ num_computed ....... planned_computed() ... planned_tokens()
//              | rows in the cache | steps in flight run these | still to plan |
//
// With steps in flight the two on the right are upper bounds: drafts may be rejected.
#pragma once

#include <deque>
#include <memory>

#include "engine/draft_control.h"
#include "engine/kv_cache.h"
#include "engine/request.h"
#include "engine/token_list.h"

namespace glint {

struct Sequence {
  enum class State {
    kWaiting,  // holds no pages (or only until its steps in flight are committed)
    kRunning,
    kEnded,  // but a step in flight still writes its pages
  };

  // A slice handed out and not committed.
  struct InFlight {
    int count = 0;
    int max_new = 0;
  };

  std::shared_ptr<const Request> request;
  std::uint64_t age = 0;  // order of submission
  int limit = 0;          // the most tokens it may ever have
  State state = State::kWaiting;
  int seat = -1;         // while it runs
  int replica = 0;       // that has its pages; another perhaps when it is admitted again
  bool started = false;  // the executor knows it

  TokenList tokens;  // so far
  int num_computed = 0;
  PageTable pages;
  std::deque<InFlight> in_flight;
  int in_flight_rows = 0, in_flight_new = 0;  // sums over in_flight
  int queued_tokens = 0;                      // counted in the scheduler's waiting tokens

  // The last number under which it was late, and the last that was told as ready.
  std::uint64_t late = 0, ready = 0;

  bool can_draft = false;  // its last slice sampled, so the executor has drafts
  DraftControl drafts;
  TokenEvent::Usage usage;

  // While it waits for another sequence to compute a common prefix: which one, how many tokens.
  struct Leader {
    RequestId id = 0;
    int tokens = 0;
  };
  Leader leader;

  RequestId id() const { return request->id; }
  int prompt_size() const { return static_cast<int>(request->prompt.size()); }
  int num_tokens() const { return static_cast<int>(tokens.size()); }
  int planned_computed() const { return num_computed + in_flight_rows; }
  int planned_tokens() const { return num_tokens() + in_flight_new; }
  // The last token of a full sequence never runs.
  bool can_run() const { return planned_tokens() < limit && !sits_out(); }
  // The tokens allowed next are still being computed.
  bool sits_out() const { return late > ready; }
  int num_left() const { return planned_tokens() - planned_computed(); }
  bool decodes() const { return can_run() && num_left() == 1; }
  // Not where every row of its prompt must run; nor in the middle of a prompt whose rows tell their
  // experts: those after the first all do.
  bool may_adopt() const {
    const bool reads_again = started && num_tokens() == prompt_size();
    return request->want.prompt_logprobs < 0 && !(request->want.routed_experts && reads_again);
  }
};

// Better first.
struct BySchedulingOrder {
  bool operator()(const Sequence* a, const Sequence* b) const {
    return a->request->priority != b->request->priority
               ? a->request->priority < b->request->priority
               : a->age < b->age;
  }
};

}  // namespace glint
