// The environment variables that glint reads: all of them, once, here.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

struct Environment {
  bool no_color = false;             // NO_COLOR is set and not empty, or TERM is "dumb"
  std::string omp_num_threads = {};  // OMP_NUM_THREADS; empty if unset

  // Where models of the Hugging Face hub lie: HF_HUB_CACHE, or "hub" below HF_HOME, or below
  // XDG_CACHE_HOME/huggingface, or below ~/.cache/huggingface.
  std::string hf_hub_cache = {};
  std::string hf_endpoint = {};  // HF_ENDPOINT; empty: the hub's own
  std::string hf_token = {};     // HF_TOKEN, or what HF_TOKEN_PATH or "token" below HF_HOME holds
  bool hf_offline = false;       // HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE

  std::string tmp_dir = "/tmp";  // TMPDIR
  std::string home = {};         // HOME, for the history of `glint chat`
  std::string api_key = {};      // GLINT_API_KEY, else VLLM_API_KEY: of a server, or to send to one

  std::map<std::string, std::string> all = {};  // every variable, for those who know more names

  // "NAME=value" of variables that other servers and their libraries read, sorted.
  std::vector<std::string> foreign = {};
};

Environment read_environment();

// The number of threads to use: `threads` if it is given, else OMP_NUM_THREADS, else one for each
// CPU that this process may use. Fails if the number is not in 1 .. 1024.
Result<int> resolve_threads(std::optional<int> threads, const Environment& environment);

}  // namespace glint
