// Puts a model's weights where its backend reads them best.
#pragma once

#include "base/result.h"
#include "model/open_model.h"
#include "model/weights.h"
#include "ops/backend.h"

namespace glint {

// Called with the bytes just done, of `total` to do. From any thread.
using LoadProgress = std::function<void(std::int64_t bytes, std::int64_t total)>;

// Whether weights are copied into the order of the backend's kernels. What is not copied is read
// where it is mapped: as exact, slower, and the only way to run a model that is larger than memory.
enum class Packing : std::uint8_t { kIfRoom, kAlways, kNever };

struct PackingPlan {
  Packing packing = Packing::kIfRoom;
  std::int64_t keep_free = 0;  // bytes for the cache and for steps, which come later
  Sources sources = Sources::kDiscard;
};

struct Placement {
  std::int64_t packed_bytes = 0;  // that packing takes; 0: the backend wants none
  std::int64_t available = 0;     // memory of the host that there was before
  bool is_packed = false;         // always, where the device is not the host
  // Packed, and in no list (WeightStack::each): those of another checkpoint take the same places.
  bool is_fixed = false;
  std::string formats = {};  // of all weights, in their order, before
};

// Packs them as `backend` says into one stretch of memory on its device, and gives the host's
// memory of each part back as soon as it is done, so that there are never two copies but of sources
// that are kept. On a host device `plan` decides whether it is done.
Result<Placement> place_weights(ModelWeights& weights, const PackingPlan& plan, Backend& backend,
                                ThreadPool& threads, const LoadProgress& progress);

// Puts `next`, the same model's weights of another checkpoint, into the place of `weights`, and
// where these were packed (`placement`), into their memory, so that there are never two copies but
// of sources that are kept. Fails with `weights` as they were if the formats differ.
Status replace_weights(ModelWeights& weights, ModelWeights next, const Placement& placement,
                       Sources sources, Backend& backend, ThreadPool& threads);

}  // namespace glint
