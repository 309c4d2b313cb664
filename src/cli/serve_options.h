// Options of `glint serve`, section by section. Flags and files of other servers become these
// (server/flags).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/rank_env.h"
#include "cli/rank_options.h"

namespace glint {

// Where the server listens, and who may call it.
struct ListenOptions {
  std::string host = "127.0.0.1";
  int port = 8000;
  std::vector<std::string> served_model_name, api_key, admin_api_key, allowed_origins,
      allowed_hosts;
  std::string profile_dir;
  bool plain_content = false;
  std::string api_key_file, ssl_certfile, ssl_keyfile;
  double max_body_mb = 64;
  int max_connections = 16384;
  double shutdown_timeout = 60;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Server");
    v("host", host, "address to listen on; 0.0.0.0 is every one");
    v("port,p=N", port, "port to listen on; 0 takes a free one");
    v("served-model-name=NAME", served_model_name,
      "more names that requests may call the model by; repeatable");
    v("api-key=KEY", api_key,
      "requests must carry one of these keys; repeatable (environment: "
      "GLINT_API_KEY, VLLM_API_KEY)");
    v("api-key-file=FILE", api_key_file, "the same, a key on each line");
    v("admin-api-key=KEY", admin_api_key,
      "key for what changes the server (weights, pausing, profiles); default: any API key");
    v("ssl-certfile,ssl-cert-file=FILE", ssl_certfile, "serve HTTPS with this PEM chain");
    v("ssl-keyfile,ssl-key-file=FILE", ssl_keyfile, "its private key");
    v("allowed-origins=ORIGIN", allowed_origins,
      "origins of web pages that may call the server; repeatable (default: *, every one)");
    v("allowed-hosts=NAME", allowed_hosts,
      "more names by which browsers, and what changes the server without a key, may call it; "
      "repeatable (localhost, addresses, --host and this machine's name always may; *: any)");
    v("profile-dir=DIR", profile_dir, "folder for what /start_profile records");
    v("plain-content", plain_content,
      "read special tokens in what users and tools say as text (as other servers do, they are read "
      "as tokens otherwise)");
    v("max-body-mb=X", max_body_mb, "largest request body");
    v("max-connections", max_connections, "connections at once");
    v("shutdown-timeout=SECONDS", shutdown_timeout,
      "how long the first SIGTERM lets answers go on; the second ends at once");
  }
};

// Steps of the engine, and the requests that wait for them.
struct ScheduleOptions {
  std::string max_model_len = "auto";
  int max_num_seqs = 64;
  std::optional<int> max_num_batched_tokens;
  int max_queued_requests = 1024;
  double max_queue_seconds = 0;
  bool prefix_caching = true;
  std::optional<double> step_slowdown;
  double watchdog_timeout = 300;
  std::string priority_order = "lower";

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Engine");
    v("max-model-len,context-length,max-seq-len=N", max_model_len,
      "longest prompt and answer together, in tokens (32k, 1M; auto or -1: what the model has, as "
      "far as memory allows)");
    v("max-num-seqs,max-running-requests,max-batch-size", max_num_seqs,
      "requests that run at once, of all replicas");
    v("max-num-batched-tokens,max-num-tokens", max_num_batched_tokens,
      "tokens of one step at most, of each replica (default: 2048, on GPUs and as trtllm-serve "
      "8192)");
    v("max-queued-requests,max-num-queued-reqs", max_queued_requests,
      "requests that may wait; beyond, 429");
    v("max-queue-seconds=X", max_queue_seconds,
      "refuse with 429 what would have to wait longer than this; 0: never");
    v("prefix-caching,enable-prefix-caching", prefix_caching,
      "reuse the cache of equal beginnings of prompts");
    v("step-slowdown=X", step_slowdown,
      "a step with prompt tokens may take X times as long as one without; 0: no limit (default: 2, "
      "or 20 ms if that is longer)");
    v("priority-order", priority_order, "which `priority` of requests runs first",
      {"lower", "higher"});
    v("watchdog-timeout=SECONDS", watchdog_timeout,
      "end the program when a step takes longer; 0: never");
  }
};

