#include "cli/rank_options.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "cli/served_ranks.h"

namespace glint {
namespace {

FittedShape fit(const LayoutOptions& layout, int threads) {
  const auto config = read_config(str(GLINT_SOURCE_DIR, "/models/glm5-tiny/config.json"));
  auto fitted = fit_shape(layout, config.value(), threads);
  EXPECT_TRUE(fitted.ok()) << fitted.error().message;
  return fitted.value();
}

TEST(FitShape, takes_what_model_and_machine_carry) {
  EXPECT_EQ(fit({.tp = 2}, 2).shape.tp, 2);
  EXPECT_EQ(fit({.tp = 2}, 2).note, "");
  EXPECT_EQ(fit({.tp = 8}, 16).shape.tp, 4);
  EXPECT_EQ(fit({.tp = 8}, 16).note, "tp 8 -> 4: the checkpoint has 4 heads");
  EXPECT_EQ(fit({.tp = 8}, 3).shape.tp, 2);
  EXPECT_EQ(fit({.tp = 8}, 3).note, "tp 8 -> 2: there are 3 threads");
  EXPECT_EQ(fit({.tp = 4}, 1).shape.tp, 1);
  EXPECT_EQ(fit({.tp = 3}, 8).shape.tp, 2);
  // Sums in four slices divide over two ranks, not over three.
  EXPECT_EQ(fit({.tp = 2, .reduce_slices = 4}, 8).shape.num_slices(), 4);
}

TEST(FitShape, takes_the_replicas_that_it_has_threads_for) {
  const auto shape = [](const LayoutOptions& layout, int threads) {
    return fit(layout, threads).shape;
  };
  EXPECT_EQ(shape({.ep = 3}, 4), (MeshShape{.ep = 3, .dp = 3}));  // --ep alone makes replicas
  EXPECT_EQ(shape({.dp = 4}, 4), (MeshShape{.dp = 4}));
  EXPECT_EQ(shape({.dp = 2, .ep = 2}, 4), (MeshShape{.ep = 2, .dp = 2}));
  EXPECT_EQ(shape({.tp = 2, .dp = 2}, 4), (MeshShape{.tp = 2, .dp = 2}));
  EXPECT_EQ(fit({.tp = 2, .dp = 2}, 4).note, "");
  const FittedShape few = fit({.ep = 8}, 2);
  EXPECT_EQ(few.shape, (MeshShape{.ep = 2, .dp = 2}));
  EXPECT_EQ(few.note, "dp 8 -> 2: there are 2 threads; ep 8 -> 2: there are 2 replicas");
  const FittedShape divided = fit({.tp = 8, .ep = 8}, 3);
  EXPECT_EQ(divided.shape, (MeshShape{.tp = 2, .ep = 2}));
  EXPECT_EQ(divided.note, "tp 8 -> 2: there are 3 threads; ep 8 -> 2: there are 2 ranks");
  EXPECT_EQ(shape({.tp = 2, .dp = 2, .ep = 4}, 4), (MeshShape{.tp = 2, .ep = 4, .dp = 2}));
  EXPECT_EQ(shape({.ep = 2, .reduce_slices = 4}, 2),
            (MeshShape{.ep = 2, .dp = 2, .reduce_slices = 4}));
  EXPECT_EQ(fit({.dp = 4, .ep = 2}, 4).note, "ep 2 -> 4: there are 4 replicas");
}

TEST(FitShape, shares_experts_among_no_more_ranks_than_there_are) {
  const FittedShape many = fit({.ep = 32}, 64);
  EXPECT_EQ(many.shape, (MeshShape{.ep = 16, .dp = 16}));
  EXPECT_EQ(many.note,
            "dp 32 -> 16: the checkpoint has 16 experts; ep 32 -> 16: there are 16 replicas");
  EXPECT_EQ(fit({.tp = 2, .dp = 16, .ep = 32}, 64).shape, (MeshShape{.tp = 2, .ep = 16, .dp = 8}));
  EXPECT_EQ(fit({.dp = 32}, 64).shape, (MeshShape{.dp = 32}));
}

TEST(FitShape, takes_the_replicas_of_a_sequence_that_divide_all) {
  EXPECT_EQ(fit({.cp = 2}, 2).shape, (MeshShape{.cp = 2, .dp = 2}));
  EXPECT_EQ(fit({.dp = 4, .ep = 4, .cp = 2}, 4).shape, (MeshShape{.cp = 2, .ep = 4, .dp = 4}));
  EXPECT_EQ(fit({.tp = 2, .cp = 2}, 4).shape, (MeshShape{.tp = 2, .cp = 2, .dp = 2}));
  EXPECT_EQ(fit({.cp = 8}, 3).note,
            "dp 8 -> 3: there are 3 threads; cp 8 -> 3: it divides the 3 replicas");
  EXPECT_EQ(fit({.dp = 4, .cp = 3}, 4).note, "cp 3 -> 2: it divides the 4 replicas");
  EXPECT_EQ(fit({.cp = 2}, 1).note, "dp 2 -> 1: there is 1 thread; cp 2 -> 1: there is 1 replica");
}

TEST(FitShape, moves_experts_that_are_shared) {
  const auto config = read_config(str(GLINT_SOURCE_DIR, "/models/glm5-tiny/config.json"));
  const int experts = config.value().n_routed_experts;
  const auto balanced = [&](const BalanceOptions& options, const LayoutOptions& layout) {
    FittedShape fitted = fit(layout, 2);
    const Status status = fit_balance(options, config.value(), fitted);
    if (!status.ok()) fitted.note = status.error().message;
    return fitted;
  };
  const FittedShape all =
      balanced({.enable_eplb = true, .ep_num_redundant_experts = 1000}, {.ep = 2});
  EXPECT_TRUE(all.shape.moves_experts);
  EXPECT_EQ(all.shape.redundant_experts, experts);
  EXPECT_EQ(all.note,
            str("redundant experts 1000 -> ", experts, ": then each of 2 ranks has every expert"));
  EXPECT_EQ(balanced({.enable_eplb = true}, {.dp = 2}).note,
            "eplb -> off: experts are not shared by ranks (--ep)");
  EXPECT_FALSE(balanced({}, {.ep = 2}).shape.moves_experts);
  EXPECT_FALSE(balanced({.ep_num_redundant_experts = 4}, {.ep = 2}).shape.moves_experts);
  EXPECT_EQ(balanced({.ep_num_redundant_experts = -1}, {.ep = 2}).note,
            "--ep-num-redundant-experts is -1; it must be 0 or more");
  EXPECT_EQ(balanced({.enable_eplb = true, .eplb_rebalance_num_iterations = 0}, {.ep = 2}).note,
            "--eplb-rebalance-num-iterations is 0; it must be 1 or more");
}

TEST(ValuesOf, tell_how_experts_move) {
  const auto asked = [](const MeshShape& shape) { return values_of(shape, false); };
  using Values = std::map<std::string, std::string>;
  EXPECT_EQ(asked({.moves_experts = true, .redundant_experts = 4}),
            (Values{{"--enable-eplb", "on"}, {"--ep-num-redundant-experts", "4"}}));
  EXPECT_EQ(asked({}), Values());
  const Values all = values_of(MeshShape(), true);
  EXPECT_EQ(all.at("--enable-eplb"), "off");
  EXPECT_EQ(all.at("--ep-num-redundant-experts"), "0");
}

TEST(FitShape, takes_the_stages_that_it_has_layers_and_threads_for) {
  EXPECT_EQ(fit({.pp = 2}, 2).shape, (MeshShape{.pp = 2}));
  EXPECT_EQ(fit({.pp = 2}, 2).note, "");
  EXPECT_EQ(fit({.tp = 2, .pp = 2}, 4).shape, (MeshShape{.tp = 2, .pp = 2}));
  const FittedShape few = fit({.pp = 8}, 2);
  EXPECT_EQ(few.shape, (MeshShape{.pp = 2}));
  EXPECT_EQ(few.note, "pp 8 -> 2: there are 2 threads");
  EXPECT_EQ(fit({.tp = 2, .pp = 2}, 2).note, "pp 2 -> 1: there are 2 threads");
  const FittedShape deep = fit({.pp = 100}, 128);
  EXPECT_EQ(deep.note,
            str("pp 100 -> ", deep.shape.pp, ": the checkpoint has ", deep.shape.pp, " layers"));
}

TEST(FitShape, refuses_what_is_no_number_of_ranks) {
  const auto config = read_config(str(GLINT_SOURCE_DIR, "/models/glm5-tiny/config.json")).value();
  EXPECT_FALSE(fit_shape({.tp = 0}, config, 2).ok());
  EXPECT_EQ(fit_shape({.tp = 2, .reduce_slices = 3}, config, 2).error().message,
            "--reduce-slices is 3; it must be --tp (2) or 2, 4, 8, .. times as many, and at most "
            "1024");
  EXPECT_FALSE(fit_shape({.dp = 0}, config, 2).ok());
  EXPECT_FALSE(fit_shape({.pp = 0}, config, 2).ok());
}

TEST(FitLaunch, deals_ranks_out_to_processes) {
  const auto config = read_config(str(GLINT_SOURCE_DIR, "/models/glm5-tiny/config.json")).value();
  LayoutOptions layout;
  layout.tp = 8;
  // Two machines have twice the threads.
  std::optional<RankEnv> nodes = RankEnv{.launcher = kNodes, .rank = 1, .size = 2};
  const FittedShape fitted = fit_launch(layout, config, 2, false, nodes).value();
  EXPECT_EQ(fitted.note, "tp 8 -> 4: the checkpoint has 4 heads");
  EXPECT_EQ(fitted.here, 2);
  EXPECT_EQ(nodes->rank, 2);
  EXPECT_EQ(nodes->size, 4);
  // A process for each rank, whatever a machine's threads are.
  layout.tp = 4;
  std::optional<RankEnv> each = RankEnv{.launcher = "Slurm", .rank = 3, .size = 4, .local_size = 4};
  EXPECT_EQ(fit_launch(layout, config, 1, false, each).value().here, 4);
  EXPECT_EQ(each->rank, 3);
  EXPECT_EQ(each->count, 1);
  std::optional<RankEnv> many = RankEnv{.launcher = "Slurm", .size = 8};
  layout.tp = 8;
  EXPECT_EQ(fit_launch(layout, config, 8, false, many).error().message,
            "Slurm has started 8 processes, and tp 8 -> 4: the checkpoint has 4 heads; start as "
            "many as there are ranks, or a divisor of them, or unset its variables");
}

TEST(LoadRanks, each_knows_how_many_share_the_memory) {
  Console console(stdout, stderr, true);
  const Environment environment;
  Cli cli = {.console = console, .environment = environment};
  RunOptions options;
  options.backend = "cpu";
  const ModelOptions resolved = {.dir = str(GLINT_SOURCE_DIR, "/models/glm5-tiny"),
                                 .shape = {.tp = 2}};
  const OpenedModel opened = open_model(resolved).value();
  const auto ranks = load_ranks(options, resolved, opened, cli).value();
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks->model(rank).options().ranks_here, 2);
}

TEST(FitShape, gpus_run_what_was_asked_for) {
  const FittedShape as_asked = {.shape = {.tp = 2}};
  const FittedShape smaller = {.shape = {.tp = 4}, .note = "tp 8 -> 4: the checkpoint has 4 heads"};
  RunOptions options;
  options.backend = "cuda";
  EXPECT_TRUE(check_fitted(as_asked, options).ok());
  const Status refused = check_fitted(smaller, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(refused.error().message.starts_with(smaller.note)) << refused.error().message;
  options.backend = "cpu";
  EXPECT_TRUE(check_fitted(smaller, options).ok());
}

}  // namespace
}  // namespace glint
