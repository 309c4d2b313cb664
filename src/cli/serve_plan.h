// From what the user said and what the checkpoint is to what runs: a pure function, after which
// nothing is "auto" and nothing changes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/serve_options.h"
#include "engine/engine.h"
#include "model/config.h"
#include "runtime/serve_memory.h"
#include "server/flags/translate_flags.h"
#include "server/server_config.h"

namespace glint {

// Inputs of the plan besides the options.
struct ServeFacts {
  ModelConfig config;
  GenerationConfig generation;
  std::string dir;                // the checkpoint's
  std::string formats;            // of its matrices, as stored: "bf16", "fp8 bf16", "nvfp4 bf16"
  bool has_mtp = false;           // the MTP layer's weights are there
  int max_drafts = 0;             // of --spec
  std::int64_t asked_length = 0;  // of --max-model-len; 0: as long as the model allows
  std::vector<std::string> environment_keys = {};  // API keys from the environment
  std::string host_name = {};                      // of this machine
  ServeMemory memory;
  FittedShape ranks = {};
};

struct ServePlan {
  ServerConfig server;
  EngineOptions engine;
  int max_model_len = 0;
  // The table that is printed: name, value; and its lines.
  std::vector<std::pair<std::string, std::string>> rows;
  std::vector<std::string> lines() const;
};

// Refuses numbers that no server can have, and of which plan_serve() makes no plan.
Status check_serve_options(const ServeOptions& options);

// Tokens of one step at most. By default a GPU, whose kernels want more rows, takes more of them.
int step_tokens(const ServeOptions& options);

// The most log-probabilities of a token that requests may ask for: at most the vocabulary.
int max_logprobs(const ServeOptions& options, const ModelConfig& config);

// Where a server of these options is reached.
std::string url_of(const HttpServerOptions& http, int port);

// Wishes about the size of the cache beside a more exact one (plan_cache), which holds.
std::vector<std::string> ignored_cache_wishes(const ServeOptions& options);

// Options of the balance of experts that are given, and experts stay (--enable-eplb).
std::vector<std::string> ignored_balance(const ServeOptions& options, const TranslatedArgs& given);

// Refuses, in one sentence that names both values, what contradicts the checkpoint or itself.
Result<ServePlan> plan_serve(const ServeOptions& options, const TranslatedArgs& given,
                             const ServeFacts& facts);

// "32768", "32k" (32,000), "32K" (32,768), "1M", "auto" or "-1" (0: as long as the model allows).
Result<std::int64_t> parse_length(const std::string& text);

// "512M", "4G", "1073741824": bytes, binary units.
Result<std::int64_t> parse_bytes(const std::string& text);

}  // namespace glint
