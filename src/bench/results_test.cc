#include "bench/results.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "bench/testing.h"

namespace glint {
namespace {

// A measurement of one second with `clients`: one answer of `tokens`, one failure.
Measurement measured(int clients, int tokens) {
  Measurement m = {.model = "org/m", .url = "http://x"};
  m.options.concurrency = clients;
  m.options.num_prompts = 2;
  m.result.records = {
      {.start = at(0), .chunks = {at(100), at(300)}, .text = "a", .usage_tokens = tokens},
      {.start = at(50), .failure = "it broke"}};
  m.result.records[0].prompt_tokens = 7;
  m.result.summary = summarize(m.result.records, 1, {.ttft_ms = 1000});
  return m;
}

double number(const Json& json, const char* name) { return json.find(name)->as_double(); }

TEST(Results, vllms_keys) {
  const Json json = vllm_result(measured(8, 5), "20260131-235959", true);
  EXPECT_EQ(json.find("max_concurrency")->as_int(), 8);
  EXPECT_EQ(json.find("request_rate")->as_string(), "inf");
  EXPECT_EQ(json.find("completed")->as_int(), 1);
  EXPECT_EQ(json.find("failed")->as_int(), 1);
  EXPECT_EQ(json.find("total_input_tokens")->as_int(), 7);
  EXPECT_EQ(number(json, "output_throughput"), 5);
  EXPECT_EQ(number(json, "total_token_throughput"), 12);
  EXPECT_EQ(number(json, "request_goodput"), 1);
  EXPECT_EQ(number(json, "mean_ttft_ms"), 100);
  EXPECT_EQ(number(json, "p99_tpot_ms"), 50);
  EXPECT_EQ(number(json, "median_itl_ms"), 200);
  EXPECT_EQ(number(json, "p95_e2el_ms"), 300);
  EXPECT_EQ(dump_json(*json.find("errors")), R"(["","it broke"])");
  EXPECT_EQ(dump_json(*json.find("itls")), "[[0.2],[]]");
  EXPECT_EQ(dump_json(*json.find("start_times")), "[0.0,0.05]");
  EXPECT_EQ(vllm_result(measured(8, 5), "", false).find("errors"), nullptr);
}

TEST(Results, has_the_latencies_and_percentiles_that_are_asked_for) {
  Measurement m = measured(8, 5);
  m.metrics = {"itl", "ttft"};
  const double asked[] = {25};
  m.result.summary = summarize(m.result.records, 1, {}, asked);
  const Json json = vllm_result(m, "", false);
  EXPECT_EQ(number(json, "p25_ttft_ms"), 100);
  EXPECT_EQ(number(json, "p99_itl_ms"), 200);
  EXPECT_EQ(json.find("mean_tpot_ms"), nullptr);
  const std::string table = details_table(m);
  EXPECT_EQ(table.find("\n              mean   median      p25      max\n"
                       "TTFT ms     100.00   100.00   100.00   100.00\n"
                       "ITL ms "),
            0u)
      << table;
}

TEST(Results, vllms_names_of_files) {
  Measurement m = measured(8, 5);
  EXPECT_EQ(vllm_file_name(m, "D"), "openai-infqps-concurrency8-m-D.json");
  m.label = "a/b";
  m.options.concurrency = 0;
  m.options.arrivals.rate = 4;
  EXPECT_EQ(vllm_file_name(m, "D"), "a-b-4.0qps-m-D.json");
  m.options.arrivals = {.ramp_start = 1, .ramp_end = 10, .exponential = true};
  EXPECT_EQ(vllm_file_name(m, "D"), "a-b-ramp-up-exponential-1qps-10qps-m-D.json");
}

TEST(Results, a_ramp_has_vllms_keys) {
  Measurement m = measured(8, 5);
  EXPECT_EQ(vllm_result(m, "", false).find("ramp_up_strategy"), nullptr);
  m.options.arrivals = {.ramp_start = 1, .ramp_end = 10};
  for (const Json& json : {vllm_result(m, "", false), sglang_result(m)}) {
    EXPECT_EQ(json.find("request_rate")->as_string(), "inf");
    EXPECT_EQ(json.find("ramp_up_strategy")->as_string(), "linear");
    EXPECT_EQ(number(json, "ramp_up_start_rps"), 1);
    EXPECT_EQ(number(json, "ramp_up_end_rps"), 10);
  }
}

TEST(Results, sglangs_keys) {
  Measurement m = measured(8, 5);
  EXPECT_EQ(number(sglang_result(m), "random_range_ratio"), 1);
  m.options.prompts.dialect = RangeDialect::kSglang;
  m.options.prompts.input_ratio = 0.5;
  m.options.arrivals.rate = 2;
  const Json json = sglang_result(m);
  EXPECT_EQ(number(json, "mean_e2e_latency_ms"), 300);
  EXPECT_EQ(number(json, "random_range_ratio"), 0.5);
  EXPECT_EQ(number(json, "request_rate"), 2);
  EXPECT_DOUBLE_EQ(number(json, "concurrency"), 0.3);
  EXPECT_EQ(number(json, "accept_length"), 2.5);
}

TEST(Results, where_no_request_succeeded_there_are_no_times) {
  Measurement m = measured(8, 5);
  m.result.records.erase(m.result.records.begin());
  m.result.summary = summarize(m.result.records, 1, {.ttft_ms = 1000});
  const std::string row = table_row(m);
  EXPECT_EQ(table_head(true).size(), row.size());
  EXPECT_EQ(row.find("         8             0          -          -             -         -"), 0u)
      << row;
  EXPECT_EQ(details_table(m), "\nno request succeeded: there is nothing to measure\n");
}

TEST(Results, the_table_says_where_more_clients_stop_helping) {
  const std::vector<Measurement> all = {measured(1, 100), measured(8, 960), measured(16, 1000),
                                        measured(32, 900)};
  const std::string peaks = table_peaks(all);
  EXPECT_NE(peaks.find("1,000 tok/s (c=16)"), std::string::npos) << peaks;
  EXPECT_NE(peaks.find("~8 concurrent"), std::string::npos) << peaks;
  EXPECT_EQ(table_peaks(std::vector<Measurement>{measured(1, 5)}), "");
  EXPECT_EQ(table_head(true).size(), table_row(all[0]).size());
  const std::string head = table_head(true, 80), row = table_row(all[0], 80);
  for (const std::string& text : {head, row}) {
    const std::vector<std::string_view> lines = split(text, '\n');
    ASSERT_EQ(lines.size(), 3u) << text;  // the last is empty
    EXPECT_TRUE(lines[0].size() < 80 && lines[1].size() < 80) << text;
  }
  EXPECT_EQ(head.find('\n'), row.find('\n')) << head << row;
  EXPECT_NE(table_row(measured(1024, 1234567)).find("      1024     1,234,567        100"),
            std::string::npos)
      << table_row(measured(1024, 1234567));
}

}  // namespace
}  // namespace glint
