#include "plan/deployment.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/str.h"
#include "plan/advice.h"
#include "plan/known_models.h"
#include "plan/report.h"

namespace glint {
namespace {

const ModelConfig& glm5() {
  static const ModelConfig config = find_known_model("zai-org/GLM-5")->config;
  return config;
}

DeploymentOptions on(std::string_view device, int count, Release release, MeshShape layout) {
  return {.model = "GLM-5",
          .format = name_of(release),
          .formats = formats_of(glm5(), release),
          .device = *find_device(device),
          .count = count,
          .layout = layout};
}

Deployment planned(const DeploymentOptions& options) {
  auto plan = plan_deployment(glm5(), options);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  return std::move(plan).value();
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

TEST(KnownModels, are_as_published) {
  EXPECT_EQ(glm5(), read_config(GLINT_SOURCE_DIR "/tests/data/configs/glm5.json").value());
  EXPECT_EQ(find_known_model("GLM-5-FP8")->release, Release::kFp8);
  EXPECT_EQ(find_known_model("warnold-nv/GLM-5-nvfp4-v1")->release, Release::kNvfp4);
  EXPECT_FALSE(find_known_model("zai-org/GLM-4.7"));
}

// A published deployment of the FP8 release: 8 B200, 89.43 GiB of weights as the engine counted
// them, 64.49 GiB of cache, 691,392 tokens, 161 GB used of each. That engine keeps kv_b_proj beside
// its halves.
TEST(Deployment, of_eight_b200_in_fp8) {
  DeploymentOptions options = on("b200", 8, Release::kFp8, {.tp = 8});
  options.max_model_len = 32768;
  options.cache_bytes = static_cast<std::int64_t>(64.49 * (1 << 30));
  const Deployment d = planned(options);
  EXPECT_TRUE(d.fits) << d.limit;
  EXPECT_EQ(d.cache_tokens, 691'392);
  EXPECT_EQ(d.bytes_per_token, 100'152);
  EXPECT_NEAR(gib(d.rank.weight_bytes()), 88.69, 0.005);
  EXPECT_NEAR(gib(d.all_weights), 8 * 88.69, 0.05);
  EXPECT_GT(gib(d.used()), 88.6 + 64.4);
  EXPECT_LT(gib(d.used()), 161);
}

// Ranks that add up their parts of a sum have them in f32: answers of 8 experts to 8,192 tokens are
// 1.5 GiB then.
TEST(Deployment, of_ranks_counts_what_they_meet_with) {
  const Deployment d = planned(on("b200", 8, Release::kFp8, {.tp = 8}));
  EXPECT_GT(gib(d.rank.step.step), 2);
}

TEST(Deployment, of_nvfp4_fits_on_four) {
  EXPECT_TRUE(planned(on("b200", 4, Release::kNvfp4, {.tp = 4})).fits);
  EXPECT_FALSE(planned(on("b200", 4, Release::kFp8, {.tp = 4})).fits);
  const PlanReport report = make_report(glm5(), on("b200", 8, Release::kFp8, {.tp = 8})).value();
  EXPECT_NE(to_text(report).find("NVFP4 experts fit on 4"), std::string::npos) << to_text(report);
}

TEST(Deployment, of_nvfp4_on_eight_rtx_pro_6000) {
  DeploymentOptions options = on("rtx-pro-6000", 8, Release::kNvfp4, {.tp = 8});
  options.numbers.latent = LatentFormat::kFp8;
  options.concurrency = 8;
  options.memory_share = 0.95, options.share_is_static = true;
  EXPECT_TRUE(planned(options).fits);
}

// 256 experts are not three times as many.
TEST(Deployment, of_experts_dealt_out_unevenly_holds_each_once) {
  const auto experts = static_cast<std::size_t>(TensorRole::kRoutedExpert);
  const Deployment one = planned(on("h200", 1, Release::kFp8, {}));
  const Deployment three = planned(on("h200", 3, Release::kFp8, {.ep = 3, .dp = 3}));
  EXPECT_EQ(three.all_weights,
            one.rank.weights[experts] + 3 * (one.rank.weight_bytes() - one.rank.weights[experts]));
}

TEST(Deployment, holds_experts_twice_that_are_redundant) {
  const MeshShape layout = {.ep = 8, .dp = 8, .moves_experts = true, .redundant_experts = 8};
  const Deployment d = planned(on("h200", 8, Release::kFp8, layout));
  EXPECT_EQ(d.all_weights, 8 * d.rank.weight_bytes());  // 33 slots of a layer on each
}

// Engines of one host of eight, attention in replicas, 0.7 of the memory.
TEST(Deployment, of_the_whole_model_on_eight_h200_beside_training_is_impossible) {
  for (const Release release : {Release::kBF16, Release::kFp8}) {
    DeploymentOptions options = on("h200", 8, release, {.ep = 8, .dp = 8});
    options.memory_share = 0.7, options.share_is_static = true;
    const Deployment d = planned(options);
    EXPECT_FALSE(d.fits);
    EXPECT_TRUE(d.limit.starts_with("weights take ")) << d.limit;
    EXPECT_TRUE(d.decode.empty());
  }
}

// Another program's table of the same model (its kv_b in BF16, its norms free): ms at a context of
// 2,304.
TEST(Floors, are_those_of_a_roofline_of_its_own) {
  struct Row {
    const char* device;
    MeshShape layout;
    int batch;
    double ms;
  };
  for (const Row& row : {Row{"b200", {.tp = 8}, 1, 2.62}, Row{"b200", {.tp = 8}, 128, 19.50},
                         Row{"h200", {.tp = 8}, 1, 3.34}, Row{"h200", {.tp = 8}, 32, 18.55},
                         Row{"h200", {.ep = 8, .dp = 8}, 128, 27.86}}) {
    DeploymentOptions options = on(row.device, 8, Release::kFp8, row.layout);
    options.concurrency = row.batch;
    const Deployment d = planned(options);
    ASSERT_FALSE(d.decode.empty());
    const DecodePoint& last = d.decode.back();
    EXPECT_EQ(last.batch, row.batch);
    EXPECT_NEAR(last.floor.seconds * 1e3, row.ms, 0.06 * row.ms) << row.device << row.batch;
  }
}

// 78 layers of 6,144, 75 of them with experts, of which a token chooses 8.
TEST(Floors, tell_hosts_apart) {
  const auto collectives = [](MeshShape layout, int count, int batch) {
    DeploymentOptions options = on("h200", count, Release::kFp8, layout);
    options.concurrency = batch;
    return planned(options).decode.back().floor.collectives;
  };
  // 4 rows of a rank go to 6.0499 others of 16, and to 0.99609 other hosts of 2.
  const double row = 6144 * 3.03;
  const double exchange = 50e-6 + 4 * row * (6.0499 / 450e9 + 0.99609 / 50e9);
  EXPECT_NEAR(collectives({.ep = 16, .dp = 16}, 16, 64), 75 * exchange, 1e-4 * 75 * exchange);
  // Stages of a host each, and two in one.
  const double sums = collectives({.tp = 8}, 8, 1);
  EXPECT_NEAR(collectives({.tp = 8, .pp = 2}, 16, 1), sums + 25e-6 + 4 * 6144 / 50e9, 1e-9);
  EXPECT_NEAR(collectives({.tp = 4, .pp = 4}, 16, 1) - collectives({.tp = 4, .pp = 2}, 8, 1),
              25e-6 + 10e-6 + 4 * 6144 * (1 / 50e9 + 1 / 450e9), 1e-9);
  EXPECT_GT(collectives({.tp = 16}, 16, 1), 78 * 2 * 25e-6);
  EXPECT_EQ(collectives({.tp = 8, .dp = 2}, 16, 2), sums);
}

TEST(Floors, are_of_steps_that_hold_a_token_of_each_sequence) {
  DeploymentOptions options = on("h200", 8, Release::kFp8, {.tp = 8});
  EXPECT_GT(planned(options).decode.back().batch, 64);
  options.step_tokens = 64;
  EXPECT_EQ(planned(options).decode.back().batch, 64);
}

// Its cache holds 284 of them.
TEST(Floors, are_of_batches_that_memory_was_planned_for) {
  const Deployment d = planned(on("b200", 8, Release::kFp8, {.tp = 8}));
  ASSERT_GT(d.contexts.front().sequences, d.max_running);
  EXPECT_EQ(d.decode.back().batch, d.max_running);
}

// Replicas beyond the sequences have none: their prompts are no faster, and no batch is larger.
TEST(Floors, are_of_no_more_sequences_than_there_are) {
  DeploymentOptions options = on("h200", 8, Release::kNvfp4, {.ep = 8, .dp = 8});
  for (const int sequences : {1, 12}) {
    options.concurrency = sequences;
    EXPECT_EQ(planned(options).decode.back().batch, sequences);
  }
  options.concurrency = 1;
  const DecodePoint alone = planned(options).decode.back();
  EXPECT_NEAR(alone.tokens_per_s * alone.floor.seconds, 1, 1e-9);
  options.concurrency = 8;
  const DecodePoint all = planned(options).decode.back();
  EXPECT_NEAR(all.sustained, 8 * alone.sustained, 1e-9 * all.sustained);
  options.concurrency = 1;
  const std::vector<LayoutChoice> choices = choose_layouts(glm5(), options);
  ASSERT_FALSE(choices.empty());
  for (const LayoutChoice& choice : choices) EXPECT_EQ(choice.batch, 1);
}

TEST(Floors, of_a_prompt_are_the_same_in_one_step_and_in_several) {
  const auto seconds_of_prompt = [](int step_tokens) {
    DeploymentOptions options = on("b200", 8, Release::kNvfp4, {.tp = 8});
    options.step_tokens = step_tokens;
    options.input_len = 65536;
    options.concurrency = 1;
    const DecodePoint one = planned(options).decode.front();
    return static_cast<double>(options.output_len) * (1 / one.sustained - 1 / one.tokens_per_s);
  };
  const double in_one = seconds_of_prompt(65536);
  EXPECT_NEAR(seconds_of_prompt(8192), in_one, 0.1 * in_one);
}

TEST(Deployment, counts_graphs_where_steps_are_recorded) {
  const auto graphs = [](MeshShape layout) {
    DeploymentOptions options = on("h200", 8, Release::kFp8, layout);
    return planned(options).rank.step.graphs;
  };
  EXPECT_GT(graphs({.tp = 8}), 0);
  EXPECT_EQ(graphs({.tp = 4, .pp = 2}), 0);
  EXPECT_EQ(graphs({.cp = 2, .ep = 8, .dp = 8}), 0);
}

TEST(Deployment, a_cache_that_is_too_large_is_named_as_such) {
  DeploymentOptions options = on("h200", 8, Release::kFp8, {.tp = 8});
  options.cache_bytes = std::int64_t{100} << 30;
  const Deployment d = planned(options);
  EXPECT_FALSE(d.fits);
  EXPECT_NE(d.limit.find("and the cache 100 GiB, and each device has "), std::string::npos)
      << d.limit;
  const std::vector<std::string> advice = advise(glm5(), d);
  options.cache_bytes.reset();
  EXPECT_EQ(advice.front(), str("--kv-cache-memory ", planned(options).cache >> 20, "MiB fits"));
  EXPECT_EQ(advice.back(), "NVFP4 experts fit on 4 (tp 4)");  // FP8 fits on what there is
}

TEST(Deployment, a_cache_without_room_for_a_page_is_named_as_such) {
  DeploymentOptions options = on("h200", 8, Release::kFp8, {.tp = 8});
  options.cache_bytes = std::int64_t{1} << 20;
  const Deployment d = planned(options);
  EXPECT_FALSE(d.fits);
  EXPECT_EQ(d.limit, str("--kv-cache-memory is 1 MiB, and a page of 64 tokens takes ",
                         human_bytes(d.rank.page)));
}

TEST(Deployment, a_step_that_is_too_large_is_named_as_such) {
  DeploymentOptions options = on("h200", 8, Release::kFp8, {.tp = 8});
  options.step_tokens = 1 << 20;
  const std::string limit = planned(options).limit;
  EXPECT_TRUE(limit.starts_with("activations take ")) << limit;
  EXPECT_TRUE(limit.ends_with("125.8 GiB may be used; set --max-num-batched-tokens lower"))
      << limit;
}

// Page tables of 65,536 sequences of 2^18 pages: 64 GiB.
TEST(Deployment, counts_what_no_memory_of_this_machine_would_hold) {
  ModelConfig config = glm5();
  config.max_position_embeddings = 1 << 24;
  DeploymentOptions options = on("h200", 8, Release::kFp8, {.tp = 8});
  options.concurrency = 65536, options.step_tokens = 1 << 20;
  EXPECT_GT(gib(plan_deployment(config, options).value().rank.working_bytes()), 64);
}

TEST(Deployment, refuses_layouts_that_are_none) {
  const auto error = [](MeshShape layout) {
    DeploymentOptions options = on("h200", 8, Release::kFp8, layout);
    const auto plan = plan_deployment(glm5(), options);
    return plan.ok() ? std::string() : plan.error().message;
  };
  EXPECT_EQ(error({.tp = 4}),
            "tp 4 is 4 ranks for 8 devices (--count); tp x dp x pp must be their "
            "number; set --dp to 2");
  for (const auto& [layout, end] :
       {std::pair(MeshShape{.ep = 4, .dp = 4}, "set --dp to 8 and --ep to 8"),
        std::pair(MeshShape{.tp = 2, .ep = 8, .dp = 2}, "set --dp to 4"),
        std::pair(MeshShape{.cp = 3, .dp = 3}, "set --count to 3"),
        std::pair(MeshShape{.tp = 3}, "must be their number")})
    EXPECT_TRUE(error(layout).ends_with(end)) << error(layout);
  EXPECT_NE(error({.tp = 8, .ep = 3}).find("set ep to 8 or to 1"), std::string::npos);
  EXPECT_EQ(
      error({.tp = 8, .cp = 8}),
      "cp is 8, but must divide dp, which is 1: as many replicas share each sequence; set cp to "
      "1, or dp to 8");
  EXPECT_NE(error({.cp = 3, .dp = 8}).find("set cp to 8, or dp to 3"), std::string::npos);
  EXPECT_EQ(plan_deployment(glm5(), on("h200", 128, Release::kFp8, {.tp = 128})).error().message,
            "tp is 128, but must divide the model's num_attention_heads (64); set it to 64");
  EXPECT_EQ(plan_deployment(glm5(), on("h200", 6, Release::kFp8, {.tp = 6})).error().message,
            "tp is 6, but must divide the model's num_attention_heads (64); set it to 4");
}

TEST(Deployment, replicas_that_share_sequences_hold_each_once) {
  DeploymentOptions options = on("b200", 8, Release::kFp8, {.ep = 8, .dp = 8});
  options.cache_bytes = std::int64_t{20} << 30;
  const Deployment alone = plan_deployment(glm5(), options).value();
  options.layout.cp = 4;
  const Deployment shared = plan_deployment(glm5(), options).value();
  EXPECT_EQ(shared.cache_tokens, alone.cache_tokens);
  ASSERT_GT(shared.contexts.back().sequences, 0);
  EXPECT_EQ(shared.contexts.back().sequences * 4, alone.contexts.back().sequences);
  EXPECT_EQ(shared.decode.front().batch, alone.decode.front().batch);
}

TEST(Deployment, replicas_that_share_sequences_tell_no_more_than_fit) {
  DeploymentOptions options = on("b200", 8, Release::kFp8, {.ep = 8, .dp = 8});
  options.layout.cp = 8;
  options.max_model_len = 2560;
  options.cache_bytes = planned(options).rank.page * (2560 / kPageSize) * 18;
  const Deployment d = planned(options);
  ASSERT_EQ(d.contexts.back().sequences, 18);
  EXPECT_EQ(d.decode.back().batch, 18);
}

TEST(Deployment, stages_hold_a_part_of_the_layers_and_of_the_cache) {
  const Deployment d = planned(on("b200", 8, Release::kFp8, {.tp = 4, .pp = 2}));
  EXPECT_TRUE(d.fits);
  EXPECT_EQ(d.bytes_per_token, 39 * 1284);
  EXPECT_NEAR(gib(d.all_weights), 8 * 88.4, 8);
}

// Replicas' sequences may be one's alone, and all results come to the first rank.
TEST(Deployment, counts_the_steps_that_a_server_reserves) {
  for (const MeshShape layout : {MeshShape{.tp = 4, .pp = 2}, MeshShape{.ep = 8, .dp = 8},
                                 MeshShape{.cp = 4, .ep = 4, .pp = 2, .dp = 4}}) {
    DeploymentOptions options = on("h200", 8, Release::kNvfp4, layout);
    options.concurrency = 64, options.max_drafts = 1, options.max_logprobs = 20;
    options.program.limits = {.max_step_tokens = 8192,
                              .max_running = 64,
                              .max_drafts = 1,
                              .max_logprobs = 20,
                              .max_seq_len = glm5().max_position_embeddings};
    const Deployment d = planned(options);
    const TrialOptions trial = {.shape = layout, .format = options.formats, .with_mtp = true};
    const MemoryPlan served = plan_stages(glm5(), trial, *options.program.limits).value().front();
    EXPECT_EQ(d.rank.working_bytes(), served.working_bytes()) << describe(layout);
    EXPECT_EQ(d.all_working(), served.working_bytes(8));
    options.program.limits.reset();  // as they are by default, but for graphs
    const MemoryPlan usual = planned(options).rank;
    EXPECT_EQ(usual.working_bytes() - usual.step.graphs, served.working_bytes());
  }
}

TEST(Deployment, stages_divide_the_sequences_that_fit) {
  DeploymentOptions options = on("h200", 16, Release::kFp8, {.tp = 8, .pp = 2});
  const Deployment d = planned(options);
  ASSERT_EQ(d.contexts.front().context, 2560);
  EXPECT_LE(2 * d.decode.back().batch, d.contexts.front().sequences);
  for (const DecodePoint& point : d.decode)
    EXPECT_NEAR(point.tokens_per_s * point.floor.slowest, point.batch, 1e-6);
  options.concurrency = 64;
  EXPECT_EQ(planned(options).decode.back().batch, 32);
  options.concurrency = 1;  // one stage works at a time
  const DecodePoint alone = planned(options).decode.back();
  EXPECT_NEAR(alone.tokens_per_s * alone.floor.seconds, 1, 1e-9);
}

// Prompts take the same of each token once every replica has one: batches in flight add up.
TEST(Deployment, stages_prefill_on_all_replicas_that_have_a_sequence) {
  DeploymentOptions options = on("h200", 16, Release::kFp8, {.ep = 8, .pp = 2, .dp = 8});
  const auto prefill = [&](int sequences) {
    options.concurrency = sequences;
    const DecodePoint last = planned(options).decode.back();
    return 1 / last.sustained - 1 / last.tokens_per_s;
  };
  const double of_one_each = prefill(8);
  EXPECT_NEAR(prefill(9), of_one_each, 1e-6 * of_one_each);
  EXPECT_NEAR(prefill(4), 2 * of_one_each, 1e-6 * of_one_each);
}

TEST(PlanReport, tells_programs_and_people_the_same) {
  const PlanReport r = make_report(glm5(), on("h200", 8, Release::kFp8, {.tp = 8})).value();
  const Json json = to_json(r);
  EXPECT_TRUE(json.find("fits")->as_bool());
  EXPECT_EQ(json.find("cache_tokens")->as_int(), r.deployment.cache_tokens);
  const std::string page = to_html(r);
  for (const char* part : {"Memory of a device", "Step time over batch", "Context over",
                           "2,048 tokens in, 512 out. Engines"}) {
    EXPECT_NE(page.find(part), std::string::npos);
  }
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

TEST(PlanReport, says_how_many_batches_are_in_flight) {
  const DeploymentOptions options = on("h200", 16, Release::kFp8, {.tp = 8, .pp = 2});
  const std::string text = to_text(make_report(glm5(), options).value());
  EXPECT_NE(text.find("512 out, 2 batches in flight, one in each stage\n"), std::string::npos);
}

}  // namespace
}  // namespace glint
