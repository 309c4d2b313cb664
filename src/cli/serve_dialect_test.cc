#include <gtest/gtest.h>

#include "base/str.h"
#include "cli/dialect_testing.h"

namespace glint {
namespace {

TEST(ServeDialect, the_vllm_command_of_its_guide_works_whole) {
  const Served served = serve(
      Dialect::kVllm, words("zai-org/GLM-5-FP8 --tensor-parallel-size 8 --max-model-len 32768 "
                            "--gpu-memory-utilization 0.90 --trust-remote-code"));
  EXPECT_EQ(served.error, "");
  EXPECT_EQ(served.options.model, "zai-org/GLM-5-FP8");
  EXPECT_EQ(served.options.host, "0.0.0.0");
  EXPECT_EQ(served.options.port, 8000);
  EXPECT_EQ(served.options.max_model_len, "32768");
  EXPECT_EQ(served.options.gpu_memory_utilization, 0.9);
  EXPECT_EQ(served.options.tp, 8);
  ASSERT_EQ(served.translated.ignored.size(), 1u);
}

TEST(ServeDialect, sampling_defaults_are_the_models_or_none) {
  const auto chosen = [](Dialect dialect, const char* line) {
    const Served served = serve(dialect, words(line));
    EXPECT_EQ(served.error, "");
    EXPECT_TRUE(served.translated.ignored.empty());
    return served.options.generation_config;
  };
  EXPECT_EQ(chosen(Dialect::kVllm, "m --generation-config vllm"), "none");
  EXPECT_EQ(chosen(Dialect::kVllm, "m --generation-config auto"), "auto");
  EXPECT_EQ(chosen(Dialect::kSglang, "--model-path m --sampling-defaults openai"), "none");
  EXPECT_EQ(chosen(Dialect::kSglang, "--model-path m --sampling-defaults model"), "auto");
  const char* json = R"({"temperature":0})";
  EXPECT_EQ(serve(Dialect::kVllm, {"m", "--override-generation-config", json})
                .options.override_generation_config,
            json);
  EXPECT_EQ(serve(Dialect::kSglang, {"--model-path", "m", "--preferred-sampling-params", json})
                .options.override_generation_config,
            json);
}

TEST(ServeDialect, the_sglang_command_of_the_model_card_works_whole) {
  const Served served = serve(
      Dialect::kSglang,
      words("--model lukealonso/GLM-5-NVFP4 --served-model-name glm-5 --reasoning-parser glm45 "
            "--tool-call-parser glm47 --trust-remote-code --tp 8 --mem-fraction-static 0.95 "
            "--max-running-requests 8 --kv-cache-dtype fp8_e4m3 --quantization modelopt_fp4 "
            "--attention-backend flashinfer --moe-runner-backend flashinfer_cutlass "
            "--disable-custom-all-reduce --enable-flashinfer-allreduce-fusion --host 0.0.0.0 "
            "--port 8000"));
  EXPECT_EQ(served.error, "");
  EXPECT_EQ(served.options.model, "lukealonso/GLM-5-NVFP4");
  EXPECT_EQ(served.options.served_model_name, std::vector<std::string>{"glm-5"});
  EXPECT_EQ(served.options.kv_dtype, "fp8");
  EXPECT_EQ(served.options.max_num_seqs, 8);
  EXPECT_EQ(served.options.quantization, "modelopt_fp4");
  EXPECT_EQ(served.options.mem_fraction_static, 0.95);
  EXPECT_EQ(served.options.reasoning_parser, "glm45");
  EXPECT_EQ(served.options.host, "0.0.0.0");
  EXPECT_EQ(served.options.priority_order, "higher");
}

TEST(ServeDialect, the_flags_of_the_training_launcher_work) {
  const Served served = serve(
      Dialect::kSglang,
      words("--model-path m --enable-dp-attention --ep-size 64 --dp-size 64 --moe-dense-tp-size 1 "
            "--enable-dp-lm-head --page-size 64 --nsa-decode-backend flashmla_sparse "
            "--nsa-prefill-backend flashmla_sparse --attention-backend nsa "
            "--max-running-requests 512 --watchdog-timeout 3600 --speculative-algorithm EAGLE "
            "--speculative-num-steps 3 --speculative-eagle-topk 1 "
            "--speculative-num-draft-tokens 4 --mem-fraction-static 0.70"));
  EXPECT_EQ(served.error, "");
  EXPECT_EQ(served.options.port, 30000);
  EXPECT_EQ(served.options.watchdog_timeout, 3600);
  EXPECT_EQ(served.options.spec, "mtp:3");
  EXPECT_EQ(served.options.dp, 64);
  EXPECT_EQ(served.options.ep, 64);
}

TEST(ServeDialect, the_trtllm_command_and_its_file_work_and_the_file_wins) {
  const std::string file = write_temporary(
      "serve_dialect_trt.yml",
      "cuda_graph_config:\n    enable_padding: true\n    max_batch_size: 1024\n"
      "enable_attention_dp: false\nenable_chunked_prefill: true\npp_partition: [2, 2]\n"
      "kv_cache_config:\n    enable_block_reuse: false\n    dtype: fp8\n"
      "    free_gpu_memory_fraction: 0.90\n"
      "sparse_attention_config:\n  algorithm: dsa\n  index_topk: 2048\n"
      "speculative_config:\n    decoding_type: MTP\n    num_nextn_predict_layers: 1\n"
      "stream_interval: 10\n");
  const Served served =
      serve(Dialect::kTrtllm,
            words("/m/GLM-5 --host localhost --port 8000 --backend pytorch --max_batch_size 32 "
                  "--max_num_tokens 8192 --tp_size 8 --ep_size 8 --pp_size 1 --config '" +
                  file + "'"));
  EXPECT_EQ(served.error, "");
  EXPECT_EQ(served.options.model, "/m/GLM-5");
  EXPECT_EQ(served.options.max_num_seqs, 32);
  EXPECT_EQ(served.options.max_num_batched_tokens, 8192);
  EXPECT_FALSE(served.options.prefix_caching);
  EXPECT_EQ(served.options.kv_dtype, "fp8");
  EXPECT_EQ(served.options.free_memory_fraction, 0.9);
  EXPECT_EQ(served.options.spec, "mtp:1");
  EXPECT_EQ(served.options.tp, 8);
  EXPECT_EQ(served.options.ep, 8);
  EXPECT_EQ(served.options.dp, 1);
  EXPECT_EQ(served.options.stream_interval, 10);
  EXPECT_EQ(served.translated.graphs.most, 1024);
  EXPECT_TRUE(served.translated.graphs.pads);
  const std::vector<std::pair<std::string, std::string>> expected = {{"sparse attention", "dsa"},
                                                                     {"index_topk", "2048"}};
  EXPECT_EQ(served.translated.expected, expected);
}

TEST(ServeDialect, the_command_line_wins_over_the_other_dialects_files) {
  const std::string file = write_temporary(
      "vllm.yaml", "model: m\nport: 9000\nmax-num-seqs: 4\nserved-model-name: [a, b]\n");
  const Served served = serve(Dialect::kVllm, {"--config", file, "--port", "9001"});
  EXPECT_EQ(served.error, "");
  EXPECT_EQ(served.options.model, "m");
  EXPECT_EQ(served.options.port, 9001);
  EXPECT_EQ(served.options.max_num_seqs, 4);
  EXPECT_EQ(served.options.served_model_name, (std::vector<std::string>{"a", "b"}));
  const Served other = serve(Dialect::kVllm, {"dir", "--config", file});
  EXPECT_EQ(other.error, "");
  EXPECT_EQ(other.options.model, "dir");
  const std::string drafts = write_temporary(
      "spec.yaml", "speculative-config:\n  method: mtp\n  num_speculative_tokens: 5\n");
  const std::string flag = "--speculative-config.num_speculative_tokens";
  EXPECT_EQ(serve(Dialect::kVllm, {"m", flag, "2", "--config", drafts}).options.spec, "mtp:2");
  EXPECT_EQ(serve(Dialect::kVllm, {"m", "--config", drafts, flag, "2"}).options.spec, "mtp:2");
}

TEST(ServeDialect, errors_name_the_file_of_a_setting_unless_the_command_line_wins) {
  const std::string file = write_temporary("named.yaml", "max_batch_size: 4\nport: 9000\n");
  const auto named = [&](Dialect dialect, std::vector<std::string> args, const char* error) {
    args.insert(args.end(), {"--config", file});
    const Served served = serve(dialect, args);
    return name_setting(invalid(error), served.translated.named).message;
  };
  EXPECT_EQ(named(Dialect::kTrtllm, {"m"}, "--max-num-seqs is 4, too many"),
            "--max-num-seqs is 4, too many (max_batch_size in " + file + ")");
  EXPECT_EQ(named(Dialect::kTrtllm, {"m", "--port", "1"}, "--port is taken"),
            "--port is taken (port in " + file + ")");
  EXPECT_EQ(named(Dialect::kGlint, {"m", "--port", "1"}, "--port is taken"), "--port is taken");
  EXPECT_EQ(named(Dialect::kGlint, {"m"}, "--ports are many"), "--ports are many");
  const std::string wrong = write_temporary("size.yaml", "tp_size: two\n");
  EXPECT_EQ(serve(Dialect::kTrtllm, {"m", "--config", wrong}).error,
            wrong + ": tp_size expects a number, got \"two\"");
  EXPECT_EQ(serve(Dialect::kVllm, words("m --data-parallel-size-local two")).error,
            "--data-parallel-size-local expects a number, got \"two\"");
}

TEST(ServeDialect, errors_name_an_option_as_it_was_given) {
  const auto named = [](const char* line) {
    const Served served = serve(Dialect::kTrtllm, words(line));
    return name_setting(invalid("--free-gpu-memory-fraction is 0"), served.translated.named)
        .message;
  };
  for (const char* flag : {"--memory-fraction", "--kv_cache_free_gpu_mem_fraction"})
    EXPECT_EQ(named(str("m ", flag, " 0").c_str()),
              str("--free-gpu-memory-fraction is 0 (given as ", flag, ")"));
  EXPECT_EQ(named("m --memory-fraction 1 --free_gpu_memory_fraction 0"),
            "--free-gpu-memory-fraction is 0");
}

TEST(ServeDialect, json_and_dotted_flags_mean_the_same) {
  const Served json = serve(Dialect::kGlint, {"m", "--speculative-config",
                                              R"({"method": "mtp", "num_speculative_tokens": 3})"});
  const Served dotted =
      serve(Dialect::kGlint, words("m --speculative-config.method mtp "
                                   "--speculative_config.num_speculative_tokens=3"));
  EXPECT_EQ(json.options.spec, "mtp:3") << json.error;
  EXPECT_EQ(dotted.options.spec, "mtp:3") << dotted.error;
}

TEST(ServeDialect, members_of_own_json_can_be_flags) {
  const Served served =
      serve(Dialect::kVllm, words("m --default-chat-template-kwargs.enable_thinking false "
                                  "--override-generation-config.temperature=0.5 "
                                  "--override_generation_config.top_p 0.9 "
                                  "--default_chat_template_kwargs.a_b.c text"));
  EXPECT_EQ(served.error, "");
  EXPECT_EQ(served.options.default_chat_template_kwargs,
            R"({"enable_thinking":false,"a_b":{"c":"text"}})");
  EXPECT_EQ(served.options.override_generation_config, R"({"temperature":0.5,"top_p":0.9})");
  EXPECT_EQ(serve(Dialect::kVllm, words("m --override-generation-config.top_p")).error,
            "--override-generation-config.top_p needs a value");
  EXPECT_EQ(
      serve(Dialect::kVllm, words("m --override-generation-config 3 "
                                  "--override-generation-config.top_p 1"))
          .error,
      "--override-generation-config is an integer, and --override-generation-config.top_p is a "
      "member of it");
}

TEST(ServeDialect, the_model_as_its_own_draft_is_its_mtp_layer) {
  EXPECT_EQ(
      serve(Dialect::kVllm, {"m", "--speculative-config", R"({"method": "mtp", "model": "m"})"})
          .options.spec,
      "mtp:1");
  EXPECT_EQ(serve(Dialect::kSglang, words("--model-path m --speculative-algorithm EAGLE "
                                          "--speculative-draft-model-path m"))
                .options.spec,
            "mtp:3");
  EXPECT_NE(serve(Dialect::kSglang, words("--model-path m --speculative-algorithm EAGLE "
                                          "--speculative-draft-model-path d"))
                .error,
            "");
}

TEST(ServeDialect, json_that_is_none_is_refused) {
  EXPECT_EQ(serve(Dialect::kVllm, {"m", "--speculative-config", "{'method':'mtp'}"}).error,
            "--speculative-config: line 1, column 2: syntax error");
  EXPECT_NE(serve(Dialect::kVllm, {"m", "--eplb-config", R"({"window_size": 1)"})
                .error.find("--eplb-config: line 1"),
            std::string::npos);
  EXPECT_EQ(serve(Dialect::kVllm, words("m --compilation-config 3")).error, "");
  const auto file = [](Dialect dialect, const std::string& text) {
    const std::string path = write_temporary("group.yaml", text);
    const Served served = serve(dialect, {"m", "--config", path});
    return served.error.empty() ? served.options.spec
                                : served.error.substr(std::min(path.size(), served.error.size()));
  };
  EXPECT_EQ(file(Dialect::kTrtllm, "speculative_config: mtp\n"),
            ": speculative_config is a text; expected keys and values");
  EXPECT_EQ(file(Dialect::kTrtllm, "kv_cache_config: [fp8]\n"),
            ": kv_cache_config is a list; expected keys and values");
  EXPECT_EQ(file(Dialect::kVllm, "compilation-config: 3\n"), "");
  EXPECT_EQ(file(Dialect::kVllm, "compilation_config: \"3\"\n"), "");
  EXPECT_EQ(file(Dialect::kVllm, "limit-mm-per-prompt: image=2\n"), "");
  EXPECT_EQ(file(Dialect::kVllm, "speculative_config: \"x\"\n"),
            ": speculative_config is a text; expected keys and values");
  EXPECT_EQ(file(Dialect::kVllm, "speculative-config: '{\"method\": \"mtp\"}'\n"), "mtp:1");
}

TEST(ServeDialect, json_may_be_written_as_the_file_writes_its_own) {
  const std::string file =
      write_temporary("json.yaml",
                      "default-chat-template-kwargs:\n  enable_thinking: false\n"
                      "override-generation-config: {temperature: 0.5}\n");
  const Served served = serve(Dialect::kVllm, words("m --config '" + file + "'"));
  EXPECT_EQ(served.error, "");
  EXPECT_EQ(served.options.default_chat_template_kwargs, R"({"enable_thinking":false})");
  EXPECT_EQ(served.options.override_generation_config, R"({"temperature":0.5})");
}

TEST(ServeDialect, switches_can_be_turned_off_in_every_spelling) {
  EXPECT_FALSE(serve(Dialect::kVllm, words("m --no-enable-prefix-caching")).options.prefix_caching);
  EXPECT_FALSE(
      serve(Dialect::kSglang, words("--model m --disable-radix-cache")).options.prefix_caching);
  EXPECT_FALSE(serve(Dialect::kGlint, words("m --prefix_caching=false")).options.prefix_caching);
  EXPECT_EQ(serve(Dialect::kVllm, words("m --no-enforce-eager")).error, "");
  EXPECT_TRUE(
      serve(Dialect::kVllm, words("m --no-enable-prefix-caching=false")).options.prefix_caching);
  const std::string file = write_temporary("off.yaml", "no-enable-prefix-caching: true\n");
  EXPECT_FALSE(serve(Dialect::kVllm, words("m --config '" + file + "'")).options.prefix_caching);
  EXPECT_EQ(serve(Dialect::kVllm, words("m --no-max-num-seqs")).error,
            "unknown option \"--no-max-num-seqs\", did you mean --max-num-seqs?");
}

TEST(ServeDialect, what_has_no_meaning_is_told_as_it_was_written) {
  const auto told = [](Dialect dialect, const char* line) {
    const Served served = serve(dialect, words(line));
    EXPECT_EQ(served.error, "");
    std::vector<std::string> all = served.translated.graphs.given;
    for (const std::string& each : served.translated.ignored)
      all.push_back(each.substr(0, each.find(" (")));
    return all;
  };
  using Lines = std::vector<std::string>;
  EXPECT_EQ(told(Dialect::kVllm, "m --no-enforce-eager --no-async-scheduling"),
            (Lines{"--no-enforce-eager", "--no-async-scheduling"}));
  EXPECT_EQ(told(Dialect::kGlint, "m --enforce-eager=true --async-scheduling=false"),
            (Lines{"--enforce-eager", "--async-scheduling false"}));
  const std::string file = write_temporary("told.yaml", "no-enforce-eager: true\n");
  EXPECT_EQ(told(Dialect::kVllm, str("m --config '", file, "'").c_str()),
            Lines{"no-enforce-eager"});
}

TEST(ServeDialect, the_reason_for_which_a_flag_is_ignored_is_true_of_it) {
  const auto reason = [](const char* flag) {
    const Served served = serve(Dialect::kGlint, words(str("m ", flag)));
    EXPECT_EQ(served.error, "");
    const std::string line = joined(served.translated.ignored, "; ");
    return line.substr(line.find(" (") + 2);
  };
  EXPECT_EQ(reason("--device cuda"), "see --backend)");
  EXPECT_EQ(reason("--max_beam_width 4"),
            "there is no beam search: requests that ask for beams are refused)");
  EXPECT_EQ(reason("--max-input-len 4"), "see --max-model-len)");
  EXPECT_EQ(reason("--soft-watchdog-timeout 4"), "see --watchdog-timeout)");
  EXPECT_EQ(reason("--enable-prompt-tokens-details"), "every answer has cached_tokens)");
  EXPECT_EQ(reason("--enable-cache-report"), "every answer has cached_tokens)");
  EXPECT_EQ(reason("--sleep-on-idle"), "a server without requests sleeps)");
  EXPECT_EQ(reason("--build_config.max_batch_size 4"),
            "no engine is built; see --max-num-seqs, --max-num-batched-tokens and "
            "--max-model-len)");
}

TEST(ServeDialect, flags_of_graphs_have_their_owners_meaning) {
  const auto graphs = [](Dialect dialect, std::vector<std::string> args) {
    const Served served = serve(dialect, args);
    EXPECT_EQ(served.error, "");
    EXPECT_TRUE(served.translated.ignored.empty());
    return served.translated.graphs;
  };
  EXPECT_TRUE(graphs(Dialect::kVllm, words("m --enforce-eager")).eager);
  EXPECT_FALSE(graphs(Dialect::kVllm, words("m --no-enforce-eager")).eager);
  EXPECT_EQ(graphs(Dialect::kVllm,
                   {"m", "--compilation-config", R"({"cudagraph_capture_sizes": [1, 8]})"})
                .rows,
            (std::vector<std::int64_t>{1, 8}));
  EXPECT_EQ(graphs(Dialect::kVllm, words("m -cc.cudagraph_capture_sizes=[1,8]")).rows,
            (std::vector<std::int64_t>{1, 8}));
  for (const char* line : {"m -cc.cudagraph_mode=NONE", "m -O0", "m --optimization-level 0"})
    EXPECT_TRUE(graphs(Dialect::kVllm, words(line)).eager) << line;
  EXPECT_FALSE(serve(Dialect::kVllm, words("m -O3")).translated.graphs.eager);
  const GraphFlags flags =
      graphs(Dialect::kSglang, words("--model m --cuda-graph-bs 1 2 4 --cuda-graph-max-bs 3 "
                                     "--disable-cuda-graph-padding"));
  EXPECT_EQ(flags.rows, (std::vector<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(flags.most, 3);
  EXPECT_FALSE(flags.pads);
  EXPECT_EQ(flags.given, (std::vector<std::string>{"--cuda-graph-bs 1 2 4", "--cuda-graph-max-bs 3",
                                                   "--disable-cuda-graph-padding"}));
  EXPECT_NE(serve(Dialect::kSglang, words("--model m --cuda-graph-max-bs 0")).error, "");
}

TEST(ServeDialect, letters_work) {
  const Served served = serve(Dialect::kGlint, words("m -t 3 -p 8001"));
  EXPECT_EQ(served.error, "");
  EXPECT_EQ(served.options.threads, 3);
  EXPECT_EQ(served.options.port, 8001);
  EXPECT_EQ(serve(Dialect::kGlint, words("m -p8002 -t2")).options.port, 8002);
  const Served optimised = serve(Dialect::kVllm, words("m -O3 -O.mode=2 -tp 8"));
  EXPECT_EQ(optimised.error, "");
  EXPECT_EQ(optimised.options.tp, 8);
  EXPECT_EQ(optimised.translated.ignored.size(), 2u);
  EXPECT_EQ(serve(Dialect::kVllm, words("m -xyz")).error, "unknown option \"-xyz\"");
}

TEST(ServeDialect, several_names_are_one_flag_for_those_who_write_it_so) {
  for (const Dialect dialect : {Dialect::kVllm, Dialect::kGlint}) {
    const Served served = serve(dialect, words("m --served-model-name a b --port 1"));
    EXPECT_EQ(served.options.served_model_name, (std::vector<std::string>{"a", "b"}))
        << served.error;
  }
  const Served before = serve(Dialect::kGlint, words("--served-model-name a m"));
  EXPECT_EQ(before.options.model, "m") << before.error;
  EXPECT_EQ(serve(Dialect::kGlint, words("--served-model-name a b m")).error,
            "unexpected argument \"m\": MODEL is \"b\", and one server serves one model; leave one "
            "out, and give flags of several words behind MODEL");
  const Served nodes = serve(Dialect::kSglang, words("--model m --numa-node 0 0 1 --port 1"));
  EXPECT_EQ(nodes.error, "");
  ASSERT_EQ(nodes.translated.ignored.size(), 1u);
  EXPECT_TRUE(nodes.translated.ignored[0].starts_with("--numa-node 0 0 1 ("));
  EXPECT_EQ(serve(Dialect::kVllm, words("m --collect-detailed-traces model worker")).error, "");
}

TEST(ServeDialect, unknown_flags_are_refused_with_a_suggestion) {
  EXPECT_EQ(serve(Dialect::kVllm, words("m --max-model-length 5")).error,
            "unknown option \"--max-model-length\", did you mean --max-model-len?");
  EXPECT_EQ(
      serve(Dialect::kVllm, words("m --schedule-conservativeness 1 --disable-radix-cache")).error,
      "unknown option \"--disable-radix-cache\"");
  const std::string file =
      write_temporary("bad.yaml", "kv_cache_config:\n  dtype: fp8\nmax_batchsize: 3\n");
  EXPECT_NE(serve(Dialect::kTrtllm, {"m", "--config", file}).error.find("max_batchsize"),
            std::string::npos);
}

TEST(ServeDialect, a_misspelt_key_of_a_group_is_refused_with_a_suggestion) {
  const auto error = [](const char* yaml) {
    const std::string file = write_temporary("group.yaml", yaml);
    return serve(Dialect::kTrtllm, {"m", "--config", file}).error;
  };
  EXPECT_NE(error("kv_cache_config:\n  free_gpu_memory_fractoin: 0.8\n")
                .find("unknown key \"kv_cache_config.free_gpu_memory_fractoin\", did you mean "
                      "kv_cache_config.free_gpu_memory_fraction?"),
            std::string::npos);
  EXPECT_NE(error("moe_config:\n  backnd: CUTLASS\n").find("did you mean moe_config.backend?"),
            std::string::npos);
  EXPECT_EQ(error("moe_config:\n  backend: CUTLASS\n  load_balancer: lb.yaml\n"), "");
  EXPECT_EQ(error("kv_cache_config:\n  host_cache_size: 0\n  event_buffer_max_size: 1\n"), "");
}

TEST(ServeDialect, older_spellings_keep_their_meaning) {
  for (const char* flag :
       {"--kv_cache_free_gpu_mem_fraction", "--kv_cache_free_gpu_memory_fraction"}) {
    const auto served = serve(Dialect::kTrtllm, {"m", flag, "0.25"});
    EXPECT_EQ(served.error, "");
    EXPECT_EQ(served.options.free_memory_fraction, 0.25) << flag;
  }
  EXPECT_EQ(serve(Dialect::kGlint, words("m --memory-fraction 0.25")).options.free_memory_fraction,
            0.25);
}

TEST(ServeDialect, what_would_make_another_model_is_refused) {
  const auto error = [](Dialect dialect, const char* flag, const char* value) {
    return serve(dialect, {"m", flag, value}).error;
  };
  EXPECT_EQ(error(Dialect::kVllm, "--hf-overrides", R"({"rope_parameters": {"rope_theta": 5}})"),
            "--hf-overrides.rope_parameters.rope_theta: the checkpoint is read as it is, so \"5\" "
            "would not count; change its config.json, or leave the flag out");
  EXPECT_EQ(error(Dialect::kSglang, "--json-model-override-args", R"({"index_topk_freq": 4})"),
            "--json-model-override-args.index_topk_freq: the checkpoint is read as it is, so "
            "\"4\" would not count; change its config.json, or leave the flag out");
  for (const char* flag : {"--hf-overrides.num_experts_per_tok", "--hf-config-path"})
    EXPECT_NE(error(Dialect::kVllm, flag, "4").find("change its config.json"), std::string::npos);
  EXPECT_EQ(error(Dialect::kVllm, "--logits-processors", "a.b:C"),
            "--logits-processors: there is no Python, so \"a.b:C\" would not change logits; leave "
            "the flag out, and let requests have logit_bias or a grammar");
  EXPECT_EQ(error(Dialect::kSglang, "--json-model-override-args", "{}"), "");
  using Fields =
      std::vector<std::pair<std::string, std::string>>;  // which the checkpoint must have
  EXPECT_EQ(
      serve(Dialect::kVllm, {"m", "--hf-overrides", R"({"index_topk": 128})"}).translated.expected,
      (Fields{{"index_topk", "128"}}));
}

TEST(ServeDialect, another_kind_of_server_is_refused) {
  for (const char* flag : {"--runner pooling", "--task embed", "--convert classify"}) {
    const std::vector<std::string> pair = words(flag);
    EXPECT_EQ(serve(Dialect::kVllm, words(str("m ", flag))).error,
              str(pair[0], ": it is a server of one language model, and \"", pair[1],
                  "\" asks for another kind; leave the flag out"));
  }
  EXPECT_EQ(serve(Dialect::kVllm, words("m --runner generate --task auto --convert none")).error,
            "");
  EXPECT_NE(serve(Dialect::kSglang, words("--model-path m --is-embedding")).error, "");
  EXPECT_EQ(serve(Dialect::kSglang, words("--model-path m --is-embedding=false")).error, "");
}

TEST(ServeDialect, values_that_cannot_be_kept_are_refused) {
  EXPECT_EQ(
      serve(Dialect::kVllm, words("m --enable-lora --lora-modules a=/x")).error,
      "--lora-modules: there are no adapters, so nothing would be served as \"a=/x\"; merge it "
      "into the checkpoint, or leave the flag out");
  EXPECT_EQ(serve(Dialect::kSglang, words("--model-path m --stream-output")).error,
            "--stream-output: pieces of a stream of /generate hold all before them, and not only "
            "what is new; leave the flag out, and cut them");
  EXPECT_EQ(serve(Dialect::kVllm,
                  {"m", "--structured-outputs-config", R"({"disable_any_whitespace": true})"})
                .error,
            "--structured-outputs-config.disable_any_whitespace: blanks in JSON are bounded, and "
            "not forbidden; leave the flag out, or ask for a grammar without them");
  EXPECT_EQ(serve(Dialect::kVllm,
                  {"m", "--structured-outputs-config", R"({"disable_any_whitespace": false})"})
                .error,
            "");
  EXPECT_EQ(
      serve(Dialect::kSglang, words("--model-path m --allow-auto-truncate")).translated.ignored,
      std::vector<std::string>{"--allow-auto-truncate (a prompt that does not fit is refused)"});
  EXPECT_EQ(serve(Dialect::kVllm, words("m --uds /run/s")).error,
            "--uds: \"/run/s\" is not available, and without it the server is open to everybody "
            "who reaches its port; use --host, --api-key or a proxy");
  for (const char* flag : {"--ssl-cert-reqs 1", "--ssl-cert-reqs 2", "--middleware my.Auth"})
    EXPECT_NE(serve(Dialect::kVllm, words(str("m ", flag))).error.find("open to everybody"),
              std::string::npos)
        << flag;
  EXPECT_EQ(serve(Dialect::kVllm, words("m --ssl-cert-reqs 0")).error, "");
  EXPECT_EQ(serve(Dialect::kVllm, words("m --ssl-ca-certs CA")).error, "");  // asks nobody for one
  EXPECT_EQ(serve(Dialect::kVllm, words("m --logprobs-mode processed_logprobs")).error,
            "--logprobs-mode: log-probabilities are the model's own, raw_logprobs, and not "
            "\"processed_logprobs\"");
  EXPECT_EQ(serve(Dialect::kVllm, words("m --logprobs-mode raw_logprobs --tokenizer m")).error, "");
  EXPECT_EQ(serve(Dialect::kGlint, words("m --kv-cache-dtype fp8_e5m2")).error,
            "--kv-cache-dtype: a KV cache in \"fp8_e5m2\" is not available; use bf16, fp8 or auto");
  EXPECT_EQ(
      serve(Dialect::kVllm, words("m --speculative-config.method ngram")).error,
      "speculation by \"ngram\" is not available; this model drafts with its own MTP layer (mtp)");
  EXPECT_EQ(serve(Dialect::kVllm, words("m --port")).error, "--port needs a value");
}

}  // namespace
}  // namespace glint
