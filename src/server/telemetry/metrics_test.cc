#include "server/telemetry/metrics.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

EngineStats some_stats() {
  EngineStats stats;
  stats.num_running = 3;
  stats.num_waiting = 2;
  stats.used_pages = 25;
  stats.total_pages = 100;
  stats.page_size = 64;
  stats.generated_tokens = 70;
  stats.drafts = 10;
  stats.accepted_tokens = 5;
  stats.accepted_per_position = {4, 1};
  return stats;
}

bool has(const std::string& page, const std::string& line) {
  return ("\n" + page).find("\n" + line + "\n") != std::string::npos;
}

TEST(Metrics, pages_have_vllms_names) {
  Metrics metrics(MetricsDialect::kVllm, "m");
  metrics.first_token(0.03);
  RequestRecord record;
  record.finish_reasons = {"stop", "error"};
  record.max_tokens = 9;
  for (const int status : {200, 499, 500, 429}) {
    record.status = status;
    metrics.request_done(record);
  }
  const std::string page = metrics.text(some_stats());
  const std::string labels = "{engine=\"0\",model_name=\"m\"}";
  for (const std::string& line : std::vector<std::string>{
           "vllm:num_requests_running" + labels + " 3", "vllm:num_requests_waiting" + labels + " 2",
           "vllm:kv_cache_usage_perc" + labels + " 0.25",
           "vllm:generation_tokens_total" + labels + " 70",
           "vllm:corrupted_requests_total" + labels + " 1",
           "vllm:request_params_max_tokens_sum" + labels + " 27",
           "vllm:e2e_request_latency_seconds_count" + labels + " 3",
           "vllm:request_queue_time_seconds_count" + labels + " 1",
           "vllm:request_decode_time_seconds_count" + labels + " 1",
           std::string("vllm:request_success_total{engine=\"0\",finished_reason=\"length\","
                       "model_name=\"m\"} 0"),
           std::string("vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",model_name="
                       "\"m\",position=\"1\"} 1"),
           std::string("vllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"m\",le="
                       "\"0.02\"} 0"),
           std::string("vllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"m\",le="
                       "\"0.04\"} 1")})
    EXPECT_TRUE(has(page, line)) << line << "\n" << page;
}

TEST(Metrics, boards_and_gateways_find_what_they_ask_for) {
  Metrics metrics(MetricsDialect::kVllm, "m");
  metrics.token_gap(0.03);
  metrics.http_response("POST", "/v1/chat/completions", 200);
  metrics.http_duration("POST", "/v1/chat/completions", 0.3);
  RequestRecord record;
  record.usage.completion_tokens = 14;  // of two choices, side by side
  record.answer_tokens = {7, 7};
  record.decode_s = 3;
  metrics.request_done(record);
  EXPECT_EQ(metrics.text({}).find("cache_config_info{"), std::string::npos);  // nothing is loaded
  EXPECT_EQ(metrics.text({}).find("glint:expert"), std::string::npos);
  const std::string moved =
      metrics.text({}, ExpertPlaces{.moved_experts = 7, .imbalance_after = 1.25});
  EXPECT_TRUE(has(moved, "glint:moved_experts_total{engine=\"0\",model_name=\"m\"} 7"));
  EXPECT_TRUE(has(moved, "glint:expert_imbalance{engine=\"0\",model_name=\"m\"} 1.25"));
  const std::string page = metrics.text(some_stats());
  const std::string labels = "{engine=\"0\",model_name=\"m\"";
  for (const std::string& line : std::vector<std::string>{
           "vllm:cache_config_info{block_size=\"64\",engine=\"0\",num_gpu_blocks=\"100\"} 1",
           "vllm:request_max_num_generation_tokens_sum" + labels + "} 7",
           "vllm:request_generation_tokens_count" + labels + "} 2",
           "vllm:request_generation_tokens_bucket" + labels + ",le=\"10\"} 2",
           "vllm:request_time_per_output_token_seconds_sum" + labels + "} 0.5",
           "vllm:gpu_cache_usage_perc" + labels + "} 0.25",
           "vllm:time_per_output_token_seconds_count" + labels + "} 1",
           "http_requests_total{handler=\"/v1/chat/completions\",method=\"POST\",status=\"2xx\"} 1",
           "http_request_duration_seconds_count{handler=\"/v1/chat/completions\",method=\"POST\"} "
           "1"})
    EXPECT_TRUE(has(page, line)) << line << "\n" << page;
  for (const char* name : {"process_cpu_seconds_total", "process_resident_memory_bytes",
                           "process_virtual_memory_bytes", "process_start_time_seconds",
                           "process_open_fds", "process_max_fds"}) {
    const std::size_t at = ("\n" + page).find(str("\n", name, " "));
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_GT(std::stod(page.substr(at + std::string(name).size())), 0) << name;
  }
}

TEST(Metrics, the_help_of_each_is_whole_without_the_others) {
  for (const MetricsDialect dialect : {MetricsDialect::kVllm, MetricsDialect::kSglang}) {
    const std::string page = Metrics(dialect, "m").text(some_stats());
    for (const std::string_view line : split(page, '\n')) {
      if (!line.starts_with("# HELP ")) continue;
      EXPECT_EQ(line.find(" of these"), line.npos) << line;
      const bool is_old = line.find("the older name") != line.npos;
      const bool is_time = line.find("_seconds ") != line.npos && !is_old;
      EXPECT_TRUE(!is_time || line.find("seconds ", line.find(' ', 7)) != line.npos) << line;
    }
  }
}

TEST(Metrics, reading_twice_counts_once) {
  Metrics metrics(MetricsDialect::kVllm, "m");
  metrics.text(some_stats());
  EXPECT_TRUE(has(metrics.text(some_stats()),
                  "vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 70"));
}

TEST(Metrics, pages_have_sglangs_names_where_asked) {
  Metrics metrics(MetricsDialect::kSglang, "m");
  RequestRecord record;
  record.finish_reasons = {"abort"};
  metrics.request_done(record);
  metrics.step(3);
  const std::string page = metrics.text(some_stats());
  for (const char* line :
       {"sglang:num_running_reqs{model_name=\"m\"} 3", "sglang:num_queue_reqs{model_name=\"m\"} 2",
        "sglang:token_usage{model_name=\"m\"} 0.25",
        "sglang:max_total_num_tokens{model_name=\"m\"} 6400",
        "sglang:num_aborted_requests_total{model_name=\"m\"} 1",
        "sglang:spec_accept_length{model_name=\"m\"} 1.5"})
    EXPECT_TRUE(has(page, line)) << line << "\n" << page;
  EXPECT_EQ(page.find("vllm:"), std::string::npos);
}

}  // namespace
}  // namespace glint
