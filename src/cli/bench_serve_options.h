// The options of `glint bench serve`, and what they add up to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "bench/results.h"

namespace glint {

struct ServerFlags {
  std::optional<std::string> url;
  std::string base_url, host, endpoint;
  std::optional<int> port;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("URL", url, "of the server (default: http://127.0.0.1:8000)");
    v.section("Server");
    v("base-url=URL", base_url, "the server, instead of URL");
    v("host=HOST", host, "its host, instead of a URL (default: 127.0.0.1)");
    v("port=N", port, "its port (default: 8000)");
    v("endpoint=PATH", endpoint,
      "where requests go (default: /v1/completions, or /v1/chat/completions as --backend says)");
  }
};

struct LoadFlags {
  std::vector<int> concurrency;
  std::optional<std::string> request_rate;
  double burstiness = 1, ramp_up_start_rps = 0, ramp_up_end_rps = 0;
  std::string ramp_up_strategy = "none";
  std::optional<int> num_prompts;
  int num_warmups = 0;
  std::vector<std::string> goodput;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Load");
    v("concurrency,c,max-concurrency=N,...", concurrency,
      "requests at once, at most; several are measured one after the other (default: "
      "1,8,64,256,1024; with --request-rate or a ramp any number; beside long prompts 8)");
    v("request-rate=X", request_rate,
      "requests come at this rate per second; inf: all at once, or -c of them (default: inf)");
    v("burstiness=X", burstiness,
      "shape of the gaps between them: 1 is a Poisson process, less is burstier, more is more "
      "even");
    v("ramp-up-strategy", ramp_up_strategy, "how the rate goes from its start to its end",
      {"none", "linear", "exponential"});
    v("ramp-up-start-rps=X", ramp_up_start_rps, "rate at the first request");
    v("ramp-up-end-rps=X", ramp_up_end_rps, "rate at the last");
    v("num-prompts=N", num_prompts,
      "requests of each measurement (default: two for each that runs at once, at least 32; with a "
      "rate 100)");
    v("num-warmups,warmup-requests=N", num_warmups,
      "requests before each measurement, which do not count");
    v("goodput=METRIC:MS", goodput,
      "count answers within these limits, of ttft, tpot and e2el: ttft:500 tpot:50");
  }
};

struct PromptFlags {
  std::string dataset_name = "random", dataset_path;
  std::optional<int> input_len, output_len;
  std::optional<std::string> random_range_ratio;
  std::string range_dialect = "vllm";
  int random_prefix_len = 0, num_prefixes = 1, max_turns = 1;
  std::optional<int> vocab;
  std::uint64_t seed = 0;
  std::optional<int> check;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Prompts");
    v("dataset-name", dataset_name, "prompts drawn at random, or a file of conversations",
      {"random", "sharegpt"});
    v("dataset-path=FILE", dataset_path,
      "the file: conversations of ShareGPT or messages of chat, a JSON list or one a line");
    v("input-len,random-input-len=N", input_len,
      "tokens of a prompt drawn at random, words where --backend is a chat (default: 128)");
    v("output-len,random-output-len,sharegpt-output-len=N", output_len,
      "tokens of an answer (default: 64, beside long prompts 1024, of a file what its answers "
      "have)");
    v("random-range-ratio=X", random_range_ratio,
      "how much lengths vary, as --range-dialect means it, or '{\"input\": X, \"output\": Y}' "
      "(default: not at all)");
    v("range-dialect", range_dialect,
      "vllm: from len*(1-X) to len*(1+X); sglang: from len*X to len", {"vllm", "sglang"});
    v("random-prefix-len=N", random_prefix_len,
      "tokens that prompts have in common, before their own");
    v("num-prefixes=N", num_prefixes, "how many such beginnings there are");
    v("vocab=N", vocab, "draw tokens from ids below this (default: 1024)");
    v("max-turns=N", max_turns,
      "questions of a conversation, each asked with the answers before it, in a chat");
    v("seed", seed, "other seeds are other prompts and times");
    v("check=N", check,
      "ask so many answers again, alone and not streamed, and compare their tokens (default: 8; 0 "
      "where prompts are text or come at a rate, or the temperature is not 0)");
  }
};

struct RequestFlags {
  std::string backend = "openai", model;
  std::optional<bool> ignore_eos;
  bool token_ids = true;
  std::string tools, extra_body, ca_file, tokenizer;
  bool trust_remote_code = false;
  double timeout = HttpClientOptions().read_seconds;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Requests");
    v("backend,endpoint-type", backend,
      "completions or, with -chat, chat completions, by the names of vLLM's and SGLang's "
      "benchmarks; all of a kind ask the same",
      {"openai", "openai-chat", "vllm", "vllm-chat", "sglang-oai", "sglang-oai-chat"});
    v("model", model, "the model's name (default: the first that the server lists)");
    v("ignore-eos", ignore_eos,
      "answers have exactly the length that was asked for (default: unless requests have tools, "
      "since a call ends an answer)");
    v("token-ids", token_ids, "ask for the ids of tokens, which show what drafts bring");
    v("tools=FILE", tools, "JSON list of tools that every request of a chat has");
    v("extra-body,extra-request-body=JSON", extra_body,
      "fields of every request, such as '{\"top_p\": 0.9}'; they replace what options say");
    v("timeout=SECONDS", timeout, "a request fails of which nothing comes for so long");
    v("tokenizer=NAME", tokenizer, "read and not used: the server counts tokens");
    v("trust-remote-code", trust_remote_code, "read and not used: no code is fetched");
    v("ca-file=FILE", ca_file, "PEM file of roots to trust (default: this machine's)");
  }
};

struct SamplingFlags {
  std::optional<double> temperature, top_p, min_p;
  std::optional<int> top_k;
  std::optional<double> frequency_penalty, presence_penalty, repetition_penalty;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Sampling, left to the server where no value is given");
    v("temperature=X", temperature,
      "of every request (default: 0, unless --extra-body says another, or null for the server's)");
    v("top-p=X", top_p, "from the likeliest tokens that make up this probability");
    v("top-k=N", top_k, "from this many of the likeliest tokens");
    v("min-p=X", min_p, "from tokens of at least this share of the likeliest one's probability");
    v("frequency-penalty=X", frequency_penalty, "for each time that a token was in the answer");
    v("presence-penalty=X", presence_penalty, "for tokens that were in the answer");
    v("repetition-penalty=X", repetition_penalty, "for tokens of the prompt and the answer");
  }
};

struct LongPromptFlags {
  int long_prompt = 0, repeat = 5;
  double pause = 1;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Long prompts");
    v("long-prompt=N", long_prompt,
      "instead: let streams decode, send prompts of N tokens one at a time, and compare the gaps "
      "between tokens with those of plain decoding");
    v("repeat=N", repeat, "how many long prompts");
    v("pause=SECONDS", pause, "plain decoding before each");
  }
};

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
