// Ranks, and how much they do at once, as other servers spell it.
#include <gtest/gtest.h>

#include "base/str.h"
#include "cli/dialect_testing.h"
#include "cli/serve_plan.h"

namespace glint {
namespace {

TEST(ServeDialect, layouts_are_as_each_server_counts_them) {
  using Sizes = std::vector<int>;  // tp, dp, ep
  const auto layout = [](Dialect dialect, const std::string& line) {
    const Served served = serve(dialect, words(line));
    EXPECT_EQ(served.error, "");
    return Sizes{served.options.tp, served.options.dp, served.options.ep};
  };
  EXPECT_EQ(layout(Dialect::kGlint, "m --dp 2 --ep 2"), (Sizes{1, 2, 2}));
  // vLLM: each of the data-parallel ranks has --tensor-parallel-size.
  EXPECT_EQ(layout(Dialect::kVllm, "m -tp 2 -dp 4"), (Sizes{2, 4, 1}));
  EXPECT_EQ(layout(Dialect::kVllm, "m -dp 8 --enable-expert-parallel"), (Sizes{1, 8, 8}));
  EXPECT_EQ(layout(Dialect::kVllm, "m -ep -dp 8"), (Sizes{1, 8, 8}));
  // SGLang: --tp counts all ranks where attention is over replicas.
  EXPECT_EQ(layout(Dialect::kSglang, "--model-path m --tp 8 --enable-dp-attention --dp-size 4"),
            (Sizes{2, 4, 1}));
  EXPECT_EQ(layout(Dialect::kSglang, "--model-path m --tp 8 --dp-size 2"), (Sizes{8, 2, 1}));
  // TensorRT-LLM: as many replicas as ranks.
  const std::string file = write_temporary(
      "serve_layout_trt.yml", "enable_attention_dp: true\nmoe_expert_parallel_size: 8\n");
  EXPECT_EQ(layout(Dialect::kTrtllm, "m --tp_size 8 --config '" + file + "'"), (Sizes{1, 8, 8}));
  // The ranks that share a prompt: vLLM's and TensorRT-LLM's beside the others, SGLang's among
  // --tp.
  using Sharing = std::vector<int>;  // tp, dp, cp
  const auto sharing = [](Dialect dialect, const std::string& line) {
    const Served served = serve(dialect, words(line));
    EXPECT_EQ(served.error, "");
    return Sharing{served.options.tp, served.options.dp, served.options.cp};
  };
  EXPECT_EQ(sharing(Dialect::kGlint, "m --dp 4 --cp 2"), (Sharing{1, 4, 2}));
  EXPECT_EQ(sharing(Dialect::kVllm, "m -tp 2 -pcp 2"), (Sharing{2, 2, 2}));
  EXPECT_EQ(sharing(Dialect::kVllm, "m -dp 2 -pcp 2"), (Sharing{1, 4, 2}));
  EXPECT_EQ(sharing(Dialect::kSglang, "--model-path m --tp 8 --attn-cp-size 4"),
            (Sharing{2, 4, 4}));
  EXPECT_EQ(sharing(Dialect::kTrtllm, "m --tp_size 2 --cp_size 2"), (Sharing{2, 2, 2}));
  const auto refusal = [](const char* line) {
    return serve(Dialect::kSglang, words(str("--model-path m --tp 8 ", line))).error;
  };
  EXPECT_EQ(refusal("--dp 3 --enable-dp-attention"), "--tp is 8, which --dp 3 does not divide");
  EXPECT_EQ(refusal("--dp 0 --enable-dp-attention"), "--tp is 8, which --dp 0 does not divide");
  EXPECT_EQ(refusal("--dp 2 --enable-dp-attention --attn-cp-size 3"),
            "--tp is 8, which --dp 2 times --attn-cp-size 3 does not divide");
  EXPECT_EQ(refusal("--attn-cp-size 3"), "--tp is 8, which --attn-cp-size 3 does not divide");
  EXPECT_EQ(serve(Dialect::kGlint, words("m --dp two")).error,
            "--dp expects a number, got \"two\"");
}

TEST(ServeDialect, requests_and_tokens_at_once_are_as_each_server_counts_them) {
  const auto at_once = [](Dialect dialect, const std::string& line) {
    const Served served = serve(dialect, words(line));
    EXPECT_EQ(served.error, "");
    return std::pair(served.options.max_num_seqs,
                     served.options.max_num_batched_tokens.value_or(0));
  };
  EXPECT_EQ(at_once(Dialect::kGlint, "m --dp 4 --max-num-seqs 16"), std::pair(16, 0));
  EXPECT_EQ(at_once(Dialect::kVllm, "m -dp 4 -pcp 2 --max-num-seqs 16"), std::pair(64, 0));
  EXPECT_EQ(at_once(Dialect::kVllm, "m -dp 4"), std::pair(256, 0));
  EXPECT_EQ(at_once(Dialect::kVllm, "m -dp 4 -dpn 0 --max-num-seqs 16"), std::pair(16, 0));
  const Served all = serve(Dialect::kVllm, words("m -dp 8 --max-num-seqs 10000"));
  EXPECT_EQ(name_setting(invalid("--max-num-seqs is 80000"), all.translated.named).message,
            "--max-num-seqs is 80000 (given as 10000 for each of 8 replicas)");
  // SGLang: replicas of attention divide both; whole replicas have as many each.
  const std::string limits =
      "--model-path m --max-running-requests 16 --chunked-prefill-size 8192 ";
  EXPECT_EQ(at_once(Dialect::kSglang, limits + "--tp 8 --dp 4 --enable-dp-attention"),
            std::pair(16, 2048));
  EXPECT_EQ(at_once(Dialect::kSglang, limits + "--dp 4"), std::pair(64, 8192));
  EXPECT_EQ(at_once(Dialect::kSglang,
                    "--model-path m --tp 8 --dp 4 --enable-dp-attention --chunked-prefill-size 128")
                .second,
            64);
  const std::string file =
      write_temporary("limits.yml", "enable_attention_dp: true\nmax_batch_size: 16\n");
  EXPECT_EQ(at_once(Dialect::kTrtllm, "m --tp_size 8 --max_num_tokens 512 --config '" + file + "'"),
            std::pair(128, 512));
  const Served served = serve(Dialect::kSglang, words("--model-path m --chunked-prefill-size 8"));
  EXPECT_EQ(name_setting(invalid("--max-num-batched-tokens is 8"), served.translated.named).message,
            "--max-num-batched-tokens is 8 (given as --chunked-prefill-size)");
}

TEST(ServeDialect, machines_are_as_others_spell_them) {
  const auto nodes = [](Dialect dialect, const std::string& line) {
    const Served served = serve(dialect, words(line));
    EXPECT_EQ(served.error, "");
    const NodeOptions& o = served.options;
    return std::tuple(o.nnodes, o.node_rank, o.master_addr, o.master_port);
  };
  EXPECT_EQ(nodes(Dialect::kVllm, "m -tp 16 --nnodes 2 --node-rank 1 --master-addr a --headless"),
            std::tuple(2, 1, "a", 29501));
  EXPECT_EQ(nodes(Dialect::kSglang,
                  "--model-path m --tp 16 --nnodes 2 --node-rank 1 "
                  "--dist-init-addr a:20000"),
            std::tuple(2, 1, "a:20000", 29501));
  // vLLM's replicas, some on each machine.
  EXPECT_EQ(nodes(Dialect::kVllm,
                  "m -dp 4 --data-parallel-size-local 2 --data-parallel-start-rank "
                  "2 --data-parallel-address a --data-parallel-rpc-port 13345"),
            std::tuple(2, 1, "a", 13345));
  EXPECT_EQ(nodes(Dialect::kVllm, "m -dp 4 -dpl 4"), std::tuple(1, 0, "", 29501));
  EXPECT_EQ(
      serve(Dialect::kVllm, words("m -dp 4 -dpl 3")).error,
      "--data-parallel-size is 4, of which 3 from number 0 on (--data-parallel-start-rank) are "
      "to run here; machines must have as many each (--data-parallel-size-local)");
}

TEST(ServeDialect, replicas_behind_a_balancer_are_servers_of_their_own) {
  const auto replicas = [](const std::string& line) {
    const Served served = serve(Dialect::kVllm, words(line));
    return served.error.empty() ? str(served.options.dp, " of ", served.options.nnodes)
                                : served.error;
  };
  EXPECT_EQ(replicas("m -dp 4 --data-parallel-rank 3 --data-parallel-address a -dpp 13345"),
            "1 of 1");
  EXPECT_EQ(replicas("m -dp 4 -dpe -dpl 1"), "1 of 1");
  EXPECT_EQ(replicas("m -dp 4 -dpl 2 -dpr 2 --data-parallel-hybrid-lb"), "2 of 1");
  EXPECT_EQ(replicas("m -dp 2 -dph -ep"), "2 of 1");
  EXPECT_EQ(replicas("m -dp 4 -dpn 4"),
            "--data-parallel-size is 4, and --data-parallel-rank makes this server the 1 from "
            "number 4 on; there are numbers 0 to 3");
  EXPECT_EQ(replicas("m -dp 4 -dpn 0 -ep"),
            "--data-parallel-rank makes servers of their own, and experts are shared within one: "
            "leave --enable-expert-parallel out, then each server holds all experts; or leave "
            "--data-parallel-rank out, then one server runs all 4 replicas, on machines by "
            "--data-parallel-start-rank");
}

TEST(ServeDialect, the_balance_of_experts_is_as_others_spell_it) {
  const auto balance = [](Dialect dialect, std::vector<std::string> line) {
    const Served served = serve(dialect, line);
    EXPECT_EQ(served.error, "");
    const BalanceOptions& o = served.options;
    return std::tuple(o.enable_eplb, o.ep_num_redundant_experts, o.eplb_rebalance_num_iterations);
  };
  EXPECT_EQ(balance(Dialect::kGlint, words("m --enable-eplb --ep-num-redundant-experts 4")),
            std::tuple(true, 4, 1000));
  EXPECT_EQ(balance(Dialect::kSglang, words("--model-path m --enable-eplb --eplb-algorithm auto "
                                            "--ep-num-redundant-experts 32 "
                                            "--eplb-rebalance-num-iterations 500")),
            std::tuple(true, 32, 500));
  EXPECT_EQ(
      balance(Dialect::kVllm,
              {"m", "--enable-eplb", "--eplb-config",
               R"({"window_size": 1000, "num_redundant_experts": 16, "log_balancedness": true})"}),
      std::tuple(true, 16, 3000));
  EXPECT_EQ(balance(Dialect::kVllm, words("m --enable-eplb --eplb-config.step_interval 100")),
            std::tuple(true, 0, 100));
}

TEST(ServeDialect, what_balances_experts_that_stay_is_told) {
  const auto ignored = [](std::vector<std::string> line) {
    const Served served = serve(Dialect::kVllm, line);
    return ignored_balance(served.options, served.translated);
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(
      ignored({"m", "--eplb-config", R"({"step_interval": 100, "num_redundant_experts": 4})"}),
      (Lines{"--ep-num-redundant-experts 4 (experts stay; --enable-eplb moves them)",
             "--eplb-rebalance-num-iterations 100 (experts stay; --enable-eplb moves them)"}));
  EXPECT_EQ(ignored({"m"}), Lines());
  EXPECT_EQ(ignored({"m", "--enable-eplb", "--eplb-step-interval", "100"}), Lines());
}

}  // namespace
}  // namespace glint
