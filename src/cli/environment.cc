#include "cli/environment.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "base/file.h"
#include "base/parse_number.h"
#include "base/str.h"
#include "base/thread_pool.h"

namespace glint {
namespace {

constexpr int kMaxThreads = 1024;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As Python finds it where the variable is not set: in the table of users.
std::string home() {
  std::string path = variable("HOME");
  if (!path.empty()) return path;
  const struct passwd* const user = ::getpwuid(::getuid());
  return user && user->pw_dir ? user->pw_dir : "";
}

// "~" and "~/..." as the hub's own library reads them, from variables that no shell has expanded.
std::string directory(const char* name) {
  std::string path = variable(name);
  if (path == "~" || path.starts_with("~/")) path.replace(0, 1, home());
  return path;
}

std::string hf_home() {
  if (std::string home = directory("HF_HOME"); !home.empty()) return home;
  std::string cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = home() + "/.cache";
  return cache + "/huggingface";
}

std::string hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (std::string cache = directory(name); !cache.empty()) return cache;
  }
  return hf_home() + "/hub";
}

bool is_true(const char* name) {
  const std::string value = lower(variable(name));
  return value == "1" || value == "on" || value == "yes" || value == "true";
}

std::string hub_token() {
  std::string token = variable("HF_TOKEN");
  if (token.empty()) token = variable("HUGGING_FACE_HUB_TOKEN");
  if (token.empty() && !is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
    std::string path = directory("HF_TOKEN_PATH");
    if (path.empty()) path = hf_home() + "/token";
    if (Result<std::string> text = read_file(path, 4096); text.ok()) token = text.value();
  }
  return std::string(trimmed(token, " \r\n"));
}

// Variables of vLLM, SGLang, TensorRT-LLM and what they stand on.
std::vector<std::string> foreign_variables(const std::map<std::string, std::string>& all) {
  std::vector<std::string> out;
  for (const auto& [name, value] : all) {
    for (const std::string_view prefix : {"NCCL_", "VLLM_", "SGLANG_", "SGL_", "TRTLLM_", "TLLM_",
                                          "TRT_LLM_", "SAFETENSORS_FAST_GPU", "TORCH_", "PYTORCH_",
                                          "FLASHINFER_", "DG_JIT_", "TRITON_", "NVTE_"}) {
      if (name.starts_with(prefix) && name != "VLLM_API_KEY") out.push_back(name + "=" + value);
    }
  }
  return out;
}

std::string api_key() {
  std::string key = variable("GLINT_API_KEY");
  return key.empty() ? variable("VLLM_API_KEY") : key;
}

std::map<std::string, std::string> all_variables() {
  std::map<std::string, std::string> all;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view entry = *at;
    if (const std::size_t equals = entry.find('='); equals != entry.npos)
      all.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return all;
}

}  // namespace

Environment read_environment() {
  const std::string tmp_dir = variable("TMPDIR");
  std::map<std::string, std::string> all = all_variables();
  std::vector<std::string> foreign = foreign_variables(all);
  return {.no_color = !variable("NO_COLOR").empty() || variable("TERM") == "dumb",
          .omp_num_threads = variable("OMP_NUM_THREADS"),
          .hf_hub_cache = hub_cache(),
          .hf_endpoint = variable("HF_ENDPOINT"),
          .hf_token = hub_token(),
          .hf_offline = is_true("HF_HUB_OFFLINE") || is_true("TRANSFORMERS_OFFLINE"),
          .tmp_dir = tmp_dir.empty() ? "/tmp" : tmp_dir,
          .home = home(),
          .api_key = api_key(),
          .all = std::move(all),
          .foreign = std::move(foreign)};
}

Result<int> resolve_threads(std::optional<int> asked, const Environment& environment) {
  std::string source = "--threads";
  int threads = asked.value_or(0);
  std::string text = str(threads);
  if (!asked) {
    if (environment.omp_num_threads.empty()) return available_cpus();
    source = "OMP_NUM_THREADS";
    text = split(environment.omp_num_threads, ',').front();  // "4,2" is 4, and 2 in nested regions
    threads = parse_number<int>(text).value_or(0);
  }
  if (threads < 1 || threads > kMaxThreads) {
    return invalid(str(source, " expects a number of threads from 1 to ", kMaxThreads, ", got ",
                       quoted(text)));
  }
  return threads;
}

}  // namespace glint
