// Opens a quantised checkpoint as the engines would, and says what they would stumble over.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "quant/unit_encoder.h"

namespace glint {

class ThreadPool;

struct CheckedTensor {
  std::string name;  // a matrix, without ".weight"
  TensorRole role = TensorRole::kNorm;
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t weights = 0;
  ErrorSum error;  // against the source; empty without one
};

struct OutputCheck {
  std::vector<CheckedTensor> tensors;
  std::vector<std::string> faults;     // a sentence each
  std::vector<std::string> unchecked;  // what could not be judged, and why
  std::int64_t bytes = 0;              // of all tensors
};

struct CheckOptions {
  std::string dir, source;  // source: empty, or what `dir` was made from
};

// Checks:
//   names, shapes and types of all weights; complete sets of scales, none negative or infinite;
//   gate and up of one expert, and q_a and kv_a, with equal weight_scale_2 and input_scale;
//   the index: every tensor once, total_size in bytes; the manifest's hashes, if there is one;
//   that config.json and hf_quant_config.json agree with each other, and that vLLM's and SGLang's
//   reading of their lists agrees with the tensors (of compressed-tensors only if the list names
//   modules one by one, not by regular expressions);
//   that the fields that name formats say those of the tensors;
//   that no value is NaN or infinite;
//   and with a source, how far each matrix moved: not at all where it is stored as before.
// Fails only on what cannot be opened. `done` gets the bytes just read, of bytes_to_check().
using CheckProgress = std::function<void(std::int64_t bytes)>;
Result<OutputCheck> check_output(const CheckOptions& options, ThreadPool& pool,
                                 const CheckProgress& done);
Result<std::int64_t> bytes_to_check(const CheckOptions& options);

}  // namespace glint
