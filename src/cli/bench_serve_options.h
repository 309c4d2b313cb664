// The options of `glint bench serve`, and what they add up to.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "bench/results.h"
#include "cli/bench_load_flags.h"
#include "cli/bench_request_flags.h"
#include "cli/bench_server_flags.h"

namespace glint {

struct OutputFlags {
  bool json = false, disable_tqdm = false, save_result = false, save_detailed = false;
  std::string result_dir, result_filename, output_file, figures, html, label;
  std::string percentile_metrics, metric_percentiles;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Output");
    v("json", json, "print one JSON object");
    v("disable-tqdm", disable_tqdm, "no bar of progress on a terminal");
    v("percentile-metrics=NAME,...", percentile_metrics,
      "latencies with percentiles in the last table and in --save-result (default: "
      "ttft,tpot,itl,e2el)");
    v("metric-percentiles=X,...", metric_percentiles,
      "percentiles of them in that table (default: 90,95,99); --json and --save-result have these "
      "and the default ones");
    v("save-result", save_result, "write a file for each measurement, with the keys of vLLM's");
    v("save-detailed", save_detailed, "with every request in it");
    v("result-dir=DIR", result_dir, "where to; it is made (default: here)");
    v("result-filename=FILE", result_filename,
      "one measurement's file (default: named as by vLLM)");
    v("output-file=FILE", output_file,
      "append a line for each measurement, with the keys of SGLang's");
    v("figures=FILE", figures,
      "write throughput and latencies, this machine and this build, as JSON");
    v("html=FILE", html, "write a page with curves, distributions and every request");
    v("label,tag=TEXT", label, "stands in all of them but --figures");
  }
};

struct BenchServeOptions : ServerFlags,
                           LoadFlags,
                           PromptFlags,
                           RequestFlags,
                           SamplingFlags,
                           LongPromptFlags,
                           OutputFlags {
  template <class Visitor>
  void visit(Visitor&& v) {
    ServerFlags::visit(v);
    LoadFlags::visit(v);
    PromptFlags::visit(v);
    RequestFlags::visit(v);
    SamplingFlags::visit(v);
    LongPromptFlags::visit(v);
    OutputFlags::visit(v);
  }
};

// Refuses numbers out of range, and options that have no meaning beside others.
Status check_options(const BenchServeOptions& options);

// The server's address, as it was written.
Result<std::string> url_of(const ServerFlags& options);

// Whether requests are chats, not completions.
bool asks_chat(const RequestFlags& options);

// Whether each measurement has a file of its own.
bool saves_results(const BenchServeOptions& options);

// Tokens of a prompt; null where prompts have lengths of their own.
Json input_len_of(const BenchServeOptions& options);

// Whether requests come at a rate or on a ramp.
bool has_rate(const LoadFlags& options);

Result<Goodput> goodput_of(const BenchServeOptions& options);
// Latencies to report, and their percentiles; empty: the usual ones.
Result<std::vector<std::string>> metrics_of(const OutputFlags& options);
Result<std::vector<double>> percentiles_of(const OutputFlags& options);
Result<Arrivals> arrivals_of(const BenchServeOptions& options);

// Each measurement has prompts of its own: the server remembers old ones.
Result<PromptOptions> prompts_of(const BenchServeOptions& options, std::uint64_t measurement);

// The streams beside long prompts.
PromptOptions streams_of(const BenchServeOptions& options, std::uint64_t measurement);

// The fields of every request.
Result<Json> fields_of(const BenchServeOptions& options);

}  // namespace glint
