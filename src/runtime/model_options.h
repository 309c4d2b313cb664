// Which model is loaded, how, and as which rank.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "model/glm.h"
#include "model/open_model.h"
#include "model/place_weights.h"
#include "model/release.h"

namespace glint {

// In which a model computes, and its caches are.
struct NumberFormats {
  DType activations = DType::kBF16;
  LatentFormat latent = LatentFormat::kBF16;
  IndexFormat index = IndexFormat::kFp8;
};
// All in f32, or as published checkpoints compute.
inline NumberFormats formats_in(DType activations) {
  if (activations != DType::kF32) return {};
  return {DType::kF32, LatentFormat::kF32, IndexFormat::kF32};
}

struct ModelOptions {
  std::string dir;  // of the checkpoint
  // Synthetic weights in memory, as such a release has them, instead of the checkpoint's files;
  // then `dir` may also be the path of a config.json. On a device that is not the host, noise
  // (runtime/weight_noise.h); else a whole model's (model/synthetic.h), on every rank.
  std::optional<Release> dummy = {};
  NumberFormats numbers = {};
  bool with_mtp = false;  // false also when the checkpoint has no MTP layer
  Packing packing = Packing::kIfRoom;
  // Bytes that weights leave free where packing asks; none: for steps and cache of one sequence.
  std::optional<std::int64_t> keep_free = {};
  // Which rank of which layout this is; what `mesh` refers to outlives the model.
  MeshShape shape = {};
  int rank = 0;
  Mesh mesh = {};
  // Puts the caller's own in front of the groups, which are the device's by then.
  std::function<void(Mesh&)> decorate_mesh = {};
  int threads = 1;     // that load, where the backend has none of its own
  int ranks_here = 1;  // of this machine, whose memory they share
};

// The files that loading needs.
inline Result<OpenedModel> open_model(const ModelOptions& options) {
  return open_model(options.dir, options.dummy ? ModelFiles::kConfig : ModelFiles::kAll);
}

}  // namespace glint
