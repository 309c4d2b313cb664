// Random requests, aborts, preemptions and budgets: every request ends with exactly the tokens that
// it gets alone, no page is lost, nothing starves. FakeExecutor and Simulation check each step.
#include "base/random.h"
#include "base/str.h"
#include "engine/simulation.h"

namespace glint {
namespace {

struct World {
  int replicas = 1, stages = 1;
  int depth = 1, max_drafts = 0, num_pages = 16, page_size = 4;
  bool adapt = true;
  bool faults = false;  // steps fail at random
};

class Chaos {
 public:
  Chaos(const World& world, std::uint64_t seed) : random_(seed), sim_(options(world, seed)) {}

  void run(int num_steps) {
    for (int step = 0; step < num_steps && !testing::Test::HasFailure(); ++step) {
      if (random_.below(4) == 0 && sim_.num_alive < 24) submit();
      if (random_.below(40) == 0) abort_one();
      const bool planned = sim_.plan(budget());
      if (!planned && !sim_.in_flight.empty()) sim_.commit();
      while (random_.below(3) != 0 && !sim_.in_flight.empty()) sim_.commit();
      if (random_.below(100) == 0) check_nobody_starves();
    }
    if (testing::Test::HasFailure()) return;
    sim_.drain(budget());
    for (const auto& [id, outcome] : sim_.outcomes) EXPECT_TRUE(outcome.finished) << id;
  }

  int num_failures() const { return sim_.num_failures; }
  int num_empty_parts() const { return sim_.num_empty_parts; }
  const SchedulerStats& stats() const { return sim_.scheduler.stats(); }

 private:
  static SimulationOptions options(const World& world, std::uint64_t seed) {
    Random random(seed, 1);
    SimulationOptions options;
    options.scheduler = {.num_replicas = world.replicas,
                         .max_step_tokens = 2 + static_cast<int>(random.below(40)),
                         .max_running = 2 + static_cast<int>(random.below(7)),
                         .max_seq_len = 48,
                         .depth = world.depth,
                         .num_stages = world.stages,
                         .max_drafts = world.max_drafts,
                         .adapt_drafts = world.adapt};
    options.cache = {.num_pages = world.num_pages, .page_size = world.page_size};
    options.executor.info = {
        .vocab_size = 12, .num_moe_layers = 2, .num_experts = 4, .num_experts_per_tok = 2};
    options.executor.draft_is_right = [seed](RequestId id, int position) {
      return philox(seed, id, static_cast<std::uint64_t>(position))[0] % 10 < (id % 10);
    };
    options.executor.late = [seed, asked = std::uint64_t{0}](RequestId id, int) mutable {
      return id % 3 == 0 && philox(seed, id, ++asked)[0] % 4 == 0;
    };
    if (world.faults) {
      options.executor.step_fails = [seed](std::uint64_t step) {
        return philox(seed, step, 7)[0] % 50 == 0;
      };
    }
    return options;
  }

  int budget() { return random_.below(4) == 0 ? 0 : static_cast<int>(random_.below(48)); }

  void submit() {
    Request request;
    request.priority = static_cast<int>(random_.below(3));
    request.cache_salt = random_.below(4) == 0 ? 1 : 0;
    // A few common prefixes, cut and continued at random.
    const std::uint32_t family = random_.below(3);
    const std::uint32_t shared = random_.below(24), own = 1 + random_.below(10);
    for (std::uint32_t i = 0; i < shared; ++i)
      request.prompt.own().push_back(static_cast<TokenId>((i * (family + 1)) % 12));
    for (std::uint32_t i = 0; i < own; ++i)
      request.prompt.own().push_back(static_cast<TokenId>(random_.below(3)));
    request.max_tokens = 1 + static_cast<int>(random_.below(30));
    request.min_tokens = static_cast<int>(random_.below(3));
    if (request.min_tokens > request.max_tokens) request.min_tokens = request.max_tokens;
    if (random_.below(2) == 0) request.stop_ids = {static_cast<TokenId>(random_.below(12))};
    request.sampling.seed = random_.below(1000);
    if (random_.below(6) == 0) request.want.top_logprobs = static_cast<int>(random_.below(3));
    if (random_.below(6) == 0) request.want.prompt_logprobs = 0;
    if (random_.below(6) == 0) request.want.routed_experts = true;
    if (random_.below(6) == 0) request.want.selected_keys = true;
    const int copies = random_.below(5) == 0 ? 3 : 1;
    for (int i = 0; i < copies; ++i) {
      request.id = ++last_id_;
      const Status status = sim_.submit(request);
      EXPECT_TRUE(status.ok()) << status.error().message;
      submitted_.push_back({request.id, num_steps()});
    }
  }

  void abort_one() {
    if (submitted_.empty()) return;
    // Mostly the young: the old have ended.
    const std::size_t back =
        random_.below(static_cast<std::uint32_t>(std::min<std::size_t>(submitted_.size(), 20)));
    sim_.abort(submitted_[submitted_.size() - 1 - back].id);
  }

