// ServerConfig: how the HTTP API behaves, as plain values. The command line fills it; nothing here
// knows of flags. What is served stands in ServedModel (server.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "engine/sampling_params.h"
#include "net/http_server.h"
#include "text/grammar/grammar_service.h"

namespace glint {

enum class MetricsDialect { kVllm, kSglang };

struct LogConfig {
  bool requests = true;  // one line per request: id, sizes, times, end
  bool prompts = false;  // the line also shows prompt and answer
};

// Lines, numbers and spans that tell of the work.
struct ReportConfig {
  LogConfig log = {};
  MetricsDialect metrics = MetricsDialect::kVllm;
  std::string otlp_endpoint = {};  // "http://host:4318": spans go there
};

// How thoughts and calls are told from the answer.
struct ParserNames {
  std::string reasoning = "glm45";  // glm45 or glm47; empty: thoughts are content
  std::string tools = "glm47";      // glm45 or glm47; empty: calls are text
};

// Keys, origins and names that open the API.
struct AccessConfig {
  // Any of these opens the API; none: it is open. The page, /metrics, and what asks for health are
  // always free.
  std::vector<std::string> api_keys = {};
  // If there are any, endpoints that change the server want one of these instead.
  std::vector<std::string> admin_api_keys = {};
  // Other origins that may use the API from a browser; "*": all. Endpoints that change the server
  // never allow it.
  std::vector<std::string> allowed_origins = {"*"};
  // Names of this server, in lower case, that browsers may call it by besides localhost and
  // addresses; "*": any.
  std::vector<std::string> allowed_hosts = {};
};

// Values for a request that says nothing of its own.
struct RequestDefaults {
  SamplingParams sampling = {};
  std::optional<std::uint64_t> seed = {};  // nothing: a new one for each
  Json chat_template_kwargs = {};          // null or an object
  int stream_interval = 1;                 // tokens per streamed piece, after the first
};

// For trainers that let the server answer.
struct TrainerConfig {
  // From the name of /update_weights_from_disk to a directory; null: it is one.
  std::function<Result<std::string>(const std::string&)> find_model = {};
  // The checksum (checkpoint/checksum.h) of the weights in a directory; null: none are told.
  std::function<Result<std::string>(const std::string& dir)> checksum_of = {};
  // The checksum of the program: one build has the same bits everywhere. Null: it is not told.
  std::function<Result<std::string>()> build = {};
};

struct ServerConfig {
  HttpServerOptions http = {};  // host, port, limits, TLS; `error_page` is the server's own

  // Names that requests may use for the model. The first is what answers show.
  std::vector<std::string> served_names = {};
  std::size_t num_listed_names = 1;  // how many of them /v1/models lists, at most
  std::string model_path = {};       // shown as "root" in /v1/models
  int max_model_len = 4096;          // prompt and answer

  AccessConfig access = {};
  std::string profile_dir = {};  // where /stop_profile writes; empty: no profiles
  TrainerConfig trainers = {};
  // Special tokens in what users and tools say are text.
  bool plain_content = false;

  RequestDefaults defaults = {};
  bool higher_priority_first = false;  // SGLang's meaning of `priority`; vLLM's: lower first

  ParserNames parsers = {};
  int max_logprobs = 20;

  // A request that would wait longer is refused with 429; 0: no limit.
  double max_queue_seconds = 0;

  // A stream on which nothing comes says within this time that it is still there.
  double keep_alive_seconds = 10;

  int text_threads = 2;  // for requests and for events: at least one each
  GrammarServiceOptions grammars = {};
  ReportConfig report = {};

  std::string version = {};
  Json info = {};  // the resolved plan, shown by /server_info
};

}  // namespace glint
