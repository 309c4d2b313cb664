// log_probs and cross_entropy: a thread block for each row, with sums in f64.
#include "backends/cuda/backward/backward.h"
#include "backends/cuda/reduce.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 512;

// Sums over a row's exponentials e[i] = exp((logits[i] - largest) / temperature).
struct RowSums {
  float largest, cool;
  double chosen, others;  // of the target; of all others
  double wanted;          // log of `chosen`, also where that is 0
  double weighted;        // sum of e[i] * log e[i]

  __device__ float log_of(float logit) const { return (logit - largest) * cool; }
  __device__ double sum() const { return others + chosen; }
  __device__ double log_prob() const {
    return chosen > 0 ? -log1p(others / chosen) : wanted - log(sum());
  }
  __device__ double entropy() const { return log(sum()) - weighted / sum(); }
};

__device__ RowSums sums_of(const float* logits, std::int64_t columns, std::int32_t target,
                           float cool) {
  float largest = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < columns; i += kBlock) {
    largest = fmaxf(largest, logits[i]);
  }
  RowSums s = {.largest = block_max<kBlock>(largest), .cool = cool};
  double others = 0, weighted = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += kBlock) {
    const float log = s.log_of(logits[i]), e = expf(log);
    if (i != target) others += e;
    if (e > 0) weighted += double{e} * log;
  }
  const auto add = [](double a, double b) { return a + b; };
  s.wanted = s.log_of(logits[target]);
  s.chosen = expf(s.log_of(logits[target]));
  s.others = block_reduce<kBlock>(others, add);
  s.weighted = block_reduce<kBlock>(weighted, add);
  return s;
}

__global__ void __launch_bounds__(kBlock)
    log_probs(const float* logits, std::int64_t stride, std::int64_t columns,
              const std::int32_t* targets, float cool, float* log_probs, float* entropies) {
  const std::int64_t r = blockIdx.x;
  const std::int32_t target = targets[r];
  if (target < 0) {
    if (threadIdx.x == 0) log_probs[r] = entropies[r] = 0;
    return;
  }
  const RowSums s = sums_of(logits + r * stride, columns, target, cool);
  if (threadIdx.x > 0) return;
  log_probs[r] = static_cast<float>(s.log_prob());
  entropies[r] = static_cast<float>(s.entropy());
}

struct Loss {
  float* logits;
  std::int64_t stride, columns;
  const std::int32_t* targets;
  const float *scales, *entropy_scales;  // entropy_scales: null for zeros
  float temperature;
  float* log_probs;
};

__global__ void __launch_bounds__(kBlock) cross_entropy(const Loss l) {
  const std::int64_t r = blockIdx.x;
  const std::int32_t target = l.targets[r];
  float* const z = l.logits + r * l.stride;
  if (target < 0) {
    for (std::int64_t i = threadIdx.x; i < l.columns; i += kBlock) z[i] = 0;
    if (threadIdx.x == 0) l.log_probs[r] = 0;
    return;
  }
  const RowSums s = sums_of(z, l.columns, target, 1 / l.temperature);
  const double sum = s.sum(), scale = double{l.scales[r]} / l.temperature;
  const double entropy_scale = l.entropy_scales ? double{l.entropy_scales[r]} / l.temperature : 0;
  const auto each = static_cast<float>(scale / sum);
  const auto at_target = static_cast<float>(-scale * s.others / sum);
  // p (log p + H), where log p is that of the exponential, less that of the sum.
  const double shift = s.entropy() - log(sum);
  for (std::int64_t i = threadIdx.x; i < l.columns; i += kBlock) {
    const float exponent = s.log_of(z[i]), e = expf(exponent);
    const float by_target = i == target ? at_target : e * each;
    const double by_entropy = entropy_scale != 0 && e > 0 ? e / sum * (exponent + shift) : 0;
    z[i] = static_cast<float>(by_target + entropy_scale * by_entropy);
  }
  if (threadIdx.x == 0) l.log_probs[r] = static_cast<float>(s.log_prob());
}

}  // namespace

void launch_log_probs(const LogProbsArgs& args, const Gpu& gpu) {
  if (args.logits.dim(0) == 0) return;
  log_probs<<<static_cast<unsigned>(args.logits.dim(0)), kBlock, 0, gpu.stream>>>(
      args.logits.ptr<float>(), args.logits.stride[0], args.logits.dim(1),
      args.targets.ptr<std::int32_t>(), 1 / args.temperature, args.log_probs.ptr<float>(),
      args.entropies.ptr<float>());
}

void launch_cross_entropy(const CrossEntropyArgs& args, const Gpu& gpu) {
  if (args.logits.dim(0) == 0) return;
  const Loss loss = {
      .logits = args.logits.ptr<float>(),
      .stride = args.logits.stride[0],
      .columns = args.logits.dim(1),
      .targets = args.targets.ptr<std::int32_t>(),
      .scales = args.scales.ptr<float>(),
      .entropy_scales = args.entropy_scales ? args.entropy_scales.ptr<float>() : nullptr,
      .temperature = args.temperature,
      .log_probs = args.log_probs.ptr<float>()};
  cross_entropy<<<static_cast<unsigned>(args.logits.dim(0)), kBlock, 0, gpu.stream>>>(loss);
}

}  // namespace glint::cuda
