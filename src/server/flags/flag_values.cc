// Values of other servers' flags as those of glint's options, by the names that files of flags use.

#include "base/contains.h"
#include "base/str.h"
#include "server/flags/flag_table.h"

namespace glint {
namespace {

using Converted = FlagRule::Converted;

Result<Converted> dtype(const std::string& value) {
  if (value == "auto") return Converted{};
  if (contains({"bf16", "bfloat16"}, value)) return Converted{"bf16"};
  if (contains({"f32", "float32", "float"}, value)) return Converted{"f32"};
  return invalid(str("dtype ", quoted(value), " is not computed in here; use bfloat16 or float32"));
}

Result<Converted> kv_dtype(const std::string& value) {
  if (value == "auto") return Converted{};
  if (contains({"bf16", "bfloat16"}, value)) return Converted{"bf16"};
  if (contains({"fp8", "fp8_e4m3", "fp8_ds_mla"}, value)) return Converted{"fp8"};
  if (contains({"f32", "float32"}, value)) return Converted{"f32"};
  return invalid(str("a KV cache in ", quoted(value), " is not available; use bf16, fp8 or auto"));
}

Result<Converted> load_format(const std::string& value) {
  if (value.starts_with("dummy")) return Converted{value};
  if (contains({"auto", "safetensors"}, value)) return Converted{"auto"};
  if (contains({"fastsafetensors", "runai_streamer", "instanttensor", "prefetch"}, value))
    return Converted{"auto", "safetensors files are mapped"};
  return invalid(str("load format ", quoted(value),
                     " is not available; checkpoints are safetensors (auto), or dummy"));
}

Result<Converted> switch_only_on(const std::string& value) {
  if (value == "-1") return Converted{{}, "prompts are always cut into steps"};
  return Converted{value};
}

Result<Converted> page_size(const std::string& value) {
  if (value == "64") return Converted{};
  return Converted{{}, "pages hold 64 tokens, as the sparse attention of this model needs"};
}

Result<Converted> not_auto(const std::string& value) {
  if (contains({"auto", "none", "None", "null"}, value)) return Converted{};
  return Converted{value};
}

constexpr const char* kWholeGraphs = "decode steps are CUDA graphs, whole, and others are not";

Result<Converted> graph_mode(const std::string& value) {
  if (contains({"none", "disabled"}, lower(value))) return Converted{"true"};
  return Converted{{}, kWholeGraphs};
}

// Level 0 compiles nothing and records nothing.
Result<Converted> graph_level(const std::string& value) {
  if (value == "0") return Converted{"true"};
  return Converted{{}, kWholeGraphs};
}

Result<Converted> only_nccl(const std::string& value) {
  if (lower(value) == "nccl") return Converted{"true"};
  return Converted{{}, "sums in one shot or two are chosen by their size"};
}

Result<Converted> log_level(const std::string& value) {
  if (contains({"critical", "internal_error"}, value)) return Converted{"error"};
  if (contains({"verbose", "trace"}, value)) return Converted{"debug"};
  return Converted{value};
}

// TensorRT-LLM's own values; the rest are glint's.
Result<Converted> backend(const std::string& value) {
  if (contains({"pytorch", "tensorrt", "trt", "autodeploy", "_autodeploy"}, value))
    return Converted{{}, "glint is the backend"};
  return Converted{value};
}

Result<Converted> no_template(const std::string& value) {
  if (contains({"auto", "string", "openai"}, value)) return Converted{};
  return invalid(
      str("chat template content format ", quoted(value), " is none of auto, string, openai"));
}

// vLLM's and SGLang's words; the rest are glint's.
Result<Converted> sampling_defaults(const std::string& value) {
  if (contains({"vllm", "openai"}, value)) return Converted{"none"};
  if (value == "model") return Converted{"auto"};
  return Converted{value};
}

Result<Converted> only_raw(const std::string& value) {
  if (value == "raw_logprobs") return Converted{{}, "log-probabilities are the model's own"};
  return invalid(
      str("log-probabilities are the model's own, raw_logprobs, and not ", quoted(value)));
}

Result<Converted> no_adapters(const std::string& value) {
  return invalid(str("there are no adapters, so nothing would be served as ", quoted(value),
                     "; merge it into the checkpoint, or leave the flag out"));
}

// Flags that would make another model of the checkpoint.
Result<Converted> own_config(const std::string& value) {
  return invalid(str("the checkpoint is read as it is, so ", quoted(value),
                     " would not count; change its config.json, or leave the flag out"));
}

// Flags that say what kind of server it is.
Result<Converted> generates(const std::string& value) {
  if (contains({"auto", "generate", "none", "false"}, value)) return Converted{value};
  return invalid(str("it is a server of one language model, and ", quoted(value),
                     " asks for another kind; leave the flag out"));
}

Result<Converted> no_processors(const std::string& value) {
  return invalid(str("there is no Python, so ", quoted(value),
                     " would not change logits; leave the flag out, and let requests have "
                     "logit_bias or a grammar"));
}

// Flags by which another server lets only some connect.
Result<Converted> open_to_all(const std::string& value) {
  return invalid(str(quoted(value),
                     " is not available, and without it the server is open to everybody who "
                     "reaches its port; use --host, --api-key or a proxy"));
}

Result<Converted> no_client_certificates(const std::string& value) {
  if (value == "0") return Converted{value};
  return open_to_all(value);
}

Result<Converted> whole_pieces(const std::string&) {
  return invalid(
      "pieces of a stream of /generate hold all before them, and not only what is new; leave the "
      "flag out, and cut them");
}

Result<Converted> some_blanks(const std::string&) {
  return invalid(
      "blanks in JSON are bounded, and not forbidden; leave the flag out, or ask for a "
      "grammar without them");
}

constexpr std::pair<std::string_view, FlagRule::Convert> kFunctions[] = {
    {"dtype", dtype},
    {"kv_dtype", kv_dtype},
    {"load_format", load_format},
    {"switch_only_on", switch_only_on},
    {"page_size", page_size},
    {"not_auto", not_auto},
    {"graph_mode", graph_mode},
    {"graph_level", graph_level},
    {"only_nccl", only_nccl},
    {"log_level", log_level},
    {"backend", backend},
    {"no_template", no_template},
    {"sampling_defaults", sampling_defaults},
    {"only_raw", only_raw},
    {"no_adapters", no_adapters},
    {"own_config", own_config},
    {"generates", generates},
    {"no_processors", no_processors},
    {"open_to_all", open_to_all},
    {"whole_pieces", whole_pieces},
    {"some_blanks", some_blanks},
    {"no_client_certificates", no_client_certificates},
};

}  // namespace

FlagRule::Convert flag_value(std::string_view name) {
  for (const auto& [each, convert] : kFunctions) {
    if (each == name) return convert;
  }
  return nullptr;
}

}  // namespace glint
