// A served model over ranks, of which the first leads: the same answers as one rank's, that cuts
// its sums in the same slices where products are divided, whatever runs beside them.
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "executor/harness.h"
#include "ops/testing/late_ops.h"
#include "runtime/memory_plan.h"
#include "runtime/rank_threads.h"

namespace glint {
namespace {

constexpr int kSlices = 4;

struct Group {
  std::unique_ptr<Ranks> ranks;
  std::unique_ptr<RankThreads> followers;
  LoadedModel& leader() { return ranks->model(0); }
};

enum class Where { kHost, kLateDevice, kJoinedDevices };

// Only for the leader's device somebody waits.
std::unique_ptr<Backend> make_backend(Where where, int rank) {
  std::unique_ptr<Backend> host = best_backend().make(1);
  if (where == Where::kHost) return host;
  if (where == Where::kLateDevice) return std::make_unique<LateOps>(std::move(host));
  return std::make_unique<LateOps>(std::move(host),
                                   rank == 0 ? LateOps::Groups::kLate : LateOps::Groups::kThatWait);
}

Group load_group(const MeshShape& shape, Where where = Where::kHost,
                 std::optional<Release> dummy = {}) {
  Group group = {std::make_unique<Ranks>(shape), nullptr};
  for (int rank = 0; rank < shape.num_ranks(); ++rank) {
    auto model = LoadedModel::load({.dir = kModelDir,
                                    .dummy = dummy,
                                    .with_mtp = true,
                                    .shape = shape,
                                    .rank = rank,
                                    .mesh = group.ranks->mesh(rank)},
                                   make_backend(where, rank));
    EXPECT_TRUE(model.ok()) << model.error().message;
    group.ranks->add(std::move(model).value());
  }
  group.followers = std::make_unique<RankThreads>(*group.ranks);
  return group;
}

Group load_group(int tp) { return load_group({.tp = tp, .reduce_slices = kSlices}); }

const std::vector<Request>& requests() {
  static const std::vector<Request> list = [] {
    std::vector<Request> all = mixed_requests(6, 50, 36);  // they end on their second page
    all[0].want = {.top_logprobs = 2, .prompt_logprobs = 1};
    all[1].want = {.routed_experts = true, .selected_keys = true};
    return all;
  }();
  return list;
}

// Drafts, chunks, plans ahead, and too few pages for all; in builds with sanitizers, all at once.
void expect_same_in_all_ways(LoadedModel& leader, const std::map<RequestId, Outcome>& expected) {
  expect_same(Harness(leader, {}).run(requests()), expected);
  const std::vector<HarnessOptions> ways = {{.max_drafts = 3, .max_step_tokens = 50, .depth = 2},
                                            {.max_drafts = 2},
                                            {.max_step_tokens = 37}};
  for (const HarnessOptions& way : std::span(ways).first(kSanitized ? 1 : ways.size())) {
    expect_same(Harness(leader, way).run(requests()), expected);
  }
  int preemptions = 0;
  const auto crowded = Harness(leader, {.num_pages = 3, .max_drafts = 2}).run(requests());
  for (const auto& [id, outcome] : crowded) {
    EXPECT_EQ(outcome.tokens, expected.at(id).tokens) << "request " << id;
    preemptions += outcome.usage.preemptions;
  }
  EXPECT_GT(preemptions, 0);
}

TEST(RankedExecutor, answers_as_one_rank_does) {
  Group one = load_group(1);
  const auto expected = Harness(one.leader(), {}).run(requests());
  EXPECT_FALSE(expected.at(2).extras.routed_experts.empty());
  EXPECT_FALSE(expected.at(1).extras.prompt_logprobs.empty());
  const std::int64_t whole = one.leader().load_stats().held_bytes;
  for (const int tp : {2, 4}) {
    SCOPED_TRACE(tp);
    Group group = load_group(tp);
    expect_same_in_all_ways(group.leader(), expected);
    // No rank holds the whole; all did the same work.
    const auto uses = group.ranks->uses(0, "tp");
    EXPECT_GT(uses.at("all_reduce").calls, 0);
    for (int rank = 0; rank < tp; ++rank) {
      EXPECT_LT(group.ranks->model(rank).load_stats().held_bytes, whole);
      for (const auto& [name, use] : group.ranks->uses(rank, "tp")) {
        EXPECT_EQ(use.calls, uses.at(name).calls) << name;
        EXPECT_EQ(use.bytes, uses.at(name).bytes) << name;
      }
    }
  }
}

TEST(RankedExecutor, replicas_answer_as_one_rank_does) {
  Group one = load_group(MeshShape());
  const auto expected = Harness(one.leader(), {}).run(requests());
  const std::int64_t whole = one.leader().load_stats().held_bytes;
  for (const int replicas : {2, 3}) {
    SCOPED_TRACE(replicas);
    Group group = load_group({.ep = replicas, .dp = replicas});
    expect_same_in_all_ways(group.leader(), expected);
    // One request alone: the other replicas step without rows.
    const std::vector<Request> alone = {requests()[0]};
    expect_same(Harness(group.leader(), {}).run(alone), {{1, expected.at(1)}});
    for (int rank = 0; rank < replicas; ++rank) {
      EXPECT_LT(group.ranks->model(rank).load_stats().held_bytes, whole);
      EXPECT_GT(group.ranks->uses(rank, "ep").at("exchange").bytes, 0);
      EXPECT_GT(group.ranks->uses(rank, "dp").at(rank == 0 ? "recv" : "send").bytes, 0);
    }
  }
}

TEST(RankedExecutor, replicas_whose_experts_are_whole_answer_as_one_rank_does) {
  Group one = load_group(MeshShape());
  const auto expected = Harness(one.leader(), {}).run(requests());
  Group group = load_group({.dp = 2});
  expect_same_in_all_ways(group.leader(), expected);
  EXPECT_TRUE(group.ranks->uses(1, "ep").empty());
}

TEST(RankedExecutor, replicas_of_divided_matrices_answer_as_one_rank_does) {
  Group one = load_group(1);
  const auto expected = Harness(one.leader(), {}).run(requests());
  Group group = load_group({.tp = 2, .dp = 2, .reduce_slices = kSlices});
  expect_same_in_all_ways(group.leader(), expected);
}

TEST(RankedExecutor, replicas_that_share_sequences_answer_as_one_rank_does) {
  Group one = load_group(MeshShape());
  const auto expected = Harness(one.leader(), {}).run(requests());
  for (const MeshShape& shape : {MeshShape{.cp = 2, .dp = 2}, MeshShape{.cp = 2, .ep = 4, .dp = 4},
                                 MeshShape{.cp = 3, .pp = 2, .dp = 3}}) {
    SCOPED_TRACE(describe(shape));
    Group group = load_group(shape);
    expect_same_in_all_ways(group.leader(), expected);
    // A row alone: the other replicas step without any, and hear what it leaves in the cache.
    const std::vector<Request> alone = {requests()[0]};
    expect_same(Harness(group.leader(), {.max_drafts = 3}).run(alone), {{1, expected.at(1)}});
    EXPECT_GT(group.ranks->uses(1, "cp").at("exchange").bytes, 0);
  }
  Group cut = load_group(1),
        divided = load_group({.tp = 2, .cp = 2, .dp = 2, .reduce_slices = kSlices});
  expect_same_in_all_ways(divided.leader(), Harness(cut.leader(), {}).run(requests()));
}

// Ranks whose memory nobody else reads, and which have done nothing until somebody waits.
TEST(RankedExecutor, ranks_on_devices_answer_as_ranks_on_the_host_do) {
  const std::vector<Request> few(requests().begin(), requests().begin() + 3);
  for (const MeshShape& shape :
       {MeshShape{.tp = 1, .reduce_slices = 2}, MeshShape{.tp = 2}, MeshShape{.ep = 2, .dp = 2}}) {
    SCOPED_TRACE(describe(shape));
    Group host = load_group(shape), devices = load_group(shape, Where::kLateDevice);
    EXPECT_EQ(host.leader().way_between_ranks(), "");
    EXPECT_EQ(devices.leader().way_between_ranks(), "through the host");
    const HarnessOptions drafts = {.max_drafts = 2};
    expect_same(Harness(devices.leader(), drafts).run(few), Harness(host.leader(), {}).run(few));
  }
}

// Results come to the first stage by the host, whatever the sends of later steps wait for.
TEST(RankedExecutor, stages_on_devices_answer_as_one_rank_does) {
  const std::vector<Request> few(requests().begin(), requests().begin() + 4);
  Group one = load_group(MeshShape());
  const auto expected = Harness(one.leader(), {}).run(few);
  for (const MeshShape& shape : {MeshShape{.pp = 2}, MeshShape{.ep = 2, .pp = 2, .dp = 2}}) {
    for (const Where where : {Where::kLateDevice, Where::kJoinedDevices}) {
      SCOPED_TRACE(str(describe(shape), where == Where::kJoinedDevices ? ", joined" : ""));
      Group devices = load_group(shape, where);
      expect_same(Harness(devices.leader(), {.max_drafts = 2}).run(few), expected);
      Harness several(devices.leader(), {.max_step_tokens = 37, .depth = 3});
      expect_same(several.run(few), expected);
    }
  }
}

// Whose groups are part of what is recorded, and of what is repeated.
TEST(RankedExecutor, recorded_steps_answer_as_the_host_does) {
  const std::vector<Request> few(requests().begin(), requests().begin() + 3);
  for (const MeshShape& shape : {MeshShape{.tp = 2}, MeshShape{.ep = 2, .dp = 2},
                                 MeshShape{.tp = 2, .ep = 2}, MeshShape{.dp = 2}}) {
    SCOPED_TRACE(describe(shape));
    Group host = load_group(shape), devices = load_group(shape, Where::kJoinedDevices);
    EXPECT_EQ(devices.leader().way_between_ranks(), "late");
    const auto expected = Harness(host.leader(), {}).run(few);
    expect_same(Harness(devices.leader(), {}).run(few), expected);
    EXPECT_GT(devices.leader().num_graphs(), 0u);
    expect_same(Harness(devices.leader(), {.max_drafts = 2}).run(few), expected);
    // The other replica repeats a graph of padding.
    expect_same(Harness(devices.leader(), {}).run({few[0]}), {{1, expected.at(1)}});
  }
}

TEST(RankedExecutor, stages_answer_as_one_rank_does) {
  Group one = load_group(MeshShape());
  const auto expected = Harness(one.leader(), {}).run(requests());
  const std::int64_t whole = one.leader().load_stats().held_bytes;
  for (const MeshShape& shape : {MeshShape{.pp = 3}, MeshShape{.ep = 2, .pp = 2, .dp = 2}}) {
    SCOPED_TRACE(describe(shape));
    Group group = load_group(shape);
    expect_same_in_all_ways(group.leader(), expected);
    // Several steps at once, of sequences in turns.
    for (const int tokens : {512, 37}) {
      Harness harness(group.leader(), {.max_step_tokens = tokens, .depth = shape.pp + 2});
      EXPECT_EQ(harness.executor().info().depth, shape.pp + 1);
      expect_same(harness.run(requests()), expected);
    }
    for (int rank = 0; rank < shape.num_ranks(); ++rank) {
      LoadedModel& model = group.ranks->model(rank);
      EXPECT_LT(model.load_stats().held_bytes, whole);
      EXPECT_EQ(model.partition().layers.size() < model.config().num_hidden_layers, true);
      EXPECT_GT(group.ranks->uses(rank, "pp").size(), 0u);
    }
  }
}

TEST(RankedExecutor, members_of_a_replica_that_share_experts_answer_as_one_rank_does) {
  Group one = load_group({.reduce_slices = kSlices, .whole_experts = true});
  const auto expected = Harness(one.leader(), {}).run(requests());
  Group group = load_group({.tp = 2, .ep = 2, .reduce_slices = kSlices});
  expect_same_in_all_ways(group.leader(), expected);
  EXPECT_GT(group.ranks->uses(1, "ep").at("exchange").bytes, 0);
}

TEST(RankedExecutor, experts_move_between_steps_and_no_answer_changes) {
  Group one = load_group(MeshShape());
  const auto expected = Harness(one.leader(), {}).run(requests());
  for (const MeshShape& shape :
       {MeshShape{.ep = 2, .dp = 2, .moves_experts = true, .redundant_experts = 3},
        MeshShape{.ep = 2, .pp = 2, .dp = 2, .moves_experts = true}}) {
    SCOPED_TRACE(describe(shape));
    Group group = load_group(shape);
    const std::int64_t held = group.ranks->model(1).load_stats().held_bytes;
    for (const HarnessOptions& way : {HarnessOptions{.balance_steps = 2},
                                      {.max_drafts = 2, .balance_steps = 3},
                                      {.max_step_tokens = 37, .depth = 2, .balance_steps = 5}}) {
      Harness harness(group.leader(), way);
      EXPECT_EQ(harness.executor().expert_places()->moved_layers, 0u);
      expect_same(harness.run(requests()), expected);
      const ExpertPlaces places = harness.executor().expert_places().value();
      EXPECT_GT(places.looks, 1u);
      EXPECT_GT(places.moved_layers, 0u);
      EXPECT_LE(places.imbalance_after, places.imbalance_before);
      // All ranks agree, and nothing but places has changed.
      for (std::size_t i = 0; i < places.slots.size(); ++i) {
        const int layer = harness.executor().info().moe_layers[i];
        for (int rank = 0; rank < shape.num_ranks(); ++rank) {
          const LoadedModel& model = group.ranks->model(rank);
          EXPECT_EQ(model.partition().slots_of(layer, model.config().n_routed_experts),
                    places.slots[i]);
        }
      }
    }
    // Weights that are loaded anew go where the experts are by now.
    ASSERT_TRUE(group.leader().update_weights(kModelDir).ok());
    expect_same(Harness(group.leader(), {}).run(requests()), expected);
    // Where ranks start again they have the experts that they had at first, and so has the leader.
    const Status status = group.leader().restart_ranks();
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_TRUE(group.leader().partition().moved.empty());
    EXPECT_EQ(group.ranks->model(1).load_stats().held_bytes, held);
  }
}

TEST(RankedExecutor, experts_without_memory_of_their_own_do_not_move) {
  const MeshShape shape = {.ep = 2, .dp = 2, .moves_experts = true};
  Ranks ranks(shape);
  const auto model = LoadedModel::load(
      {.dir = kModelDir, .packing = Packing::kNever, .shape = shape, .mesh = ranks.mesh(0)},
      best_backend().make(1));
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().message,
            "experts that move between ranks must be of one format and in memory of their own; "
            "leave --enable-eplb out, or --pack never, or free memory for packed weights");
}

TEST(RankedExecutor, weights_are_made_on_devices_a_share_by_each_rank) {
  const std::vector<Request> few(requests().begin(), requests().begin() + 2);
  const Group one = load_group(MeshShape(), Where::kLateDevice, Release::kNvfp4);
  const std::int64_t whole = one.ranks->model(0).load_stats().held_bytes;
  for (const MeshShape& shape : {MeshShape{.tp = 2}, MeshShape{.ep = 2, .dp = 2}}) {
    SCOPED_TRACE(describe(shape));
    Group group = load_group(shape, Where::kJoinedDevices, Release::kNvfp4);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_LT(group.ranks->model(rank).load_stats().held_bytes, whole);
    }
    const auto outcomes = Harness(group.leader(), {.max_drafts = 2}).run(few);
    for (const Request& request : few) {
      const Outcome& outcome = outcomes.at(request.id);
      EXPECT_TRUE(outcome.finished) << "request " << request.id;
      for (const TokenLogprob& logprob : outcome.logprobs) {
        EXPECT_TRUE(std::isfinite(logprob.logprob)) << "request " << request.id;
      }
    }
    const Status refused = group.leader().update_weights(kModelDir);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("synthetic"), std::string::npos);
  }
}

