#include <numeric>
#include <vector>

#include "backends/cuda/testing/device_checks.h"
#include "backends/cuda/testing/device_values.h"

namespace glint::cuda {
namespace {

std::string dense_ffn_equals_its_composition_to_the_bit(Ops& ops) {
  Device& device = ops.device();
  Arena scratch(device);
  for (const auto& [hidden, inter] : {std::pair{1024, 2048}, {72, 33}}) {
    const Values gate(device, inter, hidden, 9), up(device, inter, hidden, 10);
    const Values down(device, hidden, inter, 11), norm(device, 1, hidden, 12);
    const FfnWeights weights = {gate.weight(), up.weight(), down.weight()};
    for (const std::int64_t rows : kRowCounts) {
      const Values<float> x(device, rows, hidden, 13), same_x(device, rows, hidden, 13);
      const Values delta(device, rows, hidden, 14), same_delta(device, rows, hidden, 14);
      DenseFfnArgs args = {.weights = weights, .norm = norm.vector(), .eps = 1e-5f};
      args.x = x.tensor(), args.delta = delta.tensor();
      ops.dense_ffn(args, scratch);
      args.x = same_x.tensor(), args.delta = same_delta.tensor();
      ops.Ops::dense_ffn(args, scratch);
      const std::string what = str(rows, " rows of ", hidden, " by ", inter);
      auto difference = compare_bits(device, (what + ": x").c_str(), x.tensor(), same_x.tensor());
      if (difference.empty()) {
        difference =
            compare_bits(device, (what + ": delta").c_str(), delta.tensor(), same_delta.tensor());
      }
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

// As it is called, in a graph, whose branches run beside each other, and in the parts of ranks.
std::string moe_has_the_same_bits_in_a_graph_and_in_parts(Ops& ops) {
  constexpr std::int64_t kHidden = 1024, kInter = 512, kExperts = 16;
  Device& device = ops.device();
  Arena scratch(device);
  const Values router(device, kExperts, kHidden, 50), norm(device, 1, kHidden, 51);
  const Values<float> bias(device, 1, kExperts, 52);
  const auto stack = [&](const Values<>& all, std::int64_t rows, std::int64_t cols) {
    return WeightStack{.format = WeightFormat::kBF16,
                       .count = kExperts,
                       .rows = rows,
                       .cols = cols,
                       .data = Tensor(all.tensor().data, DType::kBF16, {kExperts, rows, cols})};
  };
  const Values gate(device, kExperts * kInter, kHidden, 53),
      up(device, kExperts * kInter, kHidden, 54), down(device, kExperts * kHidden, kInter, 55);
  const Values shared_gate(device, kInter, kHidden, 56), shared_up(device, kInter, kHidden, 57),
      shared_down(device, kHidden, kInter, 58);
  MoeWeights weights;
  weights.gate = router.weight(), weights.e_score_correction_bias = bias.vector();
  weights.gate_proj = stack(gate, kInter, kHidden), weights.up_proj = stack(up, kInter, kHidden);
  weights.down_proj = stack(down, kHidden, kInter);
  weights.shared_experts = {shared_gate.weight(), shared_up.weight(), shared_down.weight()};
  for (const std::int64_t rows : kRowCounts) {
    const auto run = [&](const Values<float>& x, const Values<>& delta, auto call) {
      const MoeArgs args = {.weights = weights,
                            .norm = norm.vector(),
                            .eps = 1e-5f,
                            .num_experts_per_tok = 4,
                            .routed_scaling_factor = 2.5f,
                            .x = x.tensor(),
                            .delta = delta.tensor()};
      call(args);
    };
    const Values<float> x(device, rows, kHidden, 59);
    const Values delta(device, rows, kHidden, 60);
    run(x, delta, [&](const MoeArgs& args) { ops.moe(args, scratch); });
    for (const bool recorded : {true, false}) {
      const Values<float> same_x(device, rows, kHidden, 59);
      const Values same_delta(device, rows, kHidden, 60);
      run(same_x, same_delta, [&](const MoeArgs& args) {
        if (!recorded) return ops.Ops::moe(args, scratch);
        device.capture([&] { ops.moe(args, scratch); });  // and runs it
      });
      const std::string what = str(rows, recorded ? " rows in a graph: " : " rows in parts: ");
      auto difference = compare_bits(device, (what + "x").c_str(), same_x.tensor(), x.tensor());
      if (difference.empty()) {
        difference =
            compare_bits(device, (what + "delta").c_str(), same_delta.tensor(), delta.tensor());
      }
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

// attention_in in a graph has the bits that it has outside, over caches in bf16.
std::string attention_in_has_the_same_bits_in_a_graph(Ops& ops) {
  constexpr int kHidden = 1024, kQuery = 256, kHeads = 4, kLatent = 512, kRope = 64, kWidth = 256,
                kKeyHeads = 8, kKey = 128, kMostRows = 700;
  constexpr std::int64_t kSlots = 11 * kPageSize;
  Device& device = ops.device();
  Arena scratch(device);
  const Values input_norm(device, 1, kHidden, 61), query_norm(device, 1, kQuery, 62),
      latent_norm(device, 1, kLatent, 63);
  const Values q_a(device, kQuery, kHidden, 64), q_b(device, kHeads * kWidth, kQuery, 65),
      kv_a(device, kLatent + kRope, kHidden, 66), wq_b(device, kKeyHeads * kKey, kQuery, 67),
      wk(device, kKey, kHidden, 68), weights_proj(device, kKeyHeads, kHidden, 69);
  const Values<float> k_norm(device, 1, kKey, 70), k_bias(device, 1, kKey, 71),
      angles(device, kMostRows, kRope, 72);
  const AttentionDims dims = {.heads = kHeads,
                              .qk_nope_head_dim = kWidth - kRope,
                              .qk_rope_head_dim = kRope,
                              .v_head_dim = 256,
                              .kv_lora_rank = kLatent,
                              .index_n_heads = kKeyHeads,
                              .index_head_dim = kKey,
                              .index_topk = 64,
                              .rms_norm_eps = 1e-5f,
                              .softmax_scale = 0.0625f};
  const AttentionWeights weights = {.input_layernorm = input_norm.vector(),
                                    .q_a_proj = q_a.weight(),
                                    .q_a_layernorm = query_norm.vector(),
                                    .q_b_proj = q_b.weight(),
                                    .kv_a_proj_with_mqa = kv_a.weight(),
                                    .kv_a_layernorm = latent_norm.vector(),
                                    .indexer = {.wq_b = wq_b.weight(),
                                                .wk = wk.weight(),
                                                .weights_proj = weights_proj.weight(),
                                                .k_norm = k_norm.vector(),
                                                .k_norm_bias = k_bias.vector()}};
  std::vector<std::int32_t> ascending(kMostRows);
  std::iota(ascending.begin(), ascending.end(), 0);
  const Buffer positions = device.allocate(kMostRows * 4);  // and slots
  device.copy_in(positions.data(), ascending.data(), kMostRows * 4);
  for (const std::int64_t rows : kRowCounts) {
    struct Written {
      Values<float> x;
      Values<> latents, keys, q, index_q;
      Values<float> index_weights;
    };
    const auto make = [&]() -> Written {
      return {{device, rows, kHidden, 73},          {device, kSlots, kLatent + kRope, 74},
              {device, kSlots, kKey, 75},           {device, rows, kHeads * kWidth, 76},
              {device, rows, kKeyHeads * kKey, 77}, {device, rows, kKeyHeads, 78}};
    };
    const Values delta(device, rows, kHidden, 79);
    const auto run = [&](const Written& w) {
      const Tensor numbers(positions.data(), DType::kI32, {rows});
      BatchView batch = {};
      batch.positions = batch.slots = numbers;
      batch.rope_table = angles.tensor();
      ops.attention_in({.dims = dims,
                        .weights = weights,
                        .x = w.x.tensor(),
                        .delta = delta.tensor(),
                        .batch = batch,
                        .latent_cache = {.data = w.latents.tensor().data,
                                         .format = LatentFormat::kBF16,
                                         .num_slots = kSlots,
                                         .latent_dim = kLatent,
                                         .rope_dim = kRope},
                        .index_cache = {.data = w.keys.tensor().data,
                                        .format = IndexFormat::kBF16,
                                        .num_slots = kSlots,
                                        .dim = kKey},
                        .q = w.q.tensor().heads(kHeads),
                        .index_q = w.index_q.tensor().heads(kKeyHeads),
                        .index_weights = w.index_weights.tensor()},
                       scratch);
    };
    const Written called = make(), recorded = make();
    run(called);
    device.capture([&] { run(recorded); });  // and runs it
    const auto compare = [&](const char* name, const auto& a, const auto& b) {
      return compare_bits(device, str(name, " of ", rows, " rows in a graph").c_str(), a.tensor(),
                          b.tensor());
    };
    for (const std::string& difference :
         {compare("x", recorded.x, called.x), compare("latents", recorded.latents, called.latents),
          compare("keys", recorded.keys, called.keys), compare("q", recorded.q, called.q),
          compare("index_q", recorded.index_q, called.index_q),
          compare("index_weights", recorded.index_weights, called.index_weights)}) {
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

}  // namespace

std::vector<DeviceCheck> block_checks() {
  return {
      {"dense_ffn_equals_its_composition_to_the_bit", dense_ffn_equals_its_composition_to_the_bit},
      {"moe_has_the_same_bits_in_a_graph_and_in_parts",
       moe_has_the_same_bits_in_a_graph_and_in_parts},
      {"attention_in_has_the_same_bits_in_a_graph", attention_in_has_the_same_bits_in_a_graph}};
}

}  // namespace glint::cuda
