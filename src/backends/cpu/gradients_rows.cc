// Backward passes of what works on rows, and the loss. In f32, with sums in eight lanes whose order
// the row's length fixes.
#include <algorithm>
#include <cmath>

#include "backends/cpu/cpu_gradients.h"
#include "backends/cpu/for_rows.h"
#include "base/ceil_div.h"

namespace glint {
namespace {

constexpr int kLanes = 8;
constexpr std::int64_t kBlock = 64;  // tokens that a part of a weight's gradient is of

// sum over i of f(i), i < n.
template <class F>
float sum_in_lanes(std::int64_t n, F f) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int j = 0; j < kLanes; ++j) lanes[j] += f(i + j);
  }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  for (; i < n; ++i) sum += f(i);
  return sum;
}

}  // namespace

std::unique_ptr<Gradients> CpuOps::make_gradients() {
  return std::make_unique<CpuGradients>(*this, products_.kernels(), pool_);
}

const float* CpuGradients::floats_of_row(const Tensor& x, std::int64_t t,
                                         std::vector<float>& copy) const {
  if (x.dtype == DType::kF32) return x.row<float>(t);
  copy.resize(static_cast<std::size_t>(x.dim(-1)));
  kernels_.convert(x.row<BF16>(t), true, copy.data(), false, x.dim(-1));
  return copy.data();
}

void CpuGradients::add_back(const AddBackArgs& args) {
  check(args);
  const std::int64_t D = args.dx.dim(1);
  cpu::for_rows(pool_, args.dx.dim(0), D, [&](std::int64_t t, int) {
    const float* const from = args.dx.row<float>(t);
    float* const to = args.dy.row<float>(t);
    for (std::int64_t d = 0; d < D; ++d) to[d] += from[d];
  });
}

void CpuGradients::silu_mul_back(const SiluMulBackArgs& args) {
  check(args);
  const std::int64_t D = args.dout.dim(1);
  cpu::for_rows(pool_, args.dout.dim(0), D, [&](std::int64_t t, int) {
    std::vector<float> gates, ups;
    const float* const gate = floats_of_row(args.op.gate, t, gates);
    const float* const up = floats_of_row(args.op.up, t, ups);
    float* const g = args.dout.row<float>(t);
    float* const dgate = args.dgate.row<float>(t);
    float* const dup = args.dup.row<float>(t);
    for (std::int64_t d = 0; d < D; ++d) {
      const float v = gate[d], s = 1 / (1 + std::exp(-v)), grad = g[d];
      g[d] = 0;  // may be dgate
      dup[d] += grad * v * s;
      dgate[d] += grad * up[d] * s * (1 + v * (1 - s));
    }
  });
}

Tensor CpuGradients::take_parts(const RmsNormBackArgs& args, Arena& scratch) {
  const std::int64_t blocks = ceil_div(args.dout.dim(0), kBlock);
  return scratch.take(DType::kF32, {std::max<std::int64_t>(blocks, 1), args.dout.dim(1)});
}

void CpuGradients::rms_norm_back(const RmsNormBackArgs& args) {
  check(args);
  const Arena::Scope scope(scratch_);
  const std::int64_t T = args.dout.dim(0), D = args.dout.dim(1);
  const std::int64_t blocks = ceil_div(T, kBlock);
  std::vector<float> weights(static_cast<std::size_t>(D));
  kernels_.convert(args.op.weight.data, args.op.weight.dtype == DType::kBF16, weights.data(), false,
                   D);
  const Tensor parts = take_parts(args, scratch_);
  cpu::for_rows(pool_, blocks, kBlock * D, [&](std::int64_t block, int) {
    std::vector<float> copy, g(static_cast<std::size_t>(D));
    float* const part = parts.row<float>(block);
    std::fill_n(part, D, 0.0f);
    for (std::int64_t t = block * kBlock; t < std::min(T, (block + 1) * kBlock); ++t) {
      const float* const x = floats_of_row(args.op.x, t, copy);
      float* const dout = args.dout.row<float>(t);
      std::copy_n(dout, D, g.data());
      std::fill_n(dout, D, 0.0f);  // may be dx
      const float squares = sum_in_lanes(D, [&](std::int64_t d) { return x[d] * x[d]; });
      const float along = sum_in_lanes(D, [&](std::int64_t d) { return x[d] * weights[d] * g[d]; });
      const float r = 1 / std::sqrt(squares / static_cast<float>(D) + args.op.eps);
      const float back = r * r * r / static_cast<float>(D) * along;
      float* const dx = args.dx.row<float>(t);
      for (std::int64_t d = 0; d < D; ++d) {
        dx[d] += r * weights[d] * g[d] - x[d] * back;
        part[d] += g[d] * x[d] * r;
      }
      if (!args.ddelta) continue;
      float* const ddelta = args.ddelta.row<float>(t);
      for (std::int64_t d = 0; d < D; ++d) ddelta[d] += dx[d];
    }
  });
  for (std::int64_t block = 0; args.dweight && block < blocks; ++block) {
    const float* const part = parts.row<float>(block);
    for (std::int64_t d = 0; d < D; ++d) args.dweight.ptr<float>()[d] += part[d];
  }
}