  // A request of the best priority waits only for those before it.
  void check_nobody_starves() {
    for (const Submitted& one : submitted_) {
      const Simulation::Outcome& outcome = sim_.outcome(one.id);
      if (outcome.finished || outcome.request->priority > 0) continue;
      EXPECT_LT(num_steps() - one.at_step, 1500u) << "request " << one.id;
    }
  }

  std::uint64_t num_steps() const { return sim_.scheduler.stats().steps; }

  struct Submitted {
    RequestId id = 0;
    std::uint64_t at_step = 0;
  };

  Random random_;
  Simulation sim_;
  std::vector<Submitted> submitted_;
  RequestId last_id_ = 0;
};

// One world, several seeds; all of it must really have happened.
void run_worlds(const World& world, int num_seeds, int num_steps) {
  SchedulerStats sum;
  int num_failures = 0, num_empty_parts = 0;
  for (int seed = 1; seed <= num_seeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(str("seed ", seed));
    Chaos chaos(world, static_cast<std::uint64_t>(seed));
    chaos.run(num_steps);
    num_failures += chaos.num_failures();
    num_empty_parts += chaos.num_empty_parts();
    sum.steps += chaos.stats().steps;
    sum.preemptions += chaos.stats().preemptions;
    sum.prefix_hits += chaos.stats().prefix_hits;
    sum.accepted_tokens += chaos.stats().accepted_tokens;
    sum.drafted_tokens += chaos.stats().drafted_tokens;
  }
  const std::uint64_t steps = sum.steps;
  EXPECT_EQ(num_failures > num_seeds, world.faults);
  EXPECT_GT(steps, static_cast<std::uint64_t>(num_seeds * num_steps) / 4);
  EXPECT_GT(sum.preemptions, steps / 200);
  EXPECT_GT(sum.prefix_hits, steps / 20);
  if (world.replicas > 1) {
    EXPECT_GT(num_empty_parts, static_cast<int>(steps / 50));
  }
  if (world.max_drafts == 0) return;
  EXPECT_GT(sum.accepted_tokens, steps / 20);
  EXPECT_GT(sum.drafted_tokens, sum.accepted_tokens * 5 / 4);
}

TEST(SchedulerProperty, depth_1) { run_worlds({.depth = 1}, 30, 2000); }
TEST(SchedulerProperty, depth_2) { run_worlds({.depth = 2}, 30, 2000); }
TEST(SchedulerProperty, depth_4) { run_worlds({.depth = 4}, 30, 2000); }
TEST(SchedulerProperty, drafts_at_depth_1) { run_worlds({.depth = 1, .max_drafts = 3}, 30, 2000); }
TEST(SchedulerProperty, drafts_at_depth_2) { run_worlds({.depth = 2, .max_drafts = 3}, 30, 2000); }
TEST(SchedulerProperty, unadapted_drafts_at_depth_4) {
  run_worlds({.depth = 4, .max_drafts = 4, .adapt = false}, 30, 2000);
}
TEST(SchedulerProperty, a_cache_that_holds_one_sequence) {
  run_worlds({.depth = 1, .num_pages = 12}, 15, 2000);
  run_worlds({.depth = 2, .max_drafts = 2, .num_pages = 12}, 15, 2000);
}
TEST(SchedulerProperty, steps_that_fail_cost_time_and_no_token) {
  run_worlds({.depth = 1, .faults = true}, 15, 2000);
  run_worlds({.depth = 3, .max_drafts = 3, .faults = true}, 15, 2000);
}
TEST(SchedulerProperty, replicas) {
  run_worlds({.replicas = 2, .depth = 1}, 15, 2000);
  run_worlds({.replicas = 3, .depth = 2, .max_drafts = 3, .num_pages = 13}, 15, 2000);
  run_worlds({.replicas = 4, .depth = 4, .max_drafts = 2, .num_pages = 12}, 15, 2000);
}
TEST(SchedulerProperty, replicas_whose_steps_fail) {
  run_worlds({.replicas = 2, .depth = 1, .num_pages = 12, .faults = true}, 15, 2000);
  run_worlds({.replicas = 3, .depth = 3, .max_drafts = 3, .num_pages = 13, .faults = true}, 15,
             2000);
}
TEST(SchedulerProperty, stages) {
  run_worlds({.stages = 2, .depth = 3}, 15, 2000);
  run_worlds({.replicas = 2, .stages = 3, .depth = 4, .num_pages = 13}, 15, 2000);
  run_worlds({.stages = 2, .depth = 4, .num_pages = 12, .faults = true}, 15, 2000);
}
TEST(SchedulerProperty, pages_of_one_token) {
  run_worlds({.depth = 2, .max_drafts = 2, .num_pages = 60, .page_size = 1}, 15, 2000);
}

}  // namespace
}  // namespace glint
