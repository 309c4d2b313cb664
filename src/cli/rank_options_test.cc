#include "cli/rank_options.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

FittedShape fit(const RankOptions& options, int threads, const ShardOptions& shards = {}) {
  const auto config = read_config(str(GLINT_SOURCE_DIR, "/models/glm5-tiny/config.json"));
  auto fitted = fit_shape(options, config.value(), threads, shards);
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

TEST(FitShape, takes_the_shards_that_it_has_threads_for) {
  const auto shape = [](const RankOptions& options, int threads, const ShardOptions& shards) {
    return fit(options, threads, shards).shape;
  };
  EXPECT_EQ(shape({}, 4, {.ep = 3}), (MeshShape{.ep = 3, .dp = 3}));  // --ep alone makes shards
  EXPECT_EQ(shape({}, 4, {.dp = 4}), (MeshShape{.dp = 4}));
  EXPECT_EQ(shape({}, 4, {.dp = 2, .ep = 2}), (MeshShape{.ep = 2, .dp = 2}));
  EXPECT_EQ(shape({.tp = 2}, 4, {.dp = 2}), (MeshShape{.tp = 2, .dp = 2}));
  EXPECT_EQ(fit({.tp = 2}, 4, {.dp = 2}).note, "");
  const FittedShape few = fit({}, 2, {.ep = 8});
  EXPECT_EQ(few.shape, (MeshShape{.ep = 2, .dp = 2}));
  EXPECT_EQ(few.note, "dp 8 -> 2: there are 2 threads; ep 8 -> 2: there are 2 shards");
  const FittedShape cut = fit({.tp = 2}, 2, {.ep = 2});
  EXPECT_EQ(cut.shape, (MeshShape{.tp = 2}));
  EXPECT_EQ(cut.note, "ep 2 -> 1: experts are cut in slices");
  EXPECT_EQ(fit({}, 4, {.dp = 4, .ep = 2}).note, "ep 2 -> 4: there are 4 shards");
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
  EXPECT_FALSE(fit_shape({.tp = 2, .reduce_slices = 3}, config, 2).ok());
  EXPECT_FALSE(fit_shape({}, config, 2, {.dp = 0}).ok());
  EXPECT_FALSE(fit_shape({.pp = 0}, config, 2).ok());
}

}  // namespace
}  // namespace glint
