// Where sequences go when pages lie on several replicas, and whose turn it is where stages work on
// several steps. That answers stay right whatever happens is
// in scheduler_property_test.cc.
#include <map>

#include "engine/simulation.h"

namespace glint {
namespace {

// `shared` tokens of a text, and as many of its own.
Request make(RequestId id, int shared, int text, int own = 0, int max_tokens = 100) {
  Request request;
  request.id = id;
  for (int i = 0; i < shared; ++i)
    request.prompt.own().push_back(static_cast<TokenId>((text * 100 + i) % 997));
  for (int i = 0; i < own; ++i) request.prompt.own().push_back(static_cast<TokenId>(500 + id));
  request.max_tokens = max_tokens;
  return request;
}

SimulationOptions two_replicas(int num_pages = 200) {
  SimulationOptions options;
  options.scheduler = {.num_replicas = 2, .max_step_tokens = 64, .max_running = 8, .depth = 1};
  options.cache = {.num_pages = num_pages, .page_size = 4};
  return options;
}

// A step; the replica of each sequence that runs in it.
std::map<RequestId, int> step(Simulation& sim, int prompt_budget = 1000) {
  std::map<RequestId, int> replicas;
  if (!sim.plan(prompt_budget)) return replicas;
  for (const SeqSlice& slice : sim.commit().slices) replicas[slice.id] = slice.replica;
  return replicas;
}

void submit(Simulation& sim, const Request& request) { ASSERT_TRUE(sim.submit(request).ok()); }

TEST(Replicas, sequences_go_where_least_is_to_run_and_stay_there) {
  Simulation sim(two_replicas());
  submit(sim, make(1, 40, 1));
  submit(sim, make(2, 10, 2));
  submit(sim, make(3, 10, 3));
  const std::map<RequestId, int> replicas = {{1, 0}, {2, 1}, {3, 1}};
  // The third has 10 tokens before it there, and an answer; beside the first there would be 40.
  EXPECT_EQ(step(sim), replicas);
  EXPECT_EQ(step(sim), replicas);
  submit(sim, make(4, 10, 4));
  EXPECT_EQ(step(sim).at(4), 0);
  sim.drain();
}

TEST(Replicas, a_cached_prefix_draws_a_sequence_as_far_as_it_saves_more_than_an_answer) {
  SimulationOptions options = two_replicas();
  options.scheduler.max_step_tokens = 1000;
  Simulation sim(options);
  submit(sim, make(1, 400, 1));
  submit(sim, make(2, 20, 2));
  step(sim);
  submit(sim, make(3, 20, 2));  // as much to run on both, but for what the second has computed
  EXPECT_EQ(step(sim).at(3), 1);
  EXPECT_EQ(sim.scheduler.stats().prefix_hits, 16u);
  submit(sim, make(4, 400, 1, 10));  // one runs on the first replica, and two on the second
  submit(sim, make(5, 400, 1, 11));  // two on each
  submit(sim, make(6, 400, 1, 12));  // three and two: the prefix is still worth more
  submit(sim, make(7, 400, 1, 13));  // four and two: it is not
  const auto replicas = step(sim);
  EXPECT_EQ(replicas.at(4), 0);
  EXPECT_EQ(replicas.at(5), 0);
  EXPECT_EQ(replicas.at(6), 0);
  EXPECT_EQ(replicas.at(7), 1);
  sim.drain();
}

TEST(Replicas, who_does_not_fit_in_one_goes_to_another) {
  Simulation sim(two_replicas(16));  // of 64 tokens each
  submit(sim, make(1, 20, 1));
  submit(sim, make(2, 60, 2));
  EXPECT_EQ(step(sim), (std::map<RequestId, int>{{1, 0}, {2, 1}}));
  submit(sim, make(3, 28, 2));  // its prefix is on the second replica, where no page is left
  EXPECT_EQ(step(sim).at(3), 0);
  sim.drain();
}

TEST(Replicas, a_cached_prefix_that_nobody_holds_is_no_room_beside_it) {
  SimulationOptions options = two_replicas();
  options.scheduler.max_step_tokens = 1000;
  Simulation sim(options);
  submit(sim, make(1, 400, 1, 0, 1));
  step(sim);
  submit(sim, make(2, 380, 2));
  EXPECT_EQ(step(sim).at(2), 0);
  submit(sim, make(3, 400, 1, 60));  // its prefix is all that is left on the first replica
  EXPECT_EQ(step(sim).at(3), 1);
  sim.drain();
}

TEST(Replicas, who_waits_for_the_first_replica_holds_up_no_other) {
  Simulation sim(two_replicas(30));
  submit(sim, make(1, 100, 1, 0, 8));
  step(sim);
  Request keys = make(2, 60, 2, 0, 8);
  keys.want.selected_keys = true;
  submit(sim, keys);
  submit(sim, make(3, 10, 3, 0, 8));
  EXPECT_EQ(step(sim), (std::map<RequestId, int>{{1, 0}, {3, 1}}));
  sim.drain();
}

TEST(Replicas, who_waits_for_a_slot_chooses_a_replica_when_there_is_one) {
  SimulationOptions options = two_replicas();
  options.scheduler.max_running = 3;
  Simulation sim(options);
  submit(sim, make(1, 100, 1));
  submit(sim, make(2, 2, 2));
  submit(sim, make(3, 2, 3));
  submit(sim, make(4, 100, 1));  // like the first, beside which there is least to run
  const std::map<RequestId, int> replicas = {{1, 0}, {2, 1}, {3, 1}};
  EXPECT_EQ(step(sim, 4), replicas);
  EXPECT_EQ(step(sim, 4), replicas);
  sim.abort(2);
  sim.abort(3);
  EXPECT_EQ(step(sim, 4), (std::map<RequestId, int>{{1, 0}, {4, 1}}));
  sim.drain();
}

TEST(Replicas, a_long_prompt_holds_up_no_other_replica) {
  Simulation sim(two_replicas());
  submit(sim, make(1, 400, 1));
  submit(sim, make(2, 10, 2));
  EXPECT_EQ(step(sim, 20), (std::map<RequestId, int>{{1, 0}, {2, 1}}));
  submit(sim, make(3, 10, 3));
  EXPECT_EQ(step(sim, 20), (std::map<RequestId, int>{{1, 0}, {2, 1}, {3, 1}}));
  sim.drain();
}

TEST(Replicas, each_has_a_budget_of_its_own) {
  Simulation sim(two_replicas());
  submit(sim, make(1, 100, 1));
  submit(sim, make(2, 100, 2));
  ASSERT_TRUE(sim.plan(1000));
  EXPECT_EQ(sim.in_flight.back().tokens.size(), 128u);
  sim.commit();
  ASSERT_TRUE(sim.plan(10));
  EXPECT_EQ(sim.in_flight.back().tokens.size(), 20u);
  sim.drain();
}

TEST(Replicas, each_runs_as_many_sequences_as_a_step_has_tokens) {
  SimulationOptions options = two_replicas();
  options.scheduler.max_step_tokens = 2;
  Simulation sim(options);
  for (RequestId id = 1; id <= 6; ++id) submit(sim, make(id, 2, static_cast<int>(id)));
  for (int i = 0; i < 3; ++i) step(sim);
  std::vector<int> running(2);
  for (const auto& [id, replica] : step(sim)) ++running[static_cast<std::size_t>(replica)];
  EXPECT_EQ(running, (std::vector<int>{2, 2}));
  sim.drain();
}

TEST(Stages, sequences_decode_in_turns) {
  SimulationOptions options;
  options.scheduler = {.max_step_tokens = 64, .max_running = 8, .depth = 3, .num_stages = 2};
  options.cache = {.num_pages = 200, .page_size = 4};
  Simulation sim(options);
  for (RequestId id = 1; id <= 4; ++id) submit(sim, make(id, 10, static_cast<int>(id)));
  ASSERT_TRUE(sim.plan(1000));
  EXPECT_FALSE(sim.plan(1000));  // all wait for their first token
  sim.commit();
  const auto ids = [&] {
    std::vector<RequestId> all;
    for (const SeqSlice& slice : sim.in_flight.back().slices) all.push_back(slice.id);
    return all;
  };
  ASSERT_TRUE(sim.plan(1000));
  EXPECT_EQ(ids(), (std::vector<RequestId>{1, 2}));
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(sim.plan(1000));
    EXPECT_EQ(ids(), (std::vector<RequestId>{3, 4}));
    EXPECT_FALSE(sim.plan(1000));
    sim.commit();
    ASSERT_TRUE(sim.plan(1000));
    EXPECT_EQ(ids(), (std::vector<RequestId>{1, 2}));
    sim.commit();
  }
  submit(sim, make(5, 10, 5));  // a prompt goes beside them
  ASSERT_TRUE(sim.plan(1000));
  EXPECT_EQ(ids(), (std::vector<RequestId>{3, 4, 5}));
  sim.drain();
}

}  // namespace
}  // namespace glint
