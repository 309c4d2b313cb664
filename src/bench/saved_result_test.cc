#include "bench/saved_result.h"

#include <gtest/gtest.h>

#include "bench/testing.h"

namespace glint {
namespace {

Measurement measured() {
  Measurement m = {.model = "org/m", .url = "", .label = "here"};
  m.options.concurrency = 8;
  m.options.num_prompts = 2;
  m.result.records = {{.start = at(1000), .chunks = {at(1100), at(1300)}, .usage_tokens = 5},
                      {.start = at(1050), .failure = "it broke"}};
  m.result.records[0].prompt_tokens = 7;
  m.result.summary = summarize(m.result.records, 1);
  m.result.client_cpu = 0.25;
  m.result.lag_ms = Distribution::of({1, 3});
  return m;
}

Json changed(Json json, const char* name, Json value) {
  json.set(name, std::move(value));
  return json;
}

TEST(SavedResult, is_what_was_saved) {
  const Measurement m = measured();
  for (const bool detailed : {false, true}) {
    const Result<Measurement> read = read_saved_result(vllm_result(m, "", detailed));
    ASSERT_TRUE(read.ok()) << read.error().message;
    const Measurement& r = read.value();
    EXPECT_EQ(r.model, "org/m");
    EXPECT_EQ(r.label, "here");
    EXPECT_EQ(r.options.concurrency, 8);
    const LoadSummary &a = r.result.summary, &b = m.result.summary;
    EXPECT_EQ(a.num_failed, 1);
    EXPECT_EQ(a.num_requests, 2);
    EXPECT_EQ(a.output_tokens_per_s(), b.output_tokens_per_s());
    EXPECT_EQ(a.peak_tokens_per_s, b.peak_tokens_per_s);
    EXPECT_EQ(a.ttft_ms.mean, b.ttft_ms.mean);
    EXPECT_EQ(a.tpot_ms.p99, b.tpot_ms.p99);
    EXPECT_EQ(a.itl_ms.p90, b.itl_ms.p90);
    EXPECT_EQ(a.e2el_ms.p50, b.e2el_ms.p50);
    EXPECT_EQ(r.result.client_cpu, 0.25);
    EXPECT_EQ(r.result.lag_ms.p99, m.result.lag_ms.p99);
    ASSERT_EQ(r.result.records.size(), detailed ? 2u : 0u);
    if (!detailed) continue;
    EXPECT_EQ(r.result.records[0].chunks.size(), 2u);
    EXPECT_EQ(r.result.records[0].e2el_ms(), 300);
    EXPECT_EQ(r.result.records[1].failure, "it broke");
  }
}

TEST(SavedResult, may_be_a_line_of_sglangs) {
  const Measurement m = measured();
  const Result<Measurement> read = read_saved_result(sglang_result(m));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().label, "here");
  EXPECT_EQ(read.value().options.concurrency, 8);
  EXPECT_EQ(read.value().result.summary.e2el_ms.p50, m.result.summary.e2el_ms.p50);
  EXPECT_EQ(read.value().result.lag_ms.mean, 2);
}

TEST(SavedResult, may_have_a_ramp) {
  Measurement m = measured();
  m.options.arrivals = {.ramp_start = 1, .ramp_end = 10, .exponential = true};
  for (const Json& json : {vllm_result(m, "", false), sglang_result(m)}) {
    const Arrivals read = read_saved_result(json).value().options.arrivals;
    EXPECT_EQ(read.rate, 0);
    EXPECT_EQ(read.ramp_start, 1);
    EXPECT_EQ(read.ramp_end, 10);
    EXPECT_TRUE(read.exponential);
  }
}

TEST(SavedResult, leaves_out_what_others_leave_out) {
  const Result<Measurement> read = read_saved_result(Json::Object{{"output_throughput", 5},
                                                                  {"duration", 2},
                                                                  {"total_output_tokens", 10},
                                                                  {"max_concurrency", Json()},
                                                                  {"request_rate", 4.5},
                                                                  {"mean_ttft_ms", 3},
                                                                  {"completed", 2}});
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().options.concurrency, 0);
  EXPECT_EQ(read.value().options.arrivals.rate, 4.5);
  EXPECT_EQ(read.value().result.summary.ttft_ms.count, 2u);
  EXPECT_EQ(read.value().result.summary.e2el_ms.count, 0u);
  EXPECT_EQ(read.value().result.summary.output_tokens_per_s(), 5);
  EXPECT_EQ(read.value().result.summary.num_failed, 0);
}

TEST(SavedResult, failures_that_are_not_counted_are_the_requests_that_were_not_completed) {
  Json old = vllm_result(measured(), "", false);
  std::erase_if(old.as_object(), [](const auto& member) { return member.first == "failed"; });
  EXPECT_EQ(read_saved_result(old).value().result.summary.num_failed, 1);
}

// Answers of one token each have nothing between tokens.
TEST(SavedResult, a_latency_that_no_answer_has_is_none) {
  Measurement m = measured();
  for (StreamRecord& record : m.result.records) {
    record.chunks.resize(std::min<std::size_t>(record.chunks.size(), 1));
    record.usage_tokens = std::min<std::int64_t>(record.usage_tokens, 1);
  }
  m.result.summary = summarize(m.result.records, m.result.summary.seconds);
  const Result<Measurement> read = read_saved_result(vllm_result(m, "", false));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read.value().result.summary.tpot_ms.count, 0u);
  EXPECT_EQ(read.value().result.summary.itl_ms.count, 0u);
  EXPECT_EQ(read.value().result.summary.ttft_ms.count, 1u);
}

TEST(SavedResult, refuses_what_it_cannot_draw) {
  const Json whole = vllm_result(measured(), "", true);
  const std::pair<Json, const char*> cases[] = {
      {Json::Object{{"figures", 1}}, "output_throughput"},
      {changed(whole, "duration", "x"), "duration is"},
      {changed(whole, "duration", 1e300), "duration is"},
      {changed(whole, "max_concurrency", -1), "max_concurrency is"},
      {changed(whole, "mean_ttft_ms", -5), "mean_ttft_ms is"},
      {changed(whole, "label", 5), "label is no text"},
      {changed(whole, "itls", Json::Array{1}), "itls is no list of 2"},
      {changed(whole, "itls", Json::Array{1, 2}), "itls holds"},
      {changed(whole, "ttfts", Json::Array{-1, 0}), "ttfts is"},
  };
  for (const auto& [json, words] : cases) {
    const Result<Measurement> read = read_saved_result(json);
    ASSERT_FALSE(read.ok()) << words;
    EXPECT_NE(read.error().message.find(words), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace glint
