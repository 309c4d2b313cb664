#include "eval/input_ranges.h"

#include <algorithm>
#include <limits>

#include "base/str.h"
#include "checkpoint/verify.h"
#include "tensor/transfer.h"

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

InputRanges::InputRanges(const ModelWeights& weights) : first_slots_(weights.tensors.size()) {
  for (std::size_t id = 0; id < weights.tensors.size(); ++id) {
    const ModelTensor& tensor = weights.tensors[id];
    if (!tensor.is_quantizable || !weights.has(tensor)) continue;
    first_slots_[id] = slots_.size();
    for (int copy = 0; copy < tensor.num_copies(); ++copy)
      slots_.push_back({.name = tensor.name_of_copy(copy)});
  }
}

std::optional<std::size_t> InputRanges::slot_of(int id) const {
  return id < 0 ? std::nullopt : first_slots_[static_cast<std::size_t>(id)];
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
                if (const auto slot = slot_of(args.weight.id))
                  see(*slot, row_maxima(args.x, device));
              },
          .grouped_linear =
              [this, &device](const GroupedLinearArgs& args) {
                const auto first = slot_of(args.weights.id);
                if (!first) return;
                const std::vector<float> sources = row_maxima(args.x, device);
                const std::vector<std::int32_t> rows = download<std::int32_t>(args.rows, device);
                const std::vector<std::int32_t> offsets =
                    download<std::int32_t>(args.offsets, device);
                std::vector<float> of_expert;
                for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
                  of_expert.clear();
                  for (std::int32_t r = offsets[e]; r < offsets[e + 1]; ++r)
                    of_expert.push_back(sources[rows.empty() ? r : rows[r]]);
                  see(*first + e, of_expert);
                }
              },
          .latent =
              [this, &device](const AttentionWeights& weights, const Tensor& latent) {
                if (const auto slot = slot_of(weights.w_uk.id))
                  see(*slot, row_maxima(latent, device));
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
