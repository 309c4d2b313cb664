// The reference's backward passes of what works on rows: embed, gather_rows, add, silu_mul, rope,
// rms_norm, and the loss.
#include <algorithm>
#include <cmath>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_gradients.h"

namespace glint {

using namespace reference;

namespace {

// to[rows[r]] += from[r], which becomes zero.
void scatter(const Tensor& rows, const Tensor& from, const Tensor& to, const char* what) {
  for (std::int64_t r = 0; r < from.dim(0); ++r) {
    const std::int64_t row = index_or_padding(rows, r, to ? to.dim(0) : INT32_MAX, what);
    float* const g = from.row<float>(r);
    for (std::int64_t d = 0; to && row >= 0 && d < from.dim(1); ++d) to.row<float>(row)[d] += g[d];
    std::fill_n(g, from.dim(1), 0.0f);
  }
}

std::vector<float> row_of(const Tensor& x, std::int64_t t) { return floats_of(x.slice(0, t, 1)); }

}  // namespace

void ReferenceGradients::embed_back(const EmbedBackArgs& args) {
  check(args);
  scatter(args.op.ids, args.dout, args.dtable, "token id");
}

void ReferenceGradients::gather_rows_back(const GatherRowsBackArgs& args) {
  check(args);
  scatter(args.op.rows, args.dout, args.dx, "row");
}

void ReferenceGradients::add_back(const AddBackArgs& args) {
  check(args);
  for (std::int64_t t = 0; t < args.dx.dim(0); ++t) {
    for (std::int64_t d = 0; d < args.dx.dim(1); ++d) {
      args.dy.row<float>(t)[d] += args.dx.row<float>(t)[d];
    }
  }
}

void ReferenceGradients::silu_mul_back(const SiluMulBackArgs& args) {
  check(args);
  for (std::int64_t t = 0; t < args.dout.dim(0); ++t) {
    const std::vector<float> gate = row_of(args.op.gate, t), up = row_of(args.op.up, t);
    for (std::size_t d = 0; d < gate.size(); ++d) {
      const double v = gate[d], s = 1 / (1 + std::exp(-v));
      float& g = args.dout.row<float>(t)[d];
      const double grad = g;
      g = 0;
      args.dup.row<float>(t)[d] += static_cast<float>(grad * v * s);
      args.dgate.row<float>(t)[d] += static_cast<float>(grad * up[d] * s * (1 + v * (1 - s)));
    }
  }
}

void ReferenceGradients::rope_back(const RopeBackArgs& args) {
  check(args);
  const std::int64_t H = args.dx.dim(1), half = args.dx.dim(2) / 2;
  const std::int64_t step = args.op.interleaved ? 2 : 1, other = args.op.interleaved ? 1 : half;
  for (std::int64_t t = 0; t < args.dx.dim(0); ++t) {
    const std::int64_t position =
        index_or_padding(args.op.positions, t, args.op.table.dim(0), "position");
    if (position < 0) continue;
    const float* const cos = args.op.table.row<float>(position);
    const float* const sin = cos + half;
    for (std::int64_t h = 0; h < H; ++h) {
      float* const row = args.dx.row<float>(t) + h * args.dx.stride[1];
      for (std::int64_t j = 0; j < half; ++j) {
        float &a = row[j * step], &b = row[j * step + other];
        const double x = a, y = b;
        a = static_cast<float>(x * cos[j] + y * sin[j]);
        b = static_cast<float>(y * cos[j] - x * sin[j]);
      }
    }
  }
}

void ReferenceGradients::rms_norm_back(const RmsNormBackArgs& args) {
  check(args);
  const std::int64_t T = args.dout.dim(0), D = args.dout.dim(1);
  const std::vector<float> weight = floats_of(args.op.weight);
  std::vector<double> dweight(D);
  for (std::int64_t t = 0; t < T; ++t) {
    const std::vector<float> x = row_of(args.op.x, t), g = row_of(args.dout, t);
    std::fill_n(args.dout.row<float>(t), D, 0.0f);  // may be dx
    double squares = 0, along = 0;
    for (std::int64_t d = 0; d < D; ++d) {
      squares += double{x[d]} * x[d];
      along += double{x[d]} * weight[d] * g[d];
    }
    const double r = 1 / std::sqrt(squares / static_cast<double>(D) + args.op.eps);
    const double back = r * r * r / static_cast<double>(D) * along;
    float* const dx = args.dx.row<float>(t);
    for (std::int64_t d = 0; d < D; ++d) {
      dx[d] += static_cast<float>(r * weight[d] * g[d] - x[d] * back);
      dweight[d] += g[d] * x[d] * r;
      if (args.ddelta) args.ddelta.row<float>(t)[d] += dx[d];
    }
  }
  for (std::int64_t d = 0; args.dweight && d < D; ++d) {
    args.dweight.ptr<float>()[d] += static_cast<float>(dweight[d]);
  }
}

namespace {

// A row's softmax.
struct Softmax {
  std::vector<double> logs = {};  // of probabilities
  double log_prob = 0;            // of the target
  double rest = 0;                // 1 - its probability
  double entropy = 0;

