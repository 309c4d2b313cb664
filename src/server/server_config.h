// ServerConfig: how the HTTP API behaves, as plain values. The command line fills it; nothing here
// knows of flags. What is served stands in ServedModel (server.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "net/http_server.h"

namespace glint {

// What a request that says nothing gets: generation_config.json, then --override-generation-config.
struct SamplingDefaults {
  double temperature = 1;
  double top_p = 1;
  int top_k = 0;  // 0: all
  double min_p = 0;
  double repetition_penalty = 1;
  std::optional<int> max_tokens = {};  // generation_config.json's max_new_tokens
};

// Which other origins may use the API from a browser. Endpoints that change the server never allow
// it.
struct CorsConfig {
  std::vector<std::string> origins = {"*"};
  std::vector<std::string> methods = {"*"};
  std::vector<std::string> headers = {"*"};
  bool allow_credentials = false;
};

enum class MetricsDialect { kVllm, kSglang };

struct LogConfig {
  bool requests = true;  // one line per request: id, sizes, times, end
  bool prompts = false;  // the line also shows prompt and answer
  int max_prompt_chars = 2048;
  bool json = false;  // lines are JSON objects
};

struct ServerConfig {
  HttpServerOptions http = {};  // host, port, limits, TLS; `error_page` is the server's own

  // Names that requests may use for the model. The first is what answers show.
  std::vector<std::string> served_names = {};
  std::string model_path = {};  // shown as "root" in /v1/models
  int max_model_len = 4096;     // prompt and answer

  // Any of these opens the API; none: it is open. /health, /ready and /ping are always free.
  std::vector<std::string> api_keys = {};
  // If there are any, endpoints that change the server want one of these instead.
  std::vector<std::string> admin_api_keys = {};
  bool admin_endpoints = true;  // false: flush_cache, update_weights ... are 404
  CorsConfig cors = {};

  SamplingDefaults sampling = {};
  std::optional<std::uint64_t> seed = {};  // of requests without one; nothing: a new one for each
  int completion_max_tokens = 16;          // of /v1/completions without max_tokens
  Json chat_template_kwargs = {};          // defaults of a request's own; null or an object
  bool higher_priority_first = false;      // SGLang's meaning of `priority`; vLLM's: lower first

  std::string reasoning_parser = "glm45";  // glm45 or glm47; empty: thoughts are content
  std::string tool_parser = "glm47";       // glm45 or glm47; empty: calls are text

  int max_logprobs = 20;
  int max_choices = 128;     // n and best_of, and prompts of one request times either
  int stream_interval = 1;   // tokens per streamed piece, after the first
  bool force_usage = false;  // streams end with usage even if they did not ask

  // A request that would wait longer is refused with 429; 0: no limit.
  double max_queue_seconds = 0;
  double drain_retry_seconds = 5;  // Retry-After while starting and draining

  int text_threads = 0;  // 0: by the number of CPUs
  bool metrics = true;
  MetricsDialect metrics_dialect = MetricsDialect::kVllm;
  LogConfig log = {};
  std::string otlp_endpoint = {};  // "http://host:4318": spans go there

  std::string version = {};
  Json info = {};  // the resolved plan, shown by /server_info
};

}  // namespace glint