TEST(RankedExecutor, steps_take_what_they_were_planned_to_take) {
  constexpr int kTokens = 300;
  for (const MeshShape& shape :
       {MeshShape{.tp = 2}, MeshShape{.tp = 2, .ep = 2}, MeshShape{.cp = 2, .dp = 2},
        MeshShape{.reduce_slices = 2}, MeshShape{.tp = 2, .reduce_slices = 4},
        MeshShape{.reduce_slices = 2, .whole_experts = true}}) {
    SCOPED_TRACE(describe(shape));
    Group group = load_group(shape);
    LoadedModel& leader = group.leader();
    ASSERT_TRUE(leader.reserve_pages(pages_of(kTokens)).ok());
    std::vector<PageId> pages(static_cast<std::size_t>(pages_of(kTokens)));
    std::iota(pages.begin(), pages.end(), 0);
    std::vector<TokenId> tokens(kTokens);
    for (int i = 0; i < kTokens; ++i) tokens[static_cast<std::size_t>(i)] = 5 + i * 7 % 50;
    StepRows rows;
    rows.add(0, tokens, pages, 2);
    leader.step(rows, {.routed = true});
    const auto trial = StepTrial::make(leader.config(), trial_options(leader)).value();
    const std::int64_t planned = trial->run({.tokens = kTokens / shape.cp,
                                             .sequences = 1,
                                             .length = kTokens,
                                             .logit_rows = 2,
                                             .routed = true});
    const std::int64_t used = leader.used_memory().step;
    EXPECT_LE(used, planned);
    EXPECT_GT(used, planned * 9 / 10);
  }
}

