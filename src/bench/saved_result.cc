#include "bench/saved_result.h"

#include <algorithm>
#include <utility>

#include "base/seconds.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr double kMostSeconds = 1e6;

// A number of the file from 0 to `most`; 0 if it is not there or null.
Result<double> number(const Json& json, const std::string& name, double most = 1e15) {
  const Json* value = json.find(name);
  if (!value || value->is_null()) return 0.0;
  const double out = value->is_number() ? value->as_double() : -1;
  if (out >= 0 && out <= most) return out;
  return invalid(
      str(name, " is ", quoted(dump_json(*value)), "; expected a number from 0 to ", most));
}

Result<std::string> text(const Json& json, const char* name) {
  const Json* value = json.find(name);
  if (!value || value->is_null()) return std::string();
  if (value->is_string()) return value->as_string();
  return invalid(str(name, " is no text"));
}

Result<Distribution> distribution(const Json& json, const std::string& name, int count) {
  Distribution out;
  if (!json.find(str("mean_", name, "_ms"))) return out;
  for (const auto& [statistic, field] :
       {std::pair("mean", &out.mean), std::pair("std", &out.std), std::pair("median", &out.p50),
        std::pair("p90", &out.p90), std::pair("p95", &out.p95), std::pair("p99", &out.p99)}) {
    GLINT_TRY(*field, number(json, str(statistic, "_", name, "_ms")));
  }
  // Zeros where no answer has one, as that between tokens where all are of one.
  if (out.mean > 0) out.count = static_cast<std::size_t>(count);
  return out;
}

// One of the lists that have an entry for each request.
Result<const Json::Array*> list(const Json& json, const char* name, std::size_t size) {
  const Json* value = json.find(name);
  if (value && value->is_array() && value->as_array().size() == size) return &value->as_array();
  return invalid(str(name, " is no list of ", size, " entries, as ttfts is"));
}

Result<double> seconds_in(const Json& value, const char* list_name) {
  return number(Json::Object{{list_name, value}}, list_name, kMostSeconds);
}

Result<std::vector<StreamRecord>> records_of(const Json& json) {
  std::vector<StreamRecord> out;
  const Json* ttfts = json.find("ttfts");
  if (!ttfts || !ttfts->is_array() || !json.find("start_times")) return out;
  const std::size_t count = ttfts->as_array().size();
  GLINT_TRY(const Json::Array* const starts, list(json, "start_times", count));
  GLINT_TRY(const Json::Array* const gaps, list(json, "itls", count));
  GLINT_TRY(const Json::Array* const inputs, list(json, "input_lens", count));
  GLINT_TRY(const Json::Array* const outputs, list(json, "output_lens", count));
  GLINT_TRY(const Json::Array* const errors, list(json, "errors", count));
  for (std::size_t i = 0; i < count; ++i) {
    StreamRecord record;
    GLINT_TRY(const double start, seconds_in((*starts)[i], "start_times"));
    GLINT_TRY(const double ttft, seconds_in(ttfts->as_array()[i], "ttfts"));
    GLINT_TRY(const double input, seconds_in((*inputs)[i], "input_lens"));
    GLINT_TRY(const double output, seconds_in((*outputs)[i], "output_lens"));
    record.start = BenchClock::time_point(from_seconds(start));
    record.chunks.push_back(record.start + from_seconds(ttft));
    if (!(*gaps)[i].is_array()) return invalid("itls holds what is no list");
    for (const Json& gap : (*gaps)[i].as_array()) {
      GLINT_TRY(const double seconds, seconds_in(gap, "itls"));
      record.chunks.push_back(record.chunks.back() + from_seconds(seconds));
      if (record.e2el_ms() > 1e3 * kMostSeconds) return invalid("itls add up to more than 1e6 s");
    }
    record.prompt_tokens = static_cast<std::int64_t>(input);
    record.usage_tokens = static_cast<std::int64_t>(output);
    if ((*errors)[i].is_string()) record.failure = (*errors)[i].as_string();
    out.push_back(std::move(record));
  }
  return out;
}

Result<LoadSummary> summary_of(const Json& json) {
  LoadSummary out;
  GLINT_TRY(out.seconds, number(json, "duration", kMostSeconds));
  GLINT_TRY(const double completed, number(json, "completed", 1e9));
  GLINT_TRY(const double asked, number(json, "num_prompts", 1e9));
  GLINT_TRY(double failed, number(json, "failed", 1e9));
  // Older versions of vLLM do not write how many failed.
  if (!json.find("failed")) failed = std::max(0.0, asked - completed);
  GLINT_TRY(const double input, number(json, "total_input_tokens"));
  GLINT_TRY(const double output, number(json, "total_output_tokens"));
  GLINT_TRY(out.peak_tokens_per_s, number(json, "max_output_tokens_per_s"));
  out.num_failed = static_cast<int>(failed);
  out.num_requests = static_cast<int>(completed) + out.num_failed;
  out.input_tokens = static_cast<std::int64_t>(input);
  out.output_tokens = static_cast<std::int64_t>(output);
  const auto whole = static_cast<int>(completed);
  GLINT_TRY(out.ttft_ms, distribution(json, "ttft", whole));
  GLINT_TRY(out.tpot_ms, distribution(json, "tpot", whole));
  GLINT_TRY(out.itl_ms, distribution(json, "itl", whole));
  const char* const e2el = json.find("mean_e2el_ms") ? "e2el" : "e2e_latency";  // SGLang's
  GLINT_TRY(out.e2el_ms, distribution(json, e2el, whole));
  return out;
}

Result<Arrivals> arrivals_of(const Json& json) {
  Arrivals out;
  const Json* rate = json.find("request_rate");  // or "inf"
  if (rate && rate->is_number()) {
    GLINT_TRY(out.rate, number(json, "request_rate"));
  }
  GLINT_TRY(const std::string strategy, text(json, "ramp_up_strategy"));
  if (strategy.empty()) return out;
  out.exponential = strategy == "exponential";
  GLINT_TRY(out.ramp_start, number(json, "ramp_up_start_rps"));
  GLINT_TRY(out.ramp_end, number(json, "ramp_up_end_rps"));
  return out;
}

}  // namespace

Result<Measurement> read_saved_result(const Json& json) {
  if (!json.is_object() || !json.find("output_throughput") || !json.find("duration"))
    return invalid("no result of `bench serve`: it has no output_throughput");
  Measurement out;
  GLINT_TRY(out.model, text(json, "model_id"));
  GLINT_TRY(out.backend, text(json, "backend"));
  GLINT_TRY(out.label, text(json, json.find("tag") ? "tag" : "label"));  // SGLang's, vLLM's
  GLINT_TRY(const double clients, number(json, "max_concurrency", 1e6));
  out.options.concurrency = static_cast<int>(clients);
  GLINT_TRY(out.options.arrivals, arrivals_of(json));
  GLINT_TRY(out.result.summary, summary_of(json));
  GLINT_TRY(out.result.client_cpu, number(json, "client_cpu"));
  GLINT_TRY(out.result.lag_ms, distribution(json, "client_lag", 1));
  GLINT_TRY(out.result.records, records_of(json));
  if (out.result.records.empty()) return out;
  const double burst = out.result.summary.peak_tokens_per_s;
  out.result.summary = summarize(out.result.records, out.result.summary.seconds);
  // The ids of tokens, by which a second's are counted, are not in the file.
  if (burst > 0) out.result.summary.peak_tokens_per_s = burst;
  return out;
}

}  // namespace glint
