#include "model/expert_tables.h"

#include "base/str.h"

namespace glint {

Result<ExpertTables> ExpertTables::make(const ModelConfig& config, const ModelPartition& partition,
                                        Device& device) {
  ExpertTables tables;
  tables.num_experts_ = config.n_routed_experts;
  const std::int64_t E = config.n_routed_experts, P = partition.num_expert_slots;
  const int layers = config.num_hidden_layers + config.num_nextn_predict_layers;
  const auto bytes = static_cast<std::size_t>(layers * (E + 1 + P) * size_of(DType::kI32));
  tables.memory_ = device.allocate(bytes);
  if (!tables.memory_.data()) {
    return exhausted(
        str("no room on ", device.name(), " for tables of experts that move (", bytes, " bytes)"));
  }
  std::byte* at = tables.memory_.data();
  const auto take = [&at](std::int64_t n) {
    const Tensor tensor(at, DType::kI32, {n});
    at += n * size_of(DType::kI32);
    return tensor;
  };
  for (int i = 0; i < layers; ++i) {
    Layer& layer = tables.layers_.emplace_back();
    layer.first = take(E + 1);
    layer.copies = take(P);
    tables.set(i, partition.slots_of(i, config.n_routed_experts), device);
  }
  return tables;
}

void ExpertTables::set(int layer, const ExpertSlots& slots, Device& device) {
  const Layer& to = layers_[static_cast<std::size_t>(layer)];
  const ExpertCopies of = copies_of(slots, num_experts_);
  device.copy_in(to.first.data, of.first.data(), to.first.bytes().size());
  device.copy_in(to.copies.data, of.copies.data(), to.copies.bytes().size());
}

}  // namespace glint