TEST(RankedExecutor, rotary_tables_hold_the_longest_sequence_as_planned) {
  Group group = load_group(2);
  LoadedModel& leader = group.leader();
  const StepLimits limits = {.max_step_tokens = 64, .max_running = 8, .max_seq_len = 128};
  const MemoryPlan plan = plan_memory(leader, limits).value();
  ASSERT_TRUE(reserve(leader, 8 * 2, limits).ok());
  for (int rank = 0; rank < 2; ++rank) {
    const Tensor& table = group.ranks->model(rank).rotary_table();
    EXPECT_EQ(static_cast<std::int64_t>(table.bytes().size()), plan.rope) << "rank " << rank;
  }
}

TEST(RankedExecutor, weights_change_on_all_ranks_or_on_none) {
  Group group = load_group(2);
  Harness harness(group.leader(), {});
  const auto expected = harness.run(requests());
  const auto update = [&](const std::string& dir) {
    return harness.executor().control({.kind = ExecutorCommand::Kind::kUpdateWeights, .path = dir});
  };
  EXPECT_FALSE(update("/nowhere").ok());
  expect_same(Harness(group.leader(), {}).run(requests()), expected);
  const Status status = update(kModelDir);
  ASSERT_TRUE(status.ok()) << status.error().message;
  expect_same(Harness(group.leader(), {}).run(requests()), expected);
}

TEST(RankedExecutor, threads_that_are_lost_stay_so) {
  Group group = load_group(2);
  EXPECT_TRUE(group.leader().restart_ranks().ok());
  group.followers->lose("other weights");
  EXPECT_EQ(group.leader().ranks_state().error().message, "other weights");
  EXPECT_EQ(group.leader().restart_ranks().error().message, "other weights");
}

TEST(RankedExecutor, memory_that_a_follower_lacks_is_told) {
  Group group = load_group(2);
  const Status status = group.leader().reserve_pages(1 << 30);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(group.leader().reserve_pages(8).ok());
}

}  // namespace
}  // namespace glint
