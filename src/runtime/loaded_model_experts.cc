// A loaded model whose experts move between the ranks that share them.
#include <utility>

#include "model/move_experts.h"
#include "runtime/loaded_model.h"

namespace glint {

Status LoadedModel::prepare_moves() {
  if (!partition_.shape.moves_experts) return Ok{};
  const auto check = [](const LayerWeights& layer) {
    return layer.moe.gate ? check_movable(layer.moe) : Status(Ok{});
  };
  for (const LayerWeights& layer : weights_.layers) GLINT_TRY_STATUS(check(layer));
  for (const MtpWeights& mtp : weights_.mtp) GLINT_TRY_STATUS(check(mtp.layer));
  GLINT_TRY(moves_.tables, ExpertTables::make(config_, partition_, ops().device()));
  return Ok{};
}

void LoadedModel::move_experts(int layer, const ExpertSlots& slots) {
  const auto i = static_cast<std::size_t>(layer);
  GLINT_CHECK(moves_.tables && layer >= 0 && layer < config_.num_hidden_layers &&
                  !config_.layers[i].is_dense() && std::ssize(slots) == partition_.num_expert_slots,
              "there are no such experts to move");
  if (ranks_.followers)
    ranks_.followers->start(
        {.kind = RankCommand::Kind::kMoveExperts, .slots = slots, .layer = layer});
  const ExpertSlots before = partition_.slots_of(layer, config_.n_routed_experts);
  partition_.moved.resize(static_cast<std::size_t>(config_.num_hidden_layers));
  partition_.moved[i] = slots;
  if (!partition_.layers.holds(layer)) return;
  activity_.begin("move_experts", layer);
  glint::move_experts({before, slots}, weights_.layers[i].moe, *options_.mesh.ep, moves_.arena);
  moves_.tables->set(layer, slots, ops().device());
  activity_.end();
}

// Moves the experts back to the slots in which they were loaded.
Status LoadedModel::undo_moves() {
  if (partition_.moved.empty()) return Ok{};
  std::vector<ExpertSlots> moved = std::exchange(partition_.moved, {});
  if (Status read = is_made_up() ? Ok{} : take_weights(options_.dir); !read.ok()) {
    partition_.moved = std::move(moved);  // for the next try
    return read;
  }
  for (int i = 0; i < config_.num_hidden_layers; ++i) {
    moves_.tables->set(i, partition_.slots_of(i, config_.n_routed_experts), ops().device());
  }
  return Ok{};
}

}  // namespace glint
