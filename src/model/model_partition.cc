#include "model/model_partition.h"

#include <bit>

#include "base/str.h"
#include "model/cut_weight.h"

namespace glint {

std::string describe(const MeshShape& shape) {
  std::string text;
  for (const auto& [name, size] :
       {std::pair("tp", shape.tp), std::pair("dp", shape.dp), std::pair("ep", shape.ep),
        std::pair("pp", shape.pp), std::pair("cp", shape.cp)}) {
    if (size != 1) text += str(text.empty() ? "" : ", ", name, " ", size);
  }
  return text.empty() ? "one rank" : text;
}

bool ModelPartition::holds(const ModelTensor& tensor, const ModelConfig& config,
                           bool with_mtp) const {
  if (config.is_mtp(tensor.layer)) return with_mtp && is_last();
  if (tensor.layer >= 0) return layers.holds(tensor.layer);
  if (tensor.role != TensorRole::kEmbedding) return is_last();
  const bool has_mtp = with_mtp && config.num_nextn_predict_layers > 0;
  return is_first() || (is_last() && (has_mtp || config.tie_word_embeddings));
}

bool ModelPartition::is_whole(const ModelTensor& tensor) const {
  const bool is_expert =
      tensor.role == TensorRole::kRoutedExpert || tensor.role == TensorRole::kSharedExpert;
  return tensor.split == Split::kWhole || (is_expert && !shape.cuts_experts());
}

ExpertSlots ModelPartition::slots_of(int layer, int num_experts) const {
  const auto i = static_cast<std::size_t>(layer);
  if (i < moved.size() && !moved[i].empty()) return moved[i];
  return first_slots(num_experts, num_expert_slots);
}

ExpertRange experts_of(int num_experts, int rank, int size) {
  const auto begin = [&](int r) { return static_cast<int>(std::int64_t{num_experts} * r / size); };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

namespace {

constexpr int kMostRanks = 1024;

// Slices are a whole tree on each rank, and the ranks' sums go on with it.
Status check_slices(const MeshShape& shape) {
  const int slices = shape.num_slices();
  if (shape.reduce_slices < 0 || slices > kMostRanks || slices % shape.tp ||
      !std::has_single_bit(static_cast<unsigned>(slices / shape.tp))) {
    return invalid(str("--reduce-slices is ", shape.reduce_slices, "; it must be --tp (", shape.tp,
                       ") or 2, 4, 8, .. times as many, and at most ", kMostRanks));
  }
  return Ok{};
}

// Fails unless `parts`, which --tp or --reduce-slices is, divide the size `name` of the model.
Status check_divides(bool is_tp, int parts, std::string_view name, std::int64_t size) {
  if (size % parts == 0) return Ok{};
  const auto fewer = [&](int n) { return is_tp ? n - 1 : n / 2; };
  int works = fewer(parts);
  while (size % works) works = fewer(works);
  return invalid(str(is_tp ? "tp" : "reduce-slices", " is ", parts,
                     ", but must divide the model's ", name, " (", size, "); set it to ", works));
}

Status check_division(const ModelConfig& config, const ModelPartition& plan) {
  const MeshShape& shape = plan.shape;
  const int slices = shape.num_slices();
  if (slices == 1) return Ok{};
  GLINT_TRY_STATUS(
      check_divides(true, shape.tp, "num_attention_heads", config.num_attention_heads));
  GLINT_TRY_STATUS(check_divides(true, shape.tp, "vocab_size", config.vocab_size));
  for (const ModelTensor& tensor : model_tensors(config)) {
    if (!is_summed(tensor, plan)) continue;
    GLINT_TRY_STATUS(
        check_divides(slices == shape.tp, slices, str("columns of ", tensor.name), tensor.cols));
  }
  return Ok{};
}

}  // namespace

Status check_shape(const MeshShape& shape) {
  bool fits = true;
  for (const int ranks : {shape.tp, shape.cp, shape.dp, shape.ep, shape.pp}) {
    fits = fits && ranks >= 1 && ranks <= kMostRanks;
  }
  if (!fits || shape.num_ranks() > kMostRanks) {
    return invalid(str(describe(shape), ": each must be 1 or more, and the ranks at most ",
                       kMostRanks, " in all"));
  }
  GLINT_TRY_STATUS(check_slices(shape));
  if (shape.dp % shape.cp != 0) {
    return invalid(str("cp is ", shape.cp, ", but must divide dp, which is ", shape.dp,
                       ": as many replicas share each sequence; set cp to ", shape.dp,
                       ", or dp to ", shape.cp));
  }
  const int stage = shape.tp * shape.dp;
  if (shape.ep != 1 && shape.ep != stage) {
    return invalid(str("ep is ", shape.ep, ", but experts are shared by all ", stage,
                       " ranks of a stage or by none; set ep to ",
                       stage > 1 ? str(stage, " or to 1") : "1"));
  }
  if (shape.moves_experts && shape.ep == 1) {
    return invalid("experts move between ranks that share them, but ep is 1; set it to more");
  }
  if (shape.redundant_experts < 0 || (shape.redundant_experts > 0 && !shape.moves_experts)) {
    return invalid(str("redundant experts are ", shape.redundant_experts,
                       "; they must be 0 or more, and need experts that move"));
  }
  return Ok{};
}

Result<ModelPartition> plan_partition(const ModelConfig& config, const MeshShape& shape, int rank) {
  GLINT_TRY_STATUS(check_shape(shape));
  const int copies = config.n_routed_experts * (shape.ep - 1);  // of each on every rank
  if (shape.redundant_experts > copies) {
    return invalid(str("redundant experts are ", shape.redundant_experts, ", but ", copies,
                       " put every expert on each of ", shape.ep, " ranks; set it to ", copies,
                       " or less"));
  }
  if (shape.pp > config.num_hidden_layers) {
    return invalid(str("pp is ", shape.pp, ", but the model has ", config.num_hidden_layers,
                       " layers; every stage needs one"));
  }
  if (shape.ep > config.n_routed_experts && shape.ep > 1) {
    return invalid(str("ep is ", shape.ep, ", but the model has ", config.n_routed_experts,
                       " routed experts; every rank needs one"));
  }
  const int layers = config.num_hidden_layers, last = shape.last_stage_layers;
  if (last != 0 && (shape.pp == 1 || last < 1 || layers - last < shape.pp - 1)) {
    return invalid(str("the last of ", counted(shape.pp, "stage"), " has ", last, " of ", layers,
                       " layers; every stage needs one, and the others all that are left"));
  }
  const auto first_layer = [&](int stage) {
    if (last == 0) return layers * stage / shape.pp;
    return stage == shape.pp ? layers : (layers - last) * stage / (shape.pp - 1);
  };
  const int stage = rank / (shape.tp * shape.dp), replica = rank / shape.tp % shape.dp;
  const int tp_rank = rank % shape.tp, heads = config.num_attention_heads / shape.tp;
  const int slots = config.n_routed_experts + shape.redundant_experts;
  ModelPartition plan = {
      .shape = shape,
      .stage = stage,
      .replica = replica,
      .tp_rank = tp_rank,
      .layers = {first_layer(stage), first_layer(stage + 1)},
      .experts = experts_of(slots, shape.ep == 1 ? 0 : replica * shape.tp + tp_rank, shape.ep),
      .heads = {tp_rank * heads, heads},
      .num_expert_slots = slots};
  GLINT_TRY_STATUS(check_division(config, plan));
  return plan;
}

}  // namespace glint
