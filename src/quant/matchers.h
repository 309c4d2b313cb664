// How vLLM and SGLang read the list of modules that a checkpoint leaves unquantised.
//
// Both ask about modules of their own, not of the checkpoint: gate and up are one "gate_up_proj",
// q_a and kv_a one "fused_qkv_a_proj", and the experts of a layer are one "mlp.experts". The list
// of a checkpoint has to give the right answer for each of these in both engines.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/tensor_table.h"

namespace glint {

// Two matrices that engines load as one: "P.gate_proj" and "P.up_proj", "P.q_a_proj" and
// "P.kv_a_proj_with_mqa". Nothing if `name` is in no such pair.
struct FusedPair {
  std::string first, second;
};
std::optional<FusedPair> fused_pair(std::string_view name);

enum class ServingEngine : std::uint8_t { kVllm, kSglang };
inline constexpr ServingEngine kServingEngines[] = {ServingEngine::kVllm, ServingEngine::kSglang};
const char* name_of(ServingEngine engine);  // "vLLM", "SGLang"

// A module as `engine` names it, and what it is made from.
struct EngineModule {
  std::string name;
  std::vector<std::size_t> tensors;  // numbers in the table; one, or those that are fused
};

// The modules of all linear layers of `table`, the head among them. The embedding is none: engines
// never ask about it, and quantisers that list linear layers leave it out.
std::vector<EngineModule> engine_modules(ServingEngine engine,
                                         const std::vector<ModelTensor>& table);

// True if `engine` leaves `module` unquantised. Patterns are names or globs, as ModelOpt's lists
// are; `excludes` is exclude_modules or ignore.
bool engine_excludes(ServingEngine engine, std::span<const std::string> excludes,
                     std::string_view module);

// engine_excludes() of an FP8 checkpoint, whose list holds names alone: no engine reads globs
// there. SGLang takes a name also for all that is below it, or that has it between its dots.
bool engine_excludes_fp8(ServingEngine engine, std::span<const std::string> excludes,
                         std::string_view module);

// The modules that `engine` would take for quantised and are not, or the other way round;
// `quantized` is [table.size()].
std::vector<std::string> misread_modules(ServingEngine engine,
                                         std::span<const std::string> excludes,
                                         const std::vector<ModelTensor>& table,
                                         const std::vector<bool>& quantized);

// The list for a ModelOpt checkpoint: wildcards for what is unquantised as a whole, names for
// routers and single layers.
std::vector<std::string> modelopt_excludes(const ModelConfig& config,
                                           const std::vector<ModelTensor>& table,
                                           const std::vector<bool>& quantized);

// The names of all unquantised linear layers, one by one, as FP8 and compressed-tensors descriptors
// list them. The routed experts of a layer are one entry, "model.layers.3.mlp.experts", or as a
// regular expression "re:model\\.layers\\.3\\.mlp\\.experts\\..*".
enum class ExpertsEntry : std::uint8_t { kName, kRegex };
std::vector<std::string> explicit_excludes(const std::vector<ModelTensor>& table,
                                           const std::vector<bool>& quantized,
                                           ExpertsEntry experts);

}  // namespace glint
