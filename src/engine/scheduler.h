// Scheduler: decides, step by step, which tokens of which sequences run.
//
// There is no prefill or decode mode. A sequence is a list of tokens of which the first
// num_computed are in the KV cache; scheduling is choosing how many of the rest run next. A decode
// step is "one token is left", a chunked prefill is "many are left". Speculative drafts are extra
// tokens at the end that commit() may take back.
//
// Policy, in order: running sequences, by priority and then age, one step each; then waiting
// requests in the same order, while tokens, slots and pages last. When pages run out the last in
// that order is preempted: its pages go back, its tokens stay, and it waits in its place.
//
// Sequences are dealt out to replicas, which have pages of their own and step together: one plan is
// for all. A sequence goes where least is before it, cached prefixes and full caches considered,
// and stays there until it is preempted.
//
// Deterministic: the same calls in the same order give the same plans. Not thread-safe: owned by
// the engine thread. Knows no model, tensor or clock, so every test runs in microseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "engine/kv_cache.h"
#include "engine/request.h"
#include "engine/step_plan.h"

namespace glint {

struct SchedulerConfig {
  int num_replicas = 1;
  int max_step_tokens = 2048;  // tokens per step and replica; bounds activation memory
  int max_running = 256;       // sequences that hold pages at once, of all replicas
  int max_seq_len = 131072;    // prompt + output tokens of one sequence, if a replica holds so many
  int depth = 2;               // plans in flight, one of which waits for the executor
  int num_stages = 1;          // of the executor: so many groups of sequences decode in turns
  int max_drafts = 0;          // per sequence and step
  bool adapt_drafts = true;    // fewer where few were accepted lately (draft_control.h)
};

// Fails on an impossible request, which add() refuses whatever the load. From any thread.
Status check_request(const Request& request, const SchedulerConfig& config);

// Counters since the start.
struct SchedulerStats {
  std::uint64_t steps = 0, preemptions = 0;
  std::uint64_t prompt_tokens = 0, cached_prompt_tokens = 0;  // of requests that have started
  std::uint64_t generated_tokens = 0;
  std::uint64_t read_prompt_tokens = 0;  // by steps: those not cached, and again after a preemption
  std::uint64_t prefix_queries = 0, prefix_hits = 0;  // in tokens
  std::uint64_t drafts = 0, drafted_tokens = 0, accepted_tokens = 0;
  std::vector<std::uint64_t> accepted_per_position = {};
};

class Scheduler {
 public:
  // `cache`: of each replica.
  Scheduler(const SchedulerConfig& config, const KvCacheConfig& cache);
  ~Scheduler();

  // Queues a request. Fails with kInvalidArgument if it could never run (empty prompt, longer than
  // max_seq_len, needs more pages than exist). An answer that the context has no room for is given
  // a smaller max_tokens.
  Status add(Request request);

  // Forgets a request and frees its pages, whatever its state; pages that a step in flight writes
  // when that step is committed. Returns its last event, kCancelled. Unknown ids are ignored: the
  // client may disconnect after the last token.
  std::optional<TokenEvent> abort(RequestId id);

  // The tokens allowed next in the sequence late under this number are known: it runs again.
  void wake(RequestId id, std::uint64_t number);

  // The plans in flight have failed: nothing is in flight, and every request starts again from the
  // tokens that it has. What the cache holds is no longer true.
  void abandon_in_flight();

  // Every running request gives its pages back and starts again from its tokens: what the cache
  // holds is no longer true (new weights). Only while no step is in flight.
  void preempt_all();

  // Chooses the next step. Empty when nothing can run, or when `depth` plans are uncommitted. Plans
  // are committed in the order in which they were handed out. `prompt_budget` limits the prompt
  // tokens of each replica in this step, so that a long prompt never stops the others; at least one
  // page's worth always runs if nothing else does.
  StepPlan schedule(int prompt_budget);

  // Records what `plan` produced and returns what to tell the clients: one event per sequence that
  // got something, with the executor's finish reason when it is done. Finished sequences are gone
  // afterwards.
  std::vector<TokenEvent> commit(const StepPlan& plan, StepResult result);

  // Cached prefixes are no longer true, or no longer wanted (KvCache::flush).
  void flush_cache();

  int max_seq_len() const;  // of the configuration, or what the cache holds if that is less
  int num_waiting() const;
  int num_running() const;
  int num_decoding() const;                 // running past their prompt, on the replica with most
  std::int64_t num_waiting_tokens() const;  // that must run before the queue is empty
  bool idle() const;                        // nothing waits, runs or is in flight
  int num_in_flight() const;                // plans handed out and not committed
  const SchedulerStats& stats() const;
  const KvCache& cache(int replica) const;
  std::vector<RequestId> alive() const;  // those that wait or run

  // Recomputes what is known from scratch; aborts on a mismatch. For tests.
  void check_invariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace glint
