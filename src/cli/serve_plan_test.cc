#include "cli/serve_plan.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/contains.h"
#include "base/test_dir.h"

namespace glint {
namespace {

ServeFacts tiny_facts() {
  ServeFacts facts;
  facts.config.model_type = "glm_moe_dsa";
  facts.config.max_position_embeddings = 16384;
  facts.config.index_topk = 64;
  facts.generation.temperature = 0.6;
  facts.dir = "/models/glm5-tiny";
  facts.formats = "fp8 bf16";
  facts.has_mtp = true;
  facts.memory = {.page = 64 << 10,
                  .weights = 40 << 20,
                  .working = 20 << 20,
                  .total = std::int64_t{8} << 30,
                  .available = std::int64_t{4} << 30,
                  .host_available = std::int64_t{4} << 30};
  return facts;
}

ServeOptions tiny_options() {
  ServeOptions options;
  options.model = "models/glm5-tiny/";
  return options;
}

std::string refusal(const ServeOptions& options, const TranslatedArgs& given = {}) {
  if (const Status sound = check_serve_options(options); !sound.ok()) return sound.error().message;
  ServeFacts facts = tiny_facts();
  facts.asked_length = parse_length(options.max_model_len).value();
  const Result<ServePlan> plan = plan_serve(options, given, facts);
  return plan.ok() ? "" : plan.error().message;
}

TEST(ServePlan, what_is_open_is_decided_by_the_checkpoint) {
  const ServePlan plan = plan_serve(tiny_options(), {}, tiny_facts()).value();
  EXPECT_EQ(plan.max_model_len, 16384);
  EXPECT_EQ(plan.engine.scheduler.max_drafts, 0);
  EXPECT_EQ(plan.server.defaults.sampling.temperature, 0.6);
  const std::vector<std::string> names = {"glm5-tiny", "models/glm5-tiny", "models/glm5-tiny/"};
  EXPECT_EQ(plan.server.served_names, names);
  EXPECT_EQ(plan.server.parsers.reasoning, "glm45");
}

TEST(ServePlan, a_gpu_takes_more_tokens_a_step_unless_told) {
  ServeOptions options;
  options.backend = "cuda";
  EXPECT_EQ(step_tokens(options), 8192);
  options.max_num_batched_tokens = 512;
  EXPECT_EQ(step_tokens(options), 512);
  options = {};
  options.backend = "cpu";
  EXPECT_EQ(step_tokens(options), 2048);
}

TEST(ServePlan, a_model_has_a_name_however_its_folder_is_reached) {
  namespace fs = std::filesystem;
  const TestDir dir;
  const fs::path root = dir.path();
  fs::create_directories(root / "GLM" / "part");
  fs::create_directory_symlink("GLM", root / "glm-5");
  const auto name = [](const std::string& model) {
    ServeOptions options = tiny_options();
    options.model = model;
    return plan_serve(options, {}, tiny_facts()).value().server.served_names.front();
  };
  EXPECT_EQ(name("."), fs::current_path().filename());
  EXPECT_EQ(name("./"), fs::current_path().filename());
  EXPECT_EQ(name(".."), fs::current_path().parent_path().filename());
  EXPECT_EQ(name(root / "GLM/."), "GLM");
  EXPECT_EQ(name(root / "GLM/.//"), "GLM");
  EXPECT_EQ(name(root / "GLM/part/.."), "GLM");
  EXPECT_EQ(name(root / "GLM/../glm-5/"), "glm-5");
  EXPECT_EQ(name("zai-org/GLM-5-FP8"), "GLM-5-FP8");
}

TEST(ServePlan, the_watchdog_waits_until_a_lost_rank_is_known) {
  const auto seconds = [](double asked, int ranks) {
    ServeOptions options = tiny_options();
    options.watchdog_timeout = asked;
    ServeFacts facts = tiny_facts();
    facts.ranks.shape.tp = ranks;
    return plan_serve(options, {}, facts).value().engine.watchdog_seconds;
  };
  EXPECT_EQ(seconds(2, 1), 2);
  EXPECT_EQ(seconds(2, 2), 10);
  EXPECT_EQ(seconds(300, 2), 300);
  EXPECT_EQ(seconds(0, 2), 0);
}

TEST(ServePlan, the_users_names_come_first) {
  ServeOptions options = tiny_options();
  options.served_model_name = {"glm-5"};
  EXPECT_EQ(plan_serve(options, {}, tiny_facts()).value().server.served_names.front(), "glm-5");
  options.served_model_name = {"a", "b"};
  EXPECT_EQ(plan_serve(options, {}, tiny_facts()).value().server.num_listed_names, 2u);
}

TEST(ServePlan, keys_of_flags_replace_those_of_the_environment) {
  ServeFacts facts = tiny_facts();
  facts.environment_keys = {"old"};
  ServeOptions options = tiny_options();
  const TestDir dir;
  options.api_key_file = dir.write("keys", "new");
  const ServePlan plan = plan_serve(options, {}, facts).value();
  EXPECT_EQ(plan.server.access.api_keys, std::vector<std::string>{"new"});
  EXPECT_TRUE(contains(plan.rows, std::pair<std::string, std::string>("access", "1 API key")));
}

TEST(ServePlan, an_admin_key_is_a_text_and_told) {
  ServeOptions options = tiny_options();
  options.admin_api_key = {"secret"};
  const ServePlan plan = plan_serve(options, {}, tiny_facts()).value();
  EXPECT_TRUE(contains(
      plan.rows, std::pair<std::string, std::string>("access", "no key needed, an admin key")));
  options.admin_api_key = {""};
  EXPECT_EQ(refusal(options), "--admin-api-key is empty; give a text, or leave it out");
}

TEST(ServePlan, the_url_has_brackets_around_ipv6) {
  EXPECT_EQ(url_of({.host = "::1"}, 80), "http://[::1]:80");
  EXPECT_EQ(url_of({.host = "[::1]"}, 80), "http://[::1]:80");
}

TEST(ServePlan, what_contradicts_the_checkpoint_is_refused_with_both_values) {
  ServeOptions options = tiny_options();
  options.max_model_len = "32k";
  EXPECT_EQ(refusal(options),
            "--max-model-len is 32000, but the checkpoint has 16384 positions "
            "(max_position_embeddings); give at most that");
  TranslatedArgs given;
  given.expected = {{"index_topk", "2048"}};
  EXPECT_EQ(refusal(tiny_options(), given),
            "index_topk is 2048 in the options, but 64 in the checkpoint's config.json; remove the "
            "option");
  options = tiny_options();
  options.quantization = "modelopt_fp4";
  EXPECT_EQ(refusal(options),
            "--quantization modelopt_fp4 does not fit the checkpoint, whose weights are fp8 bf16; "
            "`glint quantize` makes one that does");
  options.quantization = "fp8";
  EXPECT_EQ(refusal(options), "");
}

TEST(ServePlan, own_sampling_defaults_win_over_the_checkpoints) {
  ServeFacts facts = tiny_facts();
  facts.generation.top_p = 0.9;
  ServeOptions options = tiny_options();
  options.override_generation_config = R"({"temperature": 0.2, "top_k": -1})";
  const auto sampling = [&] {
    return plan_serve(options, {}, facts).value().server.defaults.sampling;
  };
  EXPECT_EQ(sampling().temperature, 0.2);
  EXPECT_EQ(sampling().top_p, 0.9);
  options.generation_config = "none";
  EXPECT_EQ(sampling().temperature, 0.2);
  EXPECT_EQ(sampling().top_p, 1);
  options.override_generation_config = R"({"max_new_tokens": 3})";
  EXPECT_EQ(refusal(options),
            "--override-generation-config has \"max_new_tokens\"; it may have temperature, top_p, "
            "top_k, min_p, repetition_penalty and do_sample");
  options.override_generation_config = R"({"top_p": 2})";
  EXPECT_NE(refusal(options).find("top_p"), std::string::npos);
  options.override_generation_config = "3";
  EXPECT_EQ(refusal(options), "--override-generation-config must be a JSON object");
  options = tiny_options();
  options.default_chat_template_kwargs = R"({"enable_thinking": "x"})";
  EXPECT_EQ(refusal(options),
            "--default-chat-template-kwargs has enable_thinking, which is a text; expected true or "
            "false");
  options.default_chat_template_kwargs = R"({"tools": []})";
  EXPECT_EQ(refusal(options),
            "--default-chat-template-kwargs has \"tools\", which every request sets itself; leave "
            "it out");
}

TEST(ServePlan, origins_are_given_one_by_one_or_as_a_list) {
  ServeOptions options = tiny_options();
  const auto origins = [&](std::vector<std::string> given) {
    options.allowed_origins = std::move(given);
    return plan_serve(options, {}, tiny_facts()).value().server.access.allowed_origins;
  };
  EXPECT_EQ(origins({}), std::vector<std::string>{"*"});
  EXPECT_EQ(origins({R"(["*"])"}), std::vector<std::string>{"*"});
  EXPECT_EQ(origins({"null", R"(["http://a", "https://b:8"])"}),
            (std::vector<std::string>{"null", "http://a", "https://b:8"}));
  for (const char* wrong : {"example.com", "https://a/", "[5]", ""}) {
    options.allowed_origins = {wrong};
    EXPECT_NE(refusal(options).find("expected *, or an origin such as"), std::string::npos);
  }
  options.allowed_origins = {"[\"*\""};
  EXPECT_EQ(refusal(options).find("--allowed-origins: line 1"), 0u);
}

TEST(ServePlan, log_probabilities_are_at_most_those_of_all_tokens) {
  ServeFacts facts = tiny_facts();
  const int all = facts.config.vocab_size = 100;
  ServeOptions options = tiny_options();
  for (const auto& [given, most] :
       {std::pair(7, 7), std::pair(-1, all), std::pair(2147483647, all)}) {
    options.max_logprobs = given;
    EXPECT_EQ(plan_serve(options, {}, facts).value().server.max_logprobs, most);
  }
}

TEST(ServePlan, impossible_values_are_refused) {
  ServeOptions options = tiny_options();
  options.port = 70000;
  EXPECT_EQ(refusal(options), "--port is 70000; it must be from 0 to 65535");
  options = tiny_options();
  options.host = "";  // an unset variable of a script, which would be every address
  EXPECT_EQ(refusal(options),
            "--host is empty; give an address of this machine, or 0.0.0.0 for all of them");
  options = tiny_options();
  options.kv_cache_tokens = -5;
  EXPECT_EQ(refusal(options), "--kv-cache-tokens is -5; it must be 1 or more");
  options = tiny_options();
  options.gpu_memory_utilization = 1.5;
  EXPECT_EQ(refusal(options), "--gpu-memory-utilization is 1.5; it must be above 0 and at most 1");
  options = tiny_options();
  options.shutdown_timeout = 1e20;  // which no clock holds: all would be cut off at once
  EXPECT_EQ(refusal(options), "--shutdown-timeout is 1e+20; it must be from 0 to 1e9");
  options = tiny_options();
  options.ssl_keyfile = "k.pem";
  EXPECT_EQ(refusal(options), "--ssl-certfile and --ssl-keyfile go together; give both");
  options = tiny_options();
  options.served_model_name = {"a", ""};
  EXPECT_EQ(refusal(options), "--served-model-name is empty; give a name, or leave it out");
  options = tiny_options();
  options.reasoning_parser = "deepseek_r1";
  EXPECT_EQ(
      refusal(options),
      "--reasoning-parser \"deepseek_r1\" is a format that is not read here; use glm45, glm47, "
      "auto or none");
}

TEST(ServePlan, formats_have_the_names_of_other_servers) {
  ServeOptions options = tiny_options();
  options.tool_call_parser = "glm";  // SGLang's
  EXPECT_EQ(plan_serve(options, {}, tiny_facts()).value().server.parsers.tools, "glm47");
  options.reasoning_parser = "deepseek_v3";
  ServeFacts facts = tiny_facts();
  facts.config.model_type = "deepseek_v32";
  EXPECT_EQ(plan_serve(options, {}, facts).value().server.parsers.reasoning, "glm45");
}

int pages(const ServeOptions& options) {
  return plan_serve(options, {}, tiny_facts()).value().engine.cache.num_pages;
}

TEST(ServePlan, each_memory_knob_keeps_its_owners_meaning) {
  ServeOptions options = tiny_options();
  EXPECT_EQ(pages(options), 257 * 64);  // no more than 64 requests can fill
  options.max_num_seqs = 1000;
  const double mib = 1 << 20;
  const auto as_pages = [&](double bytes) { return static_cast<int>(bytes / (64 << 10)); };
  EXPECT_EQ(pages(options), as_pages((4096 - 60) * mib * 0.5));
  options.gpu_memory_utilization = 0.25;
  EXPECT_EQ(pages(options), as_pages((2048 - 60) * mib));
  options.gpu_memory_utilization = {};
  options.mem_fraction_static = 0.25;
  EXPECT_EQ(pages(options), as_pages((2048 - 40) * mib));
  options.mem_fraction_static = {};
  options.free_memory_fraction = 0.25;
  EXPECT_EQ(pages(options), as_pages((4096 - 60) * mib * 0.25));
  options.kv_cache_memory = "64M";
  EXPECT_EQ(pages(options), 1024);
  options.kv_cache_tokens = 20000;
  EXPECT_EQ(pages(options), 313);
}

TEST(ServePlan, a_gpu_gives_what_weights_and_steps_leave_of_it) {
  ServeFacts facts = tiny_facts();
  facts.memory.on_host = false;
  ServeOptions options = tiny_options();
  options.max_num_seqs = 65536;  // as much as there is
  const auto pages = [&] { return plan_serve(options, {}, facts).value().engine.cache.num_pages; };
  facts.memory.total = facts.memory.available = std::int64_t{1} << 30;
  const double mib = 1 << 20;
  EXPECT_EQ(pages(), static_cast<int>((1024 * 0.9 - 60) * mib / (64 << 10)));
  options.gpu_memory_utilization = 0.5;
  EXPECT_EQ(pages(), static_cast<int>((1024 * 0.5 - 60) * mib / (64 << 10)));
  // Bodies are bounded by the memory that the host has left, not by the GPU.
  const auto limits = [&] { return plan_serve(options, {}, facts).value().server.http.limits; };
  EXPECT_EQ(limits().body_bound, "--max-body-mb");
  EXPECT_EQ(limits().max_total_body_bytes, std::size_t{1} << 30);
  options.max_body_mb = 4096;
  facts.memory.host_available = std::int64_t{1} << 40;
  EXPECT_EQ(limits().max_total_body_bytes, std::size_t{4} << 30);
  facts.memory.host_available = 64 << 20;
  EXPECT_EQ(limits().max_body_bytes, std::size_t{4} << 20);
  EXPECT_EQ(limits().body_bound, "the memory beside weights and cache allows no more");
  facts.memory.available = 50 << 20;
  EXPECT_EQ(plan_serve(options, {}, facts).error().message,
            "weights and steps of 60 MiB do not fit: 50 MiB are free on the GPU; quantize the "
            "checkpoint, or serve with --backend cpu");
}

TEST(ServePlan, a_context_that_memory_does_not_hold_is_shorter_or_refused) {
  ServeOptions options = tiny_options();
  options.kv_cache_memory = "4M";
  EXPECT_EQ(plan_serve(options, {}, tiny_facts()).value().max_model_len, 64 * 64);
  options.max_model_len = "16384";
  EXPECT_EQ(refusal(options),
            "the KV cache would hold 4,096 tokens, fewer than the context of 16,384; give it more "
            "memory, or a smaller --max-model-len");
}

TEST(ServePlan, lengths_and_sizes_are_read_in_every_spelling) {
  EXPECT_EQ(parse_length("32768").value(), 32768);
  EXPECT_EQ(parse_length("32k").value(), 32000);
  EXPECT_EQ(parse_length("32K").value(), 32768);
  EXPECT_EQ(parse_length("auto").value(), 0);
  EXPECT_EQ(parse_length("1M").value(), 1 << 20);
  EXPECT_FALSE(parse_length("32 pages").ok());
  EXPECT_EQ(parse_length("0k").error().message,
            "--max-model-len is 0; it must be 2 or more, or auto");
  EXPECT_FALSE(parse_length("1.5").ok());
  EXPECT_EQ(parse_bytes("4G").value(), std::int64_t{4} << 30);
  EXPECT_EQ(parse_bytes("512MiB").value(), 512 << 20);
  EXPECT_EQ(parse_bytes("1073741824").value(), 1 << 30);
  for (const char* wrong : {"lots", "4X", "4kmb", "4 G", "1e16", "inf", "nan", "0"})
    EXPECT_FALSE(parse_bytes(wrong).ok()) << wrong;
  for (const char* wrong : {"inf", "nan", "1e30", "4X"})
    EXPECT_FALSE(parse_length(wrong).ok()) << wrong;
}

}  // namespace
}  // namespace glint
