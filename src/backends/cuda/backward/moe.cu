// route_back: a thread for each token. combine_back: a thread block for each.
#include "backends/cuda/backward/backward.h"
#include "backends/cuda/reduce.cuh"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {
namespace {

constexpr int kBlock = 256;

struct Route {
  const float* logits;
  const std::int32_t* ids;
  float *dweights, *dlogits;
  std::int64_t logits_stride, dweights_stride, dlogits_stride;
  std::int64_t tokens, k;
  bool normed;
  float factor;
};

// In f64: what is left of nearly equal gradients is their difference.
__global__ void __launch_bounds__(kBlock) route_back(const Route r) {
  const std::int64_t t = blockIdx.x * std::int64_t{kBlock} + threadIdx.x;
  if (t >= r.tokens) return;
  const std::int32_t* const ids = r.ids + t * r.k;
  const float* const logits = r.logits + t * r.logits_stride;
  float* const g = r.dweights + t * r.dweights_stride;
  const auto score = [&](std::int64_t j) { return 1 / (1 + exp(-double{logits[ids[j]]})); };
  double sum = 1e-20, along = 0;
  for (std::int64_t j = 0; j < r.k; ++j) {
    if (ids[j] < 0) continue;
    sum += score(j), along += g[j] * score(j);
  }
  for (std::int64_t j = 0; j < r.k; ++j) {
    if (ids[j] >= 0) {
      const double s = score(j), ds = r.normed ? (g[j] - along / sum) / sum : g[j];
      r.dlogits[t * r.dlogits_stride + ids[j]] += static_cast<float>(r.factor * ds * s * (1 - s));
    }
    g[j] = 0;
  }
}

template <class T>
struct Combine {
  const T* y;
  const std::int32_t* places;
  const float* weights;
  float *dout, *dy, *dweights, *dshared;  // dshared: null where there was no `shared`
  std::int64_t y_stride, dout_stride, dy_stride, dweights_stride, dshared_stride;
  std::int64_t k, columns;
};

template <class T>
__global__ void __launch_bounds__(kBlock) combine_back(const Combine<T> m) {
  const std::int64_t t = blockIdx.x;
  float* const dout = m.dout + t * m.dout_stride;
  float g[kVec], v[kVec], d[kVec];
  for (std::int64_t j = 0; j < m.k; ++j) {
    const std::int64_t place = m.places[t * m.k + j];
    if (place < 0) continue;
    const float weight = m.weights[t * m.k + j];
    float along = 0;
    for (std::int64_t c = threadIdx.x * kVec; c < m.columns; c += kBlock * kVec) {
      const std::int64_t left = m.columns - c;
      float* const dy = m.dy + place * m.dy_stride + c;
      load(g, dout + c, left);
      load(v, m.y + place * m.y_stride + c, left);
      load(d, dy, left);
#pragma unroll
      for (int i = 0; i < kVec; ++i) d[i] += weight * g[i], along += g[i] * v[i];
      store(dy, d, left);
    }
    along = block_sum<kBlock>(along);
    if (threadIdx.x == 0) m.dweights[t * m.dweights_stride + j] += along;
  }
  constexpr float kZeros[kVec] = {};
  for (std::int64_t c = threadIdx.x * kVec; c < m.columns; c += kBlock * kVec) {
    const std::int64_t left = m.columns - c;
    if (m.dshared) {
      float* const dshared = m.dshared + t * m.dshared_stride + c;
      load(g, dout + c, left);
      load(d, dshared, left);
#pragma unroll
      for (int i = 0; i < kVec; ++i) d[i] += g[i];
      store(dshared, d, left);
    }
    store(dout + c, kZeros, left);
  }
}

}  // namespace

void launch_route_back(const RouteBackArgs& args, const Gpu& gpu) {
  const std::int64_t T = args.dweights.dim(0);
  if (T == 0) return;
  const Route route = {.logits = args.op.logits.ptr<float>(),
                       .ids = args.op.ids.ptr<std::int32_t>(),
                       .dweights = args.dweights.ptr<float>(),
                       .dlogits = args.dlogits.ptr<float>(),
                       .logits_stride = args.op.logits.stride[0],
                       .dweights_stride = args.dweights.stride[0],
                       .dlogits_stride = args.dlogits.stride[0],
                       .tokens = T,
                       .k = args.dweights.dim(1),
                       .normed = args.op.norm_topk_prob,
                       .factor = args.op.routed_scaling_factor};
  route_back<<<static_cast<unsigned>((T + kBlock - 1) / kBlock), kBlock, 0, gpu.stream>>>(route);
}

void launch_combine_back(const CombineBackArgs& args, const Gpu& gpu) {
  if (args.dout.size() == 0) return;
  with_elements(args.op.y, [&]<class T>(T* y) {
    const Combine<T> combine = {.y = y,
                                .places = args.op.places.ptr<std::int32_t>(),
                                .weights = args.op.weights.ptr<float>(),
                                .dout = args.dout.ptr<float>(),
                                .dy = args.dy.ptr<float>(),
                                .dweights = args.dweights.ptr<float>(),
                                .dshared = args.dshared ? args.dshared.ptr<float>() : nullptr,
                                .y_stride = args.op.y.stride[0],
                                .dout_stride = args.dout.stride[0],
                                .dy_stride = args.dy.stride[0],
                                .dweights_stride = args.dweights.stride[0],
                                .dshared_stride = args.dshared ? args.dshared.stride[0] : 0,
                                .k = args.op.places.dim(1),
                                .columns = args.dout.dim(1)};
    combine_back<<<static_cast<unsigned>(args.dout.dim(0)), kBlock, 0, gpu.stream>>>(combine);
  });
}

}  // namespace glint::cuda
