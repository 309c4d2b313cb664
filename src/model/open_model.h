// The files of a checkpoint, read once: nothing is placed, and no backend is asked.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/checkpoint.h"
#include "model/config.h"

namespace glint {

// Whether memory that weights were copied from is given back to the system: pages of mapped files
// come again when they are read.
enum class Sources { kDiscard, kKeep };

struct OpenedModel {
  ModelConfig config;
  GenerationConfig generation;
  std::optional<Checkpoint> checkpoint;  // none: a configuration alone
  Sources sources = Sources::kDiscard;   // of the checkpoint

  // Whether there is a draft layer: among the weights, or without any in the configuration.
  bool has_mtp() const;
  // For one more rank.
  OpenedModel again() const;
};

enum class ModelFiles {
  kAll,
  kConfig,    // the configurations; the weights may be missing
  kIfStored,  // as kAll where there are weights, else as kConfig
};

// The model in the folder `path`; other than with kAll `path` may also be a config.json.
Result<OpenedModel> open_model(const std::string& path, ModelFiles files);

}  // namespace glint