  Softmax(const float* logits, std::int64_t V, std::int64_t target, double temperature) {
    const double largest = *std::max_element(logits, logits + V);
    double others = 0;
    for (std::int64_t i = 0; i < V; ++i) {
      logs.push_back((logits[i] - largest) / temperature);
      if (i != target) others += std::exp(logs.back());
    }
    const double chosen = std::exp(logs[target]), sum = others + chosen;
    log_prob = chosen > 0 ? -std::log1p(others / chosen) : logs[target] - std::log(sum);
    rest = others / sum;
    for (double& log : logs) {
      log -= std::log(sum);
      entropy -= std::exp(log) * log;
    }
  }
};

}  // namespace

void ReferenceGradients::log_probs(const LogProbsArgs& args) {
  check(args);
  const std::int64_t V = args.logits.dim(1);
  for (std::int64_t r = 0; r < args.logits.dim(0); ++r) {
    const std::int64_t target = index_or_padding(args.targets, r, V, "target");
    float& log_prob = args.log_probs.ptr<float>()[r];
    float& entropy = args.entropies.ptr<float>()[r];
    log_prob = entropy = 0;
    if (target < 0) continue;
    const Softmax p(args.logits.row<float>(r), V, target, args.temperature);
    log_prob = static_cast<float>(p.log_prob);
    entropy = static_cast<float>(p.entropy);
  }
}

void ReferenceGradients::cross_entropy(const CrossEntropyArgs& args) {
  check(args);
  const std::int64_t V = args.logits.dim(1);
  for (std::int64_t r = 0; r < args.logits.dim(0); ++r) {
    float* const logits = args.logits.row<float>(r);
    const std::int64_t target = index_or_padding(args.targets, r, V, "target");
    float& log_prob = args.log_probs.ptr<float>()[r];
    if (target < 0) {
      std::fill_n(logits, V, 0.0f);
      log_prob = 0;
      continue;
    }
    const Softmax p(logits, V, target, args.temperature);
    log_prob = static_cast<float>(p.log_prob);
    const double scale = args.scales.ptr<float>()[r];
    const double entropy_scale = args.entropy_scales ? args.entropy_scales.ptr<float>()[r] : 0;
    for (std::int64_t i = 0; i < V; ++i) {
      const double by_target = i == target ? -p.rest : std::exp(p.logs[i]);
      const double by_entropy =
          entropy_scale != 0 ? std::exp(p.logs[i]) * (p.logs[i] + p.entropy) : 0;
      logits[i] =
          static_cast<float>((scale * by_target + entropy_scale * by_entropy) / args.temperature);
    }
  }
}

}  // namespace glint
