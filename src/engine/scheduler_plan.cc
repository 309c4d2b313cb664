// Plans: who runs how many rows in the next step, and who must wait.
//
// Why nothing deadlocks: with no step in flight, the first of a replica in scheduling order can
// preempt all others there, and its cache holds the longest sequence there may be. Why nothing
// livelocks: who is preempted comes after all who keep running there, and is admitted again only
// when all its tokens fit.
#include <algorithm>

#include "base/ceil_div.h"
#include "base/check.h"
#include "engine/scheduler_state.h"

namespace glint {

StepPlan Scheduler::schedule(int prompt_budget) {
  State& s = *state_;
  StepPlan plan;
  if (num_in_flight() >= s.config.depth) return plan;
  StepBudget each = {.tokens = s.config.max_step_tokens,
                     .prompt_tokens = std::max(0, prompt_budget),
                     .max_drafts = s.config.max_drafts};
  s.in_flight.push_back({.step = s.next_step});
  s.plan_slices(plan, StepBudgets(s.replicas.size(), each));
  if (plan.slices.empty() && s.in_flight.size() == 1 && !s.all.empty()) {
    each.prompt_tokens = std::max(each.prompt_tokens, s.replicas.front().cache.page_size());
    s.plan_slices(plan, StepBudgets(s.replicas.size(), each));
    const bool somebody_sits_out = std::any_of(s.running.begin(), s.running.end(),
                                               [](const Sequence* seq) { return seq->sits_out(); });
    GLINT_CHECK(!plan.slices.empty() || somebody_sits_out,
                "nothing is in flight, and still nothing can run");
  }
  if (plan.slices.empty() && s.ended.empty()) {
    s.in_flight.pop_back();
    return plan;
  }
  plan.started = s.in_flight.back().started = std::exchange(s.started, {});
  plan.ended = s.in_flight.back().ended = std::exchange(s.ended, {});
  plan.step = s.next_step++;
  return plan;
}

void Scheduler::State::plan_slices(StepPlan& plan, StepBudgets budgets) {
  for (std::size_t i = 0; i < budgets.size(); ++i)
    budgets[i] = reserve_decodes(static_cast<int>(i), budgets[i]);
  plan_running(plan, budgets);
  admit_waiting(plan, budgets);
}

// With stages a token is not run before its step has passed them all.
bool Scheduler::State::may_run(const Sequence& seq) const {
  return seq.can_run() && (config.num_stages == 1 || seq.in_flight_new == 0);
}

// Whether there are prompts for a step of `replica`.
bool Scheduler::State::somebody_reads(int replica) const {
  const bool may_join = !waiting.empty() && (has_slot(0) || last_makes_way_for(**waiting.begin()));
  return may_join || std::any_of(running.begin(), running.end(), [&](const Sequence* seq) {
           return seq->replica == replica && !seq->decodes();
         });
}

// Prompts may use what the decoding sequences leave of the step.
StepBudget Scheduler::State::reserve_decodes(int replica, StepBudget budget) const {
  int num_decodes = 0;
  for (const Sequence* seq : running) num_decodes += seq->replica == replica && seq->decodes();
  budget.decodes = ceil_div(num_decodes, config.num_stages);
  if (num_decodes == 0) return budget;
  // Drafts leave room to whoever reads or waits to: they could take the whole of every step.
  const int prompt_rows = somebody_reads(replica)
                              ? std::min(budget.prompt_tokens, replicas.front().cache.page_size())
                              : 0;
  const int most = (budget.tokens - prompt_rows) / num_decodes - 1;
  budget.max_drafts = std::max(0, std::min(budget.max_drafts, most));
  int decode_tokens = 0;
  for (const Sequence* seq : running)
    if (seq->replica == replica && seq->decodes() && may_run(*seq))
      decode_tokens += 1 + drafts_for(*seq, budget);
  budget.prompt_tokens = std::min(budget.prompt_tokens, budget.tokens - decode_tokens);
  return budget;
}

int Scheduler::State::drafts_for(const Sequence& seq, const StepBudget& budget) const {
  if (!seq.can_draft) return 0;
  const int wanted = config.adapt_drafts ? seq.drafts.choose(budget.max_drafts) : budget.max_drafts;
  return std::min(wanted, seq.limit - seq.planned_tokens() - 1);
}

void Scheduler::State::plan_running(StepPlan& plan, StepBudgets& budgets) {
  // A copy: preemption takes sequences from the end of `running`.
  const std::vector<Sequence*> order(running.begin(), running.end());
  for (Sequence* seq : order) {
    StepBudget& budget = budgets[static_cast<std::size_t>(seq->replica)];
    if (seq->state != Sequence::State::kRunning || !may_run(*seq)) continue;
    if (seq->decodes() && budget.decodes-- <= 0) continue;  // it is others' turn
    plan_sequence(*seq, plan, budget);
  }
}

// Plans a slice of a running sequence, if tokens and pages allow one.
void Scheduler::State::plan_sequence(Sequence& seq, StepPlan& plan, StepBudget& budget) {
  const bool decode = seq.decodes();
  int count = decode ? 1 + drafts_for(seq, budget) : std::min(seq.num_left(), budget.prompt_tokens);
  count = std::min(count, budget.tokens);
  if (count <= 0) return;
  if (rows_that_fit(seq) <= 0 && !preempt_for_page(seq, budget)) {
    budget.tight = true;
    return;
  }
  count = std::min(count, rows_that_fit(seq));
  const bool grown = cache_of(seq).grow(seq.pages, seq.planned_computed() + count);
  GLINT_CHECK(grown, "free pages were counted wrong");
  append_slice(seq, count, decode ? count - 1 : 0, plan);
  budget.tokens -= count;
  if (!decode) budget.prompt_tokens -= count;
}

void Scheduler::State::append_slice(Sequence& seq, int count, int drafts, StepPlan& plan) {
  const int first = seq.planned_computed(), end = first + count;
  const bool sample = end - drafts == seq.planned_tokens();
  const int num_known = std::clamp(seq.num_tokens() - first, 0, count);
  std::vector<TokenId> buffer;
  const std::span<const TokenId> known =
      seq.tokens.read(static_cast<std::size_t>(std::min(first, seq.num_tokens())),
                      static_cast<std::size_t>(num_known), buffer);
  std::vector<TokenId> tokens(known.begin(), known.end());
  tokens.resize(static_cast<std::size_t>(count), kPendingToken);
  const SeqSlice slice = {.id = seq.id(),
                          .first = first,
                          .num_drafts = drafts,
                          .sample = sample,
                          .max_new = sample ? drafts + 1 : 0,
                          .seat = seq.seat,
                          .replica = seq.replica};
  plan.add(slice, tokens, seq.pages.pages());
  if (!seq.started) {
    seq.started = true;
    started.push_back(seq.request);
  }
  seq.in_flight.push_back({.count = count, .max_new = slice.max_new});
  seq.in_flight_rows += count;
  seq.in_flight_new += slice.max_new;
  if (seq.can_draft) seq.drafts.planned(drafts);
  seq.can_draft = sample;
  in_flight.back().sequences.push_back(&seq);
}

int Scheduler::State::pages_for(int num_tokens) const {
  const int page_size = replicas.front().cache.page_size();
  return ceil_div(num_tokens, page_size);
}

// Without preempting anybody. At most 0 if not even one.
int Scheduler::State::rows_that_fit(const Sequence& seq) const {
  const KvCache& cache = cache_of(seq);
  const std::int64_t pages =
      std::int64_t{cache.num_free_pages()} + static_cast<int>(seq.pages.pages().size());
  return static_cast<int>(
      std::min<std::int64_t>(pages * cache.page_size() - seq.planned_computed(), 1 << 30));
}

// Pages that come back at later commits without preempting anybody.
int Scheduler::State::pages_coming_back(int replica) const {
  int count = 0;
  for (const Sequence* seq : giving_back)
    if (seq->replica == replica) count += cache_of(*seq).num_exclusive_pages(seq->pages);
  return count;
}

// Frees a page for a running sequence that needs one. False: it must wait, for a commit that gives
// pages back or for those before it. What comes back is there for the first in order at the next
// step.
bool Scheduler::State::preempt_for_page(const Sequence& seq, StepBudget& budget) {
  while (cache_of(seq).num_free_pages() == 0) {
    if (pages_coming_back(seq.replica) > 0) return false;
    Sequence& last = last_of(seq.replica);
    if (&last == &seq) return false;
    preempt(last);
    budget.tight = true;
  }
  return true;
}

// The running one that makes way first there.
Sequence& Scheduler::State::last_of(int replica) {
  return **std::find_if(running.rbegin(), running.rend(),
                        [&](const Sequence* seq) { return seq->replica == replica; });
}

void Scheduler::State::preempt(Sequence& seq) {
  leave_running(seq);
  ++seq.usage.preemptions;
  ++stats.preemptions;
  seq.can_draft = false;
  set_waiting(seq);
  if (seq.in_flight.empty()) give_back_pages(seq);
}

void Scheduler::State::admit_waiting(StepPlan& plan, StepBudgets& budgets) {
  // A sequence that waits for another's prefill, or for room in its replica's part of the step,
  // lets later ones pass, but keeps a slot. Their number is bounded, so that a long queue of equal
  // prompts costs no time.
  constexpr int kMaxPassed = 64;
  int passed = 0;
  for (auto next = waiting.begin(); next != waiting.end() && passed < kMaxPassed;) {
    Sequence& seq = **next++;
    if (std::none_of(budgets.begin(), budgets.end(),
                     [](const StepBudget& budget) { return budget.admits(); })) {
      return;
    }
    // Nor is there a slot for later ones: so nothing is looked up, which takes time.
    if (!has_slot(passed) && !last_makes_way_for(seq)) return;
    if (!seq.in_flight.empty()) return;  // preempted just now
    if (waits_for_leader(seq)) {
      ++passed;
      continue;
    }
    if (is_blocked(seq)) return;
    const int replica = choose_replica(seq, budgets);
    StepBudget& budget = budgets[static_cast<std::size_t>(replica)];
    if (finds_leader(seq, replica) || !budget.admits()) {
      ++passed;
      continue;
    }
    if (is_full(replica) || !has_slot(passed)) {
      Sequence& last = is_full(replica) ? last_of(replica) : **running.rbegin();
      if (last.request->priority <= seq.request->priority) {
        ++passed;
        continue;
      }
      if (!preempt_all_of({&last})) return;
    }
    const std::size_t num_running = running.size();
    if (!admit(seq, replica)) {
      // Other replicas are not for it; but nobody takes the seat of one that made way and is in the
      // step.
      const bool must_be_here = seq.request->want.selected_keys && replicas.size() > 1;
      if (must_be_here && running.size() == num_running) {
        budget.tight = true;
        ++passed;
        continue;
      }
      blocked = {seq.id(), num_free_pages(), next_step + 16};
      return;
    }
    plan_sequence(seq, plan, budget);
  }
}

// The replica where a waiting sequence has least before it: tokens of its own that are not cached
// there, and those that others there run in this step and later, an answer counted as kAnswer
// tokens. First those where it fits now.
int Scheduler::State::choose_replica(const Sequence& seq, const StepBudgets& budgets) const {
  constexpr std::int64_t kAnswer = 256;
  // Only the first replica's ranks see the keys that it selects.
  if (replicas.size() == 1 || seq.request->want.selected_keys) return 0;
  std::vector<std::int64_t> work;
  for (const StepBudget& budget : budgets) work.push_back(config.max_step_tokens - budget.tokens);
  for (const Sequence* other : running)
    work[static_cast<std::size_t>(other->replica)] += std::max(0, other->num_left()) + kAnswer;
  int best = 0;
  std::pair<bool, std::int64_t> least;  // whether it is full, tokens
  for (std::size_t i = 0; i < replicas.size(); ++i) {
    const KvCache& cache = replicas[i].cache;
    const KvCache::Cached cached =
        seq.may_adopt() ? cache.cached(seq.tokens, seq.request->cache_salt) : KvCache::Cached{};
    const int missing = pages_for(seq.num_tokens() - cached.tokens) + cached.free_pages;
    const std::pair<bool, std::int64_t> here = {
        is_full(static_cast<int>(i)) ||
            (replicas[i].num_running > 0 &&
             missing > cache.num_free_pages() - replicas[i].num_running),
        work[i] + seq.num_tokens() - cached.tokens};
    if (i == 0 || here < least) best = static_cast<int>(i), least = here;
  }
  return best;
}

int Scheduler::State::num_free_pages() const {
  int count = 0;
  for (const Replica& replica : replicas) count += replica.cache.num_free_pages();
  return count;
}

// Looking up a long prefix takes time: who did not fit is tried again when pages came back, or
// after some steps.
bool Scheduler::State::is_blocked(const Sequence& seq) const {
  return !running.empty() && blocked.id == seq.id() && next_step < blocked.until_step &&
         num_free_pages() <= blocked.free_pages;
}

// Makes a waiting sequence run on `replica`, with its prefix that is cached there, if all its
// tokens fit.
bool Scheduler::State::admit(Sequence& seq, int its_replica) {
  seq.replica = its_replica;
  KvCache& cache = cache_of(seq);
  const int num_running = replica(its_replica).num_running;
  const int cached =
      seq.may_adopt() ? cache.adopt_prefix(seq.pages, seq.tokens, seq.request->cache_salt) : 0;
  seq.num_computed = cached;
  const int missing = pages_for(seq.num_tokens()) - static_cast<int>(seq.pages.pages().size());
  // Each running sequence soon needs one page more.
  const int room = cache.num_free_pages() - num_running;
  const bool fits = missing <= room || (num_running == 0 && rows_that_fit(seq) > 0);
  if (!fits && !make_way_for_pages(seq, its_replica, missing - room)) {
    seq.pages = {};
    seq.num_computed = 0;
    return false;
  }
  leave_queue(seq);
  join_running(seq);
  if (!seq.started) {
    seq.usage.cached_tokens = cached;
    stats.prompt_tokens += static_cast<std::uint64_t>(seq.prompt_size());
    stats.cached_prompt_tokens += static_cast<std::uint64_t>(cached);
    if (seq.may_adopt()) {
      stats.prefix_queries += static_cast<std::uint64_t>(seq.prompt_size());
      stats.prefix_hits += static_cast<std::uint64_t>(cached);
    }
  }
  return true;
}

// Preempts running sequences of strictly worse priority for one that waits, if that is enough.
// True if room is there now; what steps in flight hold comes back later.
bool Scheduler::State::make_way_for_pages(const Sequence& seq, int replica, int missing) {
  std::vector<Sequence*> victims;
  int pages = pages_coming_back(replica);
  if (pages >= missing) return false;  // wait for those
  for (auto last = running.rbegin(); last != running.rend() && pages < missing; ++last) {
    if ((*last)->request->priority <= seq.request->priority) return false;
    if ((*last)->replica != replica) continue;
    victims.push_back(*last);
    pages += cache_of(**last).num_exclusive_pages((*last)->pages);
  }
  return pages >= missing && preempt_all_of(victims);
}

// A row of each of its sequences fills a step.
bool Scheduler::State::is_full(int i) const {
  return replica(i).num_running >= config.max_step_tokens;
}

// Beside those that run and `passed`.
bool Scheduler::State::has_slot(int passed) const {
  return static_cast<int>(running.size()) + passed < config.max_running;
}

bool Scheduler::State::last_makes_way_for(const Sequence& seq) const {
  return !running.empty() && (*running.rbegin())->request->priority > seq.request->priority;
}

// True if all their pages came back at once.
bool Scheduler::State::preempt_all_of(const std::vector<Sequence*>& victims) {
  bool at_once = true;
  for (Sequence* victim : victims) {
    at_once = at_once && victim->in_flight.empty();
    preempt(*victim);
  }
  return at_once;
}

// Whether a running sequence still computes the prefix that this one waits for.
bool Scheduler::State::waits_for_leader(Sequence& seq) const {
  if (seq.leader.tokens == 0) return false;
  const auto found = all.find(seq.leader.id);
  if (found != all.end() && found->second->state == Sequence::State::kRunning &&
      found->second->num_computed < seq.leader.tokens) {
    return true;
  }
  seq.leader.tokens = 0;
  return false;
}

// Whether a running sequence of `replica` is computing a prefix of this one's tokens: then waiting
// for it costs nothing and saves the rows.
bool Scheduler::State::finds_leader(Sequence& seq, int replica) const {
  if (!seq.may_adopt()) return false;
  for (const Sequence* other : running) {
    // Never for one that itself may have to wait for others of worse priority than this.
    if (other->request->priority > seq.request->priority) break;
    if (other->replica != replica) continue;
    const int useful = shared_tokens(*other, seq);
    if (useful <= other->num_computed) continue;
    seq.leader = {.id = other->id(), .tokens = useful};
    return true;
  }
  return false;
}

// How many tokens `later` could adopt when `first` has computed what it has now.
int Scheduler::State::shared_tokens(const Sequence& first, const Sequence& later) const {
  if (first.num_computed + 1 >= first.num_tokens() ||
      first.request->cache_salt != later.request->cache_salt)
    return 0;
  const int common = static_cast<int>(common_prefix(first.tokens, later.tokens));
  // The last common token may be needed as the one after a page; one token is left to run.
  const int lookahead = replicas.front().cache.config().match_next_token ? 1 : 0;
  return replicas.front().cache.reusable_tokens(
      std::min(common - lookahead, later.num_tokens() - 1));
}

}  // namespace glint