void CpuGradients::combine_back(const CombineBackArgs& args) {
  check(args);
  const std::int64_t k = args.op.places.dim(1), D = args.op.y.dim(1);
  cpu::for_rows(pool_, args.dout.dim(0), k * D, [&](std::int64_t t, int) {
    std::vector<float> copy;
    float* const g = args.dout.row<float>(t);
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int32_t place = args.op.places.row<std::int32_t>(t)[j];
      if (place < 0) continue;
      GLINT_CHECK(place < args.op.y.dim(0), "a place beyond y");
      const float* const y = floats_of_row(args.op.y, place, copy);
      const float weight = args.op.weights.row<float>(t)[j];
      float* const dy = args.dy.row<float>(place);
      for (std::int64_t d = 0; d < D; ++d) dy[d] += weight * g[d];
      args.dweights.row<float>(t)[j] +=
          sum_in_lanes(D, [&](std::int64_t d) { return g[d] * y[d]; });
    }
    if (args.dshared) {
      float* const dshared = args.dshared.row<float>(t);
      for (std::int64_t d = 0; d < D; ++d) dshared[d] += g[d];
    }
    std::fill_n(g, D, 0.0f);
  });
}

namespace {

// Sums over a row's exponentials e[i] = exp((logits[i] - largest) / temperature).
struct RowSums {
  double chosen = 0, others = 0;  // of the target; of all others
  float wanted = 0;               // log of `chosen`, also where that is 0
  double weighted = 0;            // sum of e[i] * log e[i]

  double sum() const { return others + chosen; }
  double log_prob() const {
    return chosen > 0 ? -std::log1p(others / chosen) : wanted - std::log(sum());
  }
  double entropy() const { return std::log(sum()) - weighted / sum(); }
};

// Leaves the exponentials in `e` if that is given; it may be `logits`.
RowSums sums_of(const float* logits, std::int64_t V, std::int32_t target, float cool, float* e) {
  const float largest = *std::max_element(logits, logits + V);
  RowSums sums = {.wanted = (logits[target] - largest) * cool};
  for (std::int64_t i = 0; i < V; ++i) {
    const float log = (logits[i] - largest) * cool, exp = std::exp(log);
    if (i == target) {
      sums.chosen = exp;
    } else {
      sums.others += exp;
    }
    if (exp > 0) sums.weighted += double{exp} * log;
    if (e) e[i] = exp;
  }
  return sums;
}

}  // namespace

void CpuGradients::log_probs(const LogProbsArgs& args) {
  check(args);
  const std::int64_t V = args.logits.dim(1);
  cpu::for_rows(pool_, args.logits.dim(0), V, [&](std::int64_t r, int) {
    const std::int32_t target = args.targets.ptr<std::int32_t>()[r];
    float& log_prob = args.log_probs.ptr<float>()[r];
    float& entropy = args.entropies.ptr<float>()[r];
    log_prob = entropy = 0;
    if (target < 0) return;
    GLINT_CHECK(target < V, "a target beyond the vocabulary");
    const RowSums sums =
        sums_of(args.logits.row<float>(r), V, target, 1 / args.temperature, nullptr);
    log_prob = static_cast<float>(sums.log_prob());
    entropy = static_cast<float>(sums.entropy());
  });
}

void CpuGradients::cross_entropy(const CrossEntropyArgs& args) {
  check(args);
  const std::int64_t V = args.logits.dim(1);
  cpu::for_rows(pool_, args.logits.dim(0), V, [&](std::int64_t r, int) {
    float* const p = args.logits.row<float>(r);
    const std::int32_t target = args.targets.ptr<std::int32_t>()[r];
    float& log_prob = args.log_probs.ptr<float>()[r];
    if (target < 0) {
      std::fill_n(p, V, 0.0f);
      log_prob = 0;
      return;
    }
    GLINT_CHECK(target < V, "a target beyond the vocabulary");
    const RowSums sums = sums_of(p, V, target, 1 / args.temperature, p);
    log_prob = static_cast<float>(sums.log_prob());
    const double sum = sums.sum();
    const double scale = double{args.scales.ptr<float>()[r]} / args.temperature;
    const double entropy_scale =
        args.entropy_scales ? double{args.entropy_scales.ptr<float>()[r]} / args.temperature : 0;
    const auto each = static_cast<float>(scale / sum);
    const auto at_target = static_cast<float>(-scale * sums.others / sum);
    if (entropy_scale == 0) {
      for (std::int64_t i = 0; i < V; ++i) p[i] *= each;
      p[target] = at_target;
      return;
    }
    // p (log p + H), where log p is that of the exponential, less that of the sum.
    const double shift = sums.entropy() - std::log(sum);
    for (std::int64_t i = 0; i < V; ++i) {
      const float e = p[i];
      const float by_target = i == target ? at_target : e * each;
      const double by_entropy = e > 0 ? e / sum * (std::log(double{e}) + shift) : 0;
      p[i] = static_cast<float>(by_target + entropy_scale * by_entropy);
    }
  });
}

}  // namespace glint
