// A measurement in the formats that other tools read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "bench/load.h"

namespace glint {

// A run of the load generator: server, options and result.
struct Measurement {
  std::string model;
  std::string url;
  std::string backend = "openai";  // as the user named it: "openai-chat", "vllm"
  std::string dataset = "random";
  std::string label = {};
  std::vector<std::string> metrics = {"ttft", "tpot", "itl", "e2el"};  // latencies to report
  LoadOptions options = {};
  LoadResult result = {};
};

// Whether a latency is named so.
bool is_metric(std::string_view name);

// The keys of `vllm bench serve --save-result`; with `detailed` also those of --save-detailed.
// `date` as 20260131-235959.
Json vllm_result(const Measurement& measurement, const std::string& date, bool detailed);

// A line of `sglang.bench_serving --output-file`, without its newline.
Json sglang_result(const Measurement& measurement);

// The name that vLLM would give the file: LABEL-RATEqps-concurrencyN-MODEL-DATE.json, with the
// backend where there is no label, and with a ramp LABEL-ramp-up-STRATEGY-STARTqps-ENDqps...
std::string vllm_file_name(const Measurement& measurement, const std::string& date);

// The table's head and one of its rows, on as many lines as `width` columns take, cut between the
// same columns (0: on one); and what stands out of several rows: the greatest throughput, the best
// second, and the fewest clients that reach 95 % of that throughput.
std::string table_head(bool with_goodput, int width = 0);
std::string table_row(const Measurement& measurement, int width = 0);
std::string table_peaks(std::span<const Measurement> all);

// The latencies of `metrics`, each with the percentiles that were asked for, and the rates.
std::string details_table(const Measurement& measurement);

}  // namespace glint
