#include "eval/input_ranges.h"

#include <algorithm>
#include <limits>

#include "base/str.h"
#include "checkpoint/verify.h"

namespace glint {
namespace {

template <class T>
std::vector<float> maxima(const std::byte* data, const Tensor& x) {
  const T* values = reinterpret_cast<const T*>(data);
  std::vector<float> out;
  for (std::int64_t t = 0; t < x.dim(0); ++t)
    out.push_back(largest_or_infinity(values + t * x.stride[0], x.dim(1)));
  return out;
}

std::vector<std::int32_t> to_host(const Tensor& x, Device& device) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(x.size()));
  if (!out.empty()) device.copy_out(out.data(), x.data, out.size() * sizeof out[0]);
  return out;
}

}  // namespace

std::vector<float> row_maxima(const Tensor& x, Device& device) {
  GLINT_CHECK(x.rank == 2 && (x.dtype == DType::kF32 || x.dtype == DType::kBF16),
              "activations are f32 or bf16 [T, K], not " + x.describe());
  if (x.size() == 0) return std::vector<float>(static_cast<std::size_t>(x.dim(0)));
  const std::byte* data = x.data;
  std::vector<std::byte> copy;
  if (!device.is_host()) {
    copy.resize(((x.dim(0) - 1) * x.stride[0] + x.dim(1)) * size_of(x.dtype));
    device.copy_out(copy.data(), x.data, copy.size());
    data = copy.data();
  }
  return x.dtype == DType::kF32 ? maxima<float>(data, x) : maxima<BF16>(data, x);
}

InputRanges::InputRanges(const ModelConfig& config, const ModelWeights& weights) {
  int layer = 0;
  for (const LayerWeights& w : weights.layers) add_layer(layer++, w);
  GLINT_CHECK(layer == config.num_hidden_layers, "weights of another model");
  for (const MtpWeights& w : weights.mtp) add_layer(layer++, w.layer);
}

void InputRanges::add(const std::string& name, const void* key) {
  if (!key) return;  // a layer without an indexer, a model without shared experts
  slot_of_.emplace(key, slots_.size());
  slots_.push_back({.name = name});
}

void InputRanges::add_ffn(const std::string& prefix, const FfnWeights& w) {
  add(prefix + "gate_proj", w.gate_proj.data.data);
  add(prefix + "up_proj", w.up_proj.data.data);
  add(prefix + "down_proj", w.down_proj.data.data);
}

void InputRanges::add_layer(int layer, const LayerWeights& weights) {
  const std::string prefix = str("model.layers.", layer, "."), attention = prefix + "self_attn.";
  const AttentionWeights& a = weights.attention;
  add(attention + "q_a_proj", a.q_a_proj.data.data);
  add(attention + "q_b_proj", a.q_b_proj.data.data);
  add(attention + "kv_a_proj_with_mqa", a.kv_a_proj_with_mqa.data.data);
  add(attention + "kv_b_proj", a.w_uk[0].data.data);
  add(attention + "o_proj", a.o_proj.data.data);
  add(attention + "indexer.wq_b", a.indexer.wq_b.data.data);
  add(attention + "indexer.wk", a.indexer.wk.data.data);
  add_ffn(prefix + "mlp.", weights.mlp);
  add_ffn(prefix + "mlp.shared_experts.", weights.moe.shared_experts);
  const auto add_experts = [&](const char* projection, const std::vector<Weight>& experts) {
    for (std::size_t e = 0; e < experts.size(); ++e)
      add(str(prefix, "mlp.experts.", e, ".", projection), experts[e].data.data);
  };
  add_experts("gate_proj", weights.moe.gate_proj);
  add_experts("up_proj", weights.moe.up_proj);
  add_experts("down_proj", weights.moe.down_proj);
}

void InputRanges::see(std::size_t slot, std::span<const float> row_maxima) {
  ActivationRange& range = slots_[slot].range;
  range.tokens += static_cast<std::int64_t>(row_maxima.size());
  for (const float maximum : row_maxima) range.amax = std::max(range.amax, maximum);
  if (range.amax == std::numeric_limits<float>::infinity() && not_finite_.empty())
    not_finite_ = slots_[slot].name;
}

InputTaps InputRanges::taps(Device& device) {
  return {.linear =
              [this, &device](const LinearArgs& args) {
                const auto found = slot_of_.find(args.weight.data.data);
                if (found != slot_of_.end()) see(found->second, row_maxima(args.x, device));
              },
          .grouped_linear =
              [this, &device](const GroupedLinearArgs& args) {
                const auto found = slot_of_.find(args.weights[0].data.data);
                if (found == slot_of_.end()) return;
                const std::vector<float> sources = row_maxima(args.x, device);
                const std::vector<std::int32_t> rows = to_host(args.rows, device);
                const std::vector<std::int32_t> offsets = to_host(args.offsets, device);
                std::vector<float> of_expert;
                for (std::size_t e = 0; e < args.weights.size(); ++e) {
                  of_expert.clear();
                  for (std::int32_t r = offsets[e]; r < offsets[e + 1]; ++r)
                    of_expert.push_back(sources[rows.empty() ? r : rows[r]]);
                  see(found->second + e, of_expert);
                }
              },
          .latent =
              [this, &device](const AttentionWeights& weights, const Tensor& latent) {
                const auto found = slot_of_.find(weights.w_uk[0].data.data);
                if (found != slot_of_.end()) see(found->second, row_maxima(latent, device));
              }};
}

ActivationRanges InputRanges::ranges() const {
  ActivationRanges ranges;
  for (const Slot& slot : slots_) ranges[slot.name] = slot.range;
  return ranges;
}

Status InputRanges::check_finite() const {
  if (not_finite_.empty()) return Ok{};
  return invalid(str("the input of ", not_finite_,
                     " was NaN or infinite; `glint inspect --verify` finds NaN and infinity among "
                     "weights"));
}

}  // namespace glint
