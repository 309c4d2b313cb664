#include "runtime/weight_noise.h"

#include <algorithm>

#include "base/random.h"
#include "base/str.h"
#include "tensor/fp8.h"

namespace glint {
namespace {

constexpr std::size_t kNumbers = (std::size_t{1} << 22) + 3 * 256;
constexpr float kDeviation = 0.02f;
constexpr float kCodeDeviation = 32;   // of fp8 codes, whose blocks have one scale
constexpr float kNibbleDeviation = 3;  // of e2m1 codes, each as likely

class Noise {
 public:
  explicit Noise(Device& device) : device_(device) {
    Random random(1);
    std::vector<float> numbers(kNumbers);
    for (float& number : numbers) number = static_cast<float>(random.normal());
    floats_ = stretch<float>([&](std::size_t i) { return kDeviation * numbers[i]; });
    halves_ = stretch<BF16>([&](std::size_t i) { return to_bf16(kDeviation * numbers[i]); });
    codes_ = stretch<std::uint8_t>(
        [&](std::size_t i) { return float_to_e4m3(kCodeDeviation * numbers[i]); });
    nibbles_ = stretch<std::uint8_t>(
        [&](std::size_t) { return static_cast<std::uint8_t>(random.below(256)); });
    ones_ = stretch<BF16>([](std::size_t) { return to_bf16(1.0f); });
    code_ones_ = stretch<std::uint8_t>([](std::size_t) { return float_to_e4m3(1.0f); });
    code_scales_ = stretch<float>([](std::size_t) { return kDeviation / kCodeDeviation; });
    nibble_scales_ = stretch<float>([](std::size_t) { return kDeviation / kNibbleDeviation; });
  }

  void fill(const Tensor& tensor) {
    if (!tensor) return;
    const bool is_norm = tensor.dtype == DType::kBF16 && tensor.rank == 1;
    fill(tensor, tensor.dtype == DType::kF32 ? floats_ : is_norm ? ones_ : halves_);
  }
  template <class Weights>  // Weight or WeightStack
  void fill(const Weights& w) {
    switch (w.format) {
      case WeightFormat::kF32:
      case WeightFormat::kBF16:
        return fill(w.data);
      case WeightFormat::kFp8Block:
        fill(w.data, codes_);
        return fill(w.scale, code_scales_);
      case WeightFormat::kNvfp4:
        fill(w.data, nibbles_);
        fill(w.scale, code_ones_);
        return fill(w.global_scale, nibble_scales_);
    }
  }

 private:
  template <class T, class At>
  Buffer stretch(At&& at) {
    std::vector<T> values(kNumbers);
    for (std::size_t i = 0; i < kNumbers; ++i) values[i] = at(i);
    Buffer buffer = device_.allocate(kNumbers * sizeof(T));
    GLINT_CHECK(buffer.data() != nullptr, "no memory for a few million numbers");
    device_.copy_in(buffer.data(), values.data(), kNumbers * sizeof(T));
    return buffer;
  }
  void fill(const Tensor& tensor, const Buffer& from) {
    const std::size_t bytes = tensor.bytes().size();
    for (std::size_t at = 0; at < bytes; at += from.bytes()) {
      device_.copy(tensor.data + at, from.data(), std::min(from.bytes(), bytes - at));
    }
  }

  Device& device_;
  Buffer floats_, halves_, codes_, nibbles_, ones_, code_ones_, code_scales_, nibble_scales_;
};

}  // namespace

Result<ModelWeights> make_up_weights(const ModelConfig& config, const ModelPartition& partition,
                                     const NullWeightOptions& options, Device& device) {
  ModelWeights weights = null_weights(config, partition, options, device);
  for (const Buffer& buffer : weights.owned) {
    if (buffer.data()) continue;
    return exhausted(str("no room on ", device.name(), " for the weights of a rank (",
                         describe(partition.shape),
                         "); more ranks, or a smaller format, need less"));
  }
  Noise noise(device);
  visit(weights, [&](const ModelTensor&, Held held) {
    struct Fill {
      Noise& noise;
      void operator()(Tensor* x) const { noise.fill(*x); }
      void operator()(Weight* w) const { noise.fill(*w); }
      void operator()(WeightStack* w) const { noise.fill(*w); }
      void operator()(KvHalves w) const { noise.fill(*w.w_uk), noise.fill(*w.w_uv); }
    };
    std::visit(Fill{noise}, held);
  });
  device.synchronize();
  return weights;
}

}  // namespace glint
