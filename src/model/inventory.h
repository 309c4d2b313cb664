// Inventory: what a checkpoint holds, compared with what its config implies.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/tensor_table.h"

namespace glint {

struct Inventory {
  struct Row {
    TensorRole role = TensorRole::kNorm;
    std::string format;  // "bf16", "fp8", "nvfp4", "f32"
    std::int64_t tensors = 0;
    std::int64_t parameters = 0;
    std::int64_t bytes = 0;  // scales included
  };
  std::vector<Row> rows;  // by role, then format
  bool has_mtp = false;   // the config announces an MTP layer and some of it is there

  // Weights that the config implies and that are not there; none of an MTP layer that is absent.
  std::vector<std::string> missing;
  std::vector<std::string> extra;    // stored tensors that nothing uses
  std::vector<std::string> ignored;  // known, and not needed (input_scale, ...)
  std::vector<std::string> faults;   // a sentence for each weight that is there and cannot be used
  // How many of both are not the MTP layer's: these come first.
  std::size_t num_main_missing = 0, num_main_faults = 0;
  std::int64_t bytes = 0;  // of all stored tensors

  // Fails on the first fault or missing weight of the model, or of the model `with_mtp`, as loading
  // would. `name`: of the checkpoint.
  Status check_complete(const std::string& name, bool with_mtp) const;
  std::map<std::string, std::int64_t> bytes_by_format() const;
};

// True if the config announces an MTP layer and some of its own weights are there: files that other
// programs saved often lack all of it.
bool holds_mtp_layer(const ModelConfig& config, const TensorSource& source);

// A model with tied embeddings that ships its head is run with that, as transformers runs it.
void keep_own_head(ModelConfig& config, const Checkpoint& checkpoint);

// The tensors that `config` implies, without the MTP layer's where `source` has none of them.
std::vector<ModelTensor> model_tensors(ModelConfig config, const TensorSource& source);

// Looks at names, types, shapes and scalar scales, not at the weights. Fails if the config implies
// more tensors than any checkpoint has.
Result<Inventory> take_inventory(const ModelConfig& config, Checkpoint& checkpoint);

// Inventory::extra alone, by names only: quick also for a checkpoint of many files.
Result<std::vector<std::string>> unused_tensors(const ModelConfig& config, Checkpoint& checkpoint);

// A sentence for people about such tensors of `dir`, and what becomes of them; empty if there are
// none. They are worth it: a config that announces too few layers runs, and answers nonsense.
std::string describe_unused(const std::string& dir, const std::vector<std::string>& unused,
                            std::string_view fate = "not used");

}  // namespace glint