// Memory of the KV cache.
struct CacheMemoryOptions {
  std::optional<double> gpu_memory_utilization, mem_fraction_static, free_memory_fraction;
  std::string kv_cache_memory;
  std::optional<int> kv_cache_tokens;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Memory for the KV cache");
    v("kv-cache-memory,kv-cache-memory-bytes=BYTES", kv_cache_memory,
      "exactly this much (4G, 512M)");
    v("kv-cache-tokens,max-total-tokens=N", kv_cache_tokens,
      "this many tokens, in whole pages of 64, of each replica (SGLang's meaning)");
    v("gpu-memory-utilization=X", gpu_memory_utilization,
      "share of all memory for weights, activations and cache (vLLM's meaning)");
    v("mem-fraction-static=X", mem_fraction_static,
      "share of all memory for weights and cache (SGLang's meaning)");
    v("free-gpu-memory-fraction,memory-fraction=X", free_memory_fraction,
      "share of what is free after loading for the cache (TensorRT-LLM's meaning)");
  }
};

// How prompts and answers are read and written.
struct AnswerOptions {
  std::string reasoning_parser = "auto", tool_call_parser = "auto";
  std::string chat_template, default_chat_template_kwargs;
  int stream_interval = 1, max_logprobs = 20;
  std::string generation_config = "auto", override_generation_config;
  std::optional<std::uint64_t> seed;
  double grammar_timeout = 5;
  std::string grammar_memory = "512M";

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Answers");
    v("reasoning-parser=NAME", reasoning_parser,
      "how thinking is told from the answer: auto, glm45, glm47, none");
    v("tool-call-parser,tool-parser=NAME", tool_call_parser,
      "how calls are found: auto, glm45, glm47, none");
    v("chat-template=FILE", chat_template,
      "a Jinja template instead of the checkpoint's: a file, or the text itself");
    v("default-chat-template-kwargs=JSON", default_chat_template_kwargs,
      "arguments of the template that requests may override");
    v("stream-interval", stream_interval, "tokens in one streamed piece");
    v("max-logprobs", max_logprobs,
      "most top_logprobs that a request may ask for; -1: all tokens (vLLM's meaning)");
    v("generation-config", generation_config,
      "sampling defaults: the model's generation_config.json, or none of it", {"auto", "none"});
    v("override-generation-config=JSON", override_generation_config,
      "sampling defaults that win over these (vLLM's meaning)");
    v("grammar-timeout=SECONDS", grammar_timeout,
      "processor time that compiling one grammar of structured output may take; beyond, 400");
    v("grammar-memory=BYTES", grammar_memory, "and memory (512M, 2G)");
    v("seed,random-seed=N", seed, "for requests without a seed (default: a new one for each)");
  }
};

struct ReportOptions {
  bool log_requests = false, log_prompts = false, log_stats = true;
  std::string log_format = "text", metrics_dialect = "vllm", otlp_traces_endpoint;
  int text_threads = 2;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Reports");
    v("log-requests,enable-log-requests", log_requests,
      "log each request (no keys, and of its text what a refusal quotes)");
    v("log-prompts", log_prompts, "with --log-requests: the line also shows prompt and answer");
    v("log-stats", log_stats, "log speed and load every ten seconds while there is work");
    v("log-format", log_format, "lines for people or JSON for machines", {"text", "json"});
    v("metrics-dialect", metrics_dialect, "names of the metrics", {"vllm", "sglang"});
    v("otlp-traces-endpoint=URL", otlp_traces_endpoint,
      "send traces there (OTLP over HTTP, http://host:4318/v1/traces)");
    v("text-threads", text_threads, "threads for templates, tokens and JSON");
  }
};

struct ServeOptions : RunOptions,
                      LayoutOptions,
                      BalanceOptions,
                      NodeOptions,
                      ListenOptions,
                      ScheduleOptions,
                      CacheMemoryOptions,
                      AnswerOptions,
                      ReportOptions {
  std::string revision;
  bool dry_run = false;
  std::string quantization;
  std::string spec;

  template <class Visitor>
  void visit(Visitor&& v) {
    RunOptions::visit(v);
    v("revision=NAME", revision, "branch, tag or commit of an id in the Hugging Face cache");
    v("dry-run", dry_run,
      "print what would run and the plan of its memory, load nothing, and end (exit code 1 if it "
      "does not fit)");
    v("quantization,q=NAME", quantization,
      "refuse to start if the checkpoint is not in this format (fp8, modelopt_fp4, "
      "compressed-tensors)");
    v("spec=mtp:K", spec,
      "let the model's MTP layer guess up to K tokens a step, fewer where few guesses are right; "
      "answers stay the same");
    LayoutOptions::visit(v);
    BalanceOptions::visit(v);
    NodeOptions::visit(v);
    ListenOptions::visit(v);
    ScheduleOptions::visit(v);
    CacheMemoryOptions::visit(v);
    AnswerOptions::visit(v);
    ReportOptions::visit(v);
  }
};

}  // namespace glint
