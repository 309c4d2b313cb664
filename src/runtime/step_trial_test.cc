#include "runtime/step_trial.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

TEST(StepTrial, plans_the_layers_that_each_stage_has) {
  const ModelConfig config =
      read_config(str(GLINT_SOURCE_DIR, "/tests/data/configs/glm5.json")).value();
  for (const MeshShape& shape :
       {MeshShape{.tp = 2, .pp = 4, .last_stage_layers = 18},
        MeshShape{.tp = 2, .ep = 8, .pp = 3, .last_stage_layers = 6, .dp = 4},
        MeshShape{.pp = 4}}) {
    for (int stage = 0; stage < shape.pp; ++stage) {
      const int rank = stage * shape.dp * shape.tp;
      const LayerRange runs = plan_partition(config, shape, rank).value().layers;
      const LayerRange planned = partition_of(config, shape, stage).value().layers;
      EXPECT_EQ(planned.begin, runs.begin) << describe(shape);
      EXPECT_EQ(planned.end, runs.end) << describe(shape);
    }
  }
}

}  // namespace
}  // namespace glint
