// State shared by scheduler.cc (requests in, results in) and scheduler_plan.cc (plans out).
#pragma once

#include <deque>
#include <set>
#include <unordered_map>

#include "engine/scheduler.h"
#include "engine/sequence.h"

namespace glint {

// Room left of one replica's part of a step while it is planned.
struct StepBudget {
  int tokens = 0;         // rows
  int prompt_tokens = 0;  // of those, rows of slices that are not one decoded token
  int max_drafts = 0;     // per sequence, so that every decoding sequence fits
  int decodes = 0;        // sequences that may decode
  bool tight = false;     // somebody was preempted, or waits for pages: nobody is admitted

  bool admits() const { return tokens > 0 && prompt_tokens > 0 && !tight; }
};
using StepBudgets = std::vector<StepBudget>;  // of each replica

struct Scheduler::State {
  State(const SchedulerConfig& scheduler_config, const KvCacheConfig& cache);

  using Ordered = std::set<Sequence*, BySchedulingOrder>;
  struct InFlightStep {
    std::uint64_t step = 0;
    std::vector<Sequence*> sequences = {};  // of its slices, in order
    std::vector<std::shared_ptr<const Request>> started = {};
    std::vector<RequestId> ended = {};
  };

  // scheduler_plan.cc
  void plan_slices(StepPlan& plan, StepBudgets budgets);
  bool somebody_reads(int replica) const;
  StepBudget reserve_decodes(int replica, StepBudget budget) const;
  int drafts_for(const Sequence& seq, const StepBudget& budget) const;
  bool may_run(const Sequence& seq) const;
  void plan_running(StepPlan& plan, StepBudgets& budgets);
  void plan_sequence(Sequence& seq, StepPlan& plan, StepBudget& budget);
  void append_slice(Sequence& seq, int count, int drafts, StepPlan& plan);
  int pages_for(int num_tokens) const;
  int rows_that_fit(const Sequence& seq) const;
  int pages_coming_back(int replica) const;
  bool preempt_for_page(const Sequence& seq, StepBudget& budget);
  void admit_waiting(StepPlan& plan, StepBudgets& budgets);
  int choose_replica(const Sequence& seq, const StepBudgets& budgets) const;
  bool admit(Sequence& seq, int replica);
  bool make_way_for_pages(const Sequence& seq, int replica, int missing);
  bool is_full(int replica) const;
  bool has_slot(int passed) const;
  bool last_makes_way_for(const Sequence& seq) const;
  bool preempt_all_of(const std::vector<Sequence*>& victims);
  int num_free_pages() const;
  bool is_blocked(const Sequence& seq) const;
  bool waits_for_leader(Sequence& seq) const;
  bool finds_leader(Sequence& seq, int replica) const;
  int shared_tokens(const Sequence& first, const Sequence& later) const;
  Sequence& last_of(int replica);
  void preempt(Sequence& seq);

  // scheduler.cc
  void apply(const SeqSlice& slice, StepResult::Sampled& sampled, Sequence& seq, TokenEvent& event);
  void finish(Sequence& seq, FinishReason reason, TokenEvent& event);
  void set_waiting(Sequence& seq);
  void leave_queue(Sequence& seq);
  void join_running(Sequence& seq);
  void leave_running(Sequence& seq);
  void give_back_pages(Sequence& seq);
  void forget(Sequence& seq);

  // A pool of pages, and how many of the running sequences use it.
  struct Replica {
    explicit Replica(const KvCacheConfig& config) : cache(config) {}
    KvCache cache;
    int num_running = 0;
  };
  Replica& replica(int i) { return replicas[static_cast<std::size_t>(i)]; }
  const Replica& replica(int i) const { return replicas[static_cast<std::size_t>(i)]; }
  KvCache& cache_of(const Sequence& seq) { return replica(seq.replica).cache; }
  const KvCache& cache_of(const Sequence& seq) const { return replica(seq.replica).cache; }

  const SchedulerConfig config;
  std::deque<Replica> replicas;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> all;
  Ordered waiting, running;
  std::int64_t queued_tokens = 0;                       // of those waiting
  std::deque<InFlightStep> in_flight;                   // uncommitted steps
  std::vector<std::shared_ptr<const Request>> started;  // to tell the executor
  std::vector<RequestId> ended;                         // likewise
  std::vector<int> free_seats;         // seats of the running and these are 0, 1, .. without a gap
  std::vector<Sequence*> giving_back;  // hold pages only until their steps are committed
  struct Blocked {
    RequestId id = 0;
    int free_pages = 0;
    std::uint64_t until_step = 0;
  };
  Blocked blocked;  // the waiting sequence that did not fit last
  std::uint64_t next_age = 0, next_step = 1;
  SchedulerStats stats;
};

}  // namespace glint
