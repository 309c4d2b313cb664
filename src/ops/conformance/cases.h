// Cases: what conformance runs, one source per contract. Adding an op adds a function here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/str.h"
#include "ops/capabilities.h"
#include "ops/conformance/workspace.h"

namespace glint::conformance {

// An op with its arguments bound.
struct Call {
  std::function<void()> run;
  OpCost cost = {};
};

struct Verdict {
  double error = 0;
  std::string failure = {};  // empty = conforms
};
using Outputs = std::vector<Output>;
// Compares what the backend left with what the reference left.
using Judge = std::function<Verdict(const Outputs& want, const Outputs& got, double tolerance)>;

// Floats within `tolerance` in relative L2 and without outliers, integers equal.
Verdict judge_outputs(const Outputs& want, const Outputs& got, double tolerance);

struct Case {
  std::string op;
  std::string name;
  Capabilities need = {};
  double tolerance = 0;
  std::int64_t tokens = 0;  // T, if a token can be computed alone; else 0
  std::function<Call(Workspace&)> prepare = {};
  Judge judge = judge_outputs;
  // Blocks: calls the composition of primitives in place of the backend's override.
  std::function<Call(Workspace&)> prepare_composed = {};
};

// A block with both ways to call it: prepare(workspace, composed).
template <class Prepare>
Case with_composition(Case c, Prepare prepare) {
  c.prepare = [prepare](Workspace& ws) { return prepare(ws, false); };
  c.prepare_composed = [prepare](Workspace& ws) { return prepare(ws, true); };
  return c;
}

inline constexpr DType kActivations[] = {DType::kF32, DType::kBF16};

// `tolerance` for activations of `dtype`; results in f32 are held to the f32 one.
double tolerance_of(const OpTolerance& tolerance, DType dtype);
const char* short_name(DType dtype);  // "f32", "bf16"

// With `timing`, cases of the size at which an op is worth timing; else many small ones.
using AddCases = void(std::vector<Case>& cases, bool timing);
AddCases add_elementwise_cases;
AddCases add_norm_cases;
AddCases add_rope_cases;
AddCases add_linear_cases;
AddCases add_kv_write_cases;
AddCases add_select_keys_cases;
AddCases add_sparse_mla_cases;
AddCases add_moe_cases;
AddCases add_sampling_cases;
AddCases add_sequences_cases;
AddCases add_attention_block_cases;
AddCases add_ffn_block_cases;
AddCases add_backward_row_cases;
AddCases add_backward_linear_cases;
AddCases add_backward_attention_cases;

}  // namespace glint::conformance
