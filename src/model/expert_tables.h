// ExpertTables: which slots hold each routed expert, on the device, where experts move between
// ranks.
#pragma once

#include <vector>

#include "model/model_partition.h"
#include "tensor/device.h"
#include "tensor/tensor.h"

namespace glint {

class ExpertTables {
 public:
  struct Layer {
    Tensor first = {};   // [E + 1] i32
    Tensor copies = {};  // [slots] i32: PickCopiesArgs
  };

  // The tables of all layers of `config`, MTP layers included, with the slots of `partition`.
  static Result<ExpertTables> make(const ModelConfig& config, const ModelPartition& partition,
                                   Device& device);

  const Layer& layer(int i) const { return layers_[static_cast<std::size_t>(i)]; }
  // Passes that are asked for from now on see these.
  void set(int layer, const ExpertSlots& slots, Device& device);

 private:
  ExpertTables() = default;

  Buffer memory_;
  int num_experts_ = 0;
  std::vector<Layer> layers_;
};

}  // namespace glint
