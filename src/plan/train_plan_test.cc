#include "plan/train_plan.h"

#include <gtest/gtest.h>

#include "plan/known_models.h"

namespace glint {
namespace {

TrainPlanOptions sixteen_nodes() {
  return {.model = "GLM-5",
          .device = *find_device("h200"),
          .layout = {.gpus = 128, .tp = 4, .pp = 4, .cp = 2, .ep = 32, .last_stage_layers = 18},
          .engine_gpus = 64,
          .update_buffer = std::int64_t{2} << 30};
}

TrainPlan planned(const TrainPlanOptions& options, std::string_view model = "GLM-5") {
  return plan_training(find_known_model(model)->config, options).value();
}

double gb(std::int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

// 20 of 75 layers' experts on 32 GPUs are 6.04 G parameters of each, which exist once: 12 bytes of
// optimiser for each cannot be divided among any.
TEST(TrainPlan, SixteenNodesFitWithTheOptimiserOnTheHost) {
  const TrainPlan p = planned(sixteen_nodes());
  EXPECT_EQ(p.misfit, "");
  EXPECT_EQ(p.stage_layers, (std::vector<int>{20, 20, 20, 18}));
  EXPECT_EQ(p.options.layout.dp(), 4);
  EXPECT_EQ(p.options.layout.expert_dp(), 1);
  EXPECT_TRUE(p.offloads);
  EXPECT_EQ(p.gpu.optimizer, 0);
  // 6.04 G of experts; a layer's 73.6 M beside them, of which q_a, kv_a and the indexer are whole
  // on each, and the indexer's 9.4 M have no gradient.
  EXPECT_NEAR(gb(p.gpu.weights), 2 * (6.04 + 20 * 0.0736), 0.05);
  EXPECT_NEAR(gb(p.gpu.gradients), 4 * (6.04 + 20 * 0.0642), 0.1);
  EXPECT_NEAR(gb(p.host_of_node), 8 * (12 * 6.04 + 12 * 20 * 0.0642 / 8 + 15), 5);
  EXPECT_NEAR(gb(p.engine.rank.weight_bytes()), 61, 3);
  EXPECT_EQ(p.engines, 2);
  EXPECT_GT(p.rollout_s, p.compute_s);
}

TEST(TrainPlan, MoreGpusNeedNoOffload) {
  TrainPlanOptions options = sixteen_nodes();
  options.layout.gpus = 256;
  const TrainPlan p = planned(options);
  EXPECT_FALSE(p.offloads);
  EXPECT_EQ(p.options.layout.expert_dp(), 2);
  EXPECT_NEAR(gb(p.gpu.optimizer), 74 / 2, 2);
}

TEST(TrainPlan, DraftsAreTheEnginesAndAReferenceIsASecondModel) {
  TrainPlanOptions options = sixteen_nodes();
  const TrainPlan plain = planned(options);
  EXPECT_EQ(plain.gpu.reference, 0);
  options.drafts = 3;
  options.has_reference = true;
  const TrainPlan p = planned(options);
  EXPECT_NEAR(gb(p.engine.rank.weight_bytes()), 61.8, 0.1);  // the same as of `glint plan`
  EXPECT_GT(p.engine.rank.working_bytes(), plain.engine.rank.working_bytes());
  EXPECT_LT(p.engine.cache_tokens, plain.engine.cache_tokens);
  EXPECT_EQ(p.gpu.reference, p.gpu.weights + p.gpu.layer / 3);  // that has no gradient
  EXPECT_EQ(p.gpu.total(), plain.gpu.total() + p.gpu.reference);
}

TEST(TrainPlan, AnEngineOfEightIsTooSmall) {
  TrainPlanOptions options = sixteen_nodes();
  options.engine_gpus = 8;
  const std::string misfit = planned(options).misfit;
  EXPECT_NE(misfit.find("an engine of 8 GPUs in bf16 does not fit"), misfit.npos) << misfit;
  EXPECT_TRUE(misfit.ends_with(
      "); a larger --rollout-num-gpus-per-engine or --fp8-rollout takes less of each GPU"))
      << misfit;
}

TEST(TrainPlan, AnEngineOnTheTrainersGpusIsDividedAsTheyAre) {
  TrainPlanOptions options = sixteen_nodes();
  options.on_trainer = true;
  options.engine_gpus = 8;
  const TrainPlan p = planned(options);
  EXPECT_EQ(p.misfit, "");
  EXPECT_EQ(p.options.engine_gpus, 128);
  EXPECT_EQ(p.engines, 1);
  EXPECT_NEAR(gb(p.engine.rank.weight_bytes()), gb(p.gpu.weights), 2);
  options.engine_share = 0.1;
  const std::string misfit = planned(options).misfit;
  EXPECT_TRUE(misfit.ends_with("); more nodes take less of each GPU")) << misfit;
  // A layout that is not run here has the engine that was asked for.
  options.layout.gpus = 256;
  EXPECT_FALSE(planned(options).options.on_trainer);
  EXPECT_EQ(planned(options).options.engine_gpus, 8);
}

TEST(TrainPlan, ARemedyThatWasTakenIsNotNamed) {
  TrainPlanOptions options = sixteen_nodes();
  options.engine_gpus = 8;
  options.fp8_rollout = true;
  const std::string misfit = planned(options).misfit;
  EXPECT_TRUE(misfit.ends_with("); a larger --rollout-num-gpus-per-engine takes less of each GPU"))
      << misfit;
}

TEST(TrainPlan, AnEngineOfAllGpusNeedsMoreNodes) {
  TrainPlanOptions options = sixteen_nodes();
  options.fp8_rollout = true;
  options.engine_gpus = options.layout.gpus;
  options.engine_share = 0.1;
  const std::string misfit = planned(options).misfit;
  EXPECT_TRUE(misfit.ends_with("); more nodes take less of each GPU")) << misfit;
}

TEST(TrainPlan, AMachineWithoutGpusIsToldOfMemory) {
  TrainPlanOptions options = {.model = "GLM-5_4layer",
                              .device = *find_device("cpu"),
                              .layout = {.gpus = 1},
                              .tokens_per_gpu = 64,
                              .response_len = 100};
  EXPECT_EQ(options.device.per_host * options.device.per_machine, 1);
  const auto misfit = [&](std::int64_t memory) {
    options.device.memory = memory;
    return planned(options, "GLM-5_4layer").misfit;
  };
  ASSERT_EQ(misfit(std::int64_t{1} << 40), "");
  const std::int64_t training = planned(options, "GLM-5_4layer").gpu.total();
  std::string said = misfit(training);
  EXPECT_EQ(said.find("GPU"), said.npos) << said;
  EXPECT_TRUE(said.ends_with("; a machine with more memory is needed")) << said;
  // Room for training, and none beside it.
  const std::int64_t little = training * 6 / 5;
  said = misfit(little);
  EXPECT_TRUE(said.ends_with("); --fp8-rollout takes less")) << said;
  options.fp8_rollout = true;
  said = misfit(little);
  EXPECT_TRUE(said.ends_with("); a machine with more memory is needed")) << said;
}

TEST(TrainPlan, FourLayersFitOnOneNode) {
  const TrainPlanOptions options = {.model = "GLM-5_4layer",
                                    .device = *find_device("h200"),
                                    .layout = {.gpus = 8, .tp = 4, .ep = 8},
                                    .tokens_per_gpu = 2048,
                                    .response_len = 100,
                                    .engine_gpus = 8};
  EXPECT_EQ(planned(options, "GLM-5_4layer").misfit, "");
  const std::string misfit = planned(options).misfit;
  EXPECT_TRUE(misfit.starts_with("training takes")) << misfit;
  EXPECT_TRUE(misfit.ends_with("; more nodes take less of each GPU")) << misfit;
}

TEST(TrainPlan, ADraftLayerThatLearnsIsOfTheLastStage) {
  TrainPlanOptions options = {.model = "GLM-5_4layer",
                              .device = *find_device("h200"),
                              .layout = {.gpus = 8, .tp = 4, .ep = 8},
                              .tokens_per_gpu = 8192,
                              .response_len = 100,
                              .engine_gpus = 8};
  const TrainPlan plain = planned(options, "GLM-5_4layer");
  options.drafts_learn = true;
  const TrainPlan p = planned(options, "GLM-5_4layer");
  // 1.21 G of a layer's experts, and 0.0736 and 2 H^2 that are whole of 4 ranks beside them.
  const double more = 1.21 + 0.0736 + 2 * 6144 * 6144 / 1e9;
  EXPECT_NEAR(gb(p.gpu.weights - plain.gpu.weights), 2 * more, 0.15);
  EXPECT_NEAR(gb(p.gpu.gradients - plain.gpu.gradients), 4 * more, 0.3);
  EXPECT_EQ(p.gpu.saved * 4, plain.gpu.saved * 5);
  EXPECT_EQ(p.engine.rank.weight_bytes(), plain.engine.rank.weight_bytes());

  ModelConfig config = find_known_model("GLM-5_4layer")->config;
  config.num_nextn_predict_layers = 0;
  EXPECT_EQ(plan_training(config, options).error().message,
            "GLM-5_4layer has no MTP layer; leave --enable-mtp-training out");
  options.drafts = 1;
  EXPECT_EQ(plan_training(config, options).error().message,
            "GLM-5_4layer has no MTP layer; leave --enable-mtp out");
}

// One that is longer than a micro-batch is one by itself, on the GPUs that share it.
TEST(TrainPlan, TheLongestAnswerHasRoom) {
  TrainPlanOptions options = sixteen_nodes();
  options.response_len = 60000;
  const TrainPlan p = planned(options);
  options.tokens_per_gpu = (60000 + 2048) / 2;
  const TrainPlan same = planned(options);
  EXPECT_EQ(p.gpu.saved, same.gpu.saved);
  EXPECT_EQ(p.gpu.layer, same.gpu.layer);
  options.tokens_per_gpu *= 2;
  EXPECT_EQ(planned(options).gpu.layer, 2 * same.gpu.layer);
  options.response_len = 1000000;  // a context ends before
  options.tokens_per_gpu = 16384;
  EXPECT_NEAR(gb(planned(options).gpu.layer), gb(p.gpu.layer) * 202752 / 62048, 0.01);
}

// The last of four stages, with experts and a head, is the largest.
TEST(TrainPlan, AHeadThatIsTheEmbeddingIsOnBothEnds) {
  ModelConfig config = find_known_model("GLM-5_4layer")->config;
  TrainPlanOptions options = {.model = "tied",
                              .device = *find_device("h200"),
                              .layout = {.gpus = 8, .tp = 2, .pp = 4},
                              .tokens_per_gpu = 2048,
                              .response_len = 100,
                              .engine_gpus = 8};
  const TrainPlan apart = plan_training(config, options).value();
  config.tie_word_embeddings = true;
  const TrainPlan tied = plan_training(config, options).value();
  EXPECT_EQ(apart.stage, 3);
  EXPECT_EQ(tied.stage, 3);
  EXPECT_EQ(tied.gpu.weights, apart.gpu.weights);
}

TEST(TrainPlan, LayoutsThatDoNotDivideAreRefused) {
  const auto refused = [](const TrainLayout& layout) {
    TrainPlanOptions options = sixteen_nodes();
    options.layout = layout;
    const auto plan = plan_training(find_known_model("GLM-5")->config, options);
    return plan.ok() ? "" : plan.error().message;
  };
  EXPECT_NE(refused({.gpus = 100, .tp = 4, .pp = 4, .cp = 2}).find("100 GPUs"), std::string::npos);
  EXPECT_NE(refused({.gpus = 128, .tp = 4, .pp = 4, .ep = 32}).find("78 layers"),
            std::string::npos);
  EXPECT_NE(refused({.gpus = 24, .tp = 3}).find("64 heads"), std::string::npos);
}

}  // namespace
}  // namespace glint
