// route: a thread block for each token. The place of an expert is how many are better. That of an
// only token permutes, too.
#include "backends/cuda/dependent_launch.cuh"
#include "backends/cuda/moe/moe.h"
#include "backends/cuda/reduce.cuh"
#include "base/check.h"
#include "base/str.h"

namespace glint::cuda {
namespace {

constexpr int kBlock = 256;
// The compiler loads several values at once, also behind the last.
constexpr int kReadAhead = 4;

struct Router {
  const float *logits, *bias;
  const std::int32_t* positions;  // null: no row is padding
  int parts, num_experts, n_group, topk_group, k;
  bool norm_topk_prob, given;
  float routed_scaling_factor;
  std::int32_t* ids;
  float* weights;
};

// As PermuteArgs has them; null: not wanted.
struct Places {
  std::int32_t *rows, *offsets, *places;
};

// In f64, so that scores are the reference's.
__device__ float sigmoid(float logit) {
  return static_cast<float>(1 / (1 + exp(-static_cast<double>(logit))));
}
__device__ float orderable(float value) { return isnan(value) ? -INFINITY : value; }

// The sum of the two largest of `count` values (of the only one, where there is one).
__device__ float group_score(const float* biased, int count) {
  float largest = -INFINITY, second = -INFINITY;
  for (int i = 0; i < count; ++i) {
    second = fmaxf(second, fminf(largest, biased[i]));
    largest = fmaxf(largest, biased[i]);
  }
  return count == 1 ? largest : largest + second;
}

// Marks the experts of all but the topk_group best groups: their values become NaN. By one warp.
__device__ void leave_best_groups(const Router& r, float* biased) {
  const int lane = threadIdx.x, size = r.num_experts / r.n_group;
  for (int out = 0; out < r.n_group - r.topk_group; ++out) {
    // The worst group that is still in; of equals the last.
    Rank worst = ~Rank{0};
    for (int g = lane; g < r.n_group; g += kWarp) {
      const float* members = biased + g * size;
      if (isnan(members[0])) continue;
      const Rank rank = rank_of(group_score(members, size), static_cast<std::uint32_t>(g));
      worst = rank < worst ? rank : worst;
    }
    worst = warp_reduce(worst, [](Rank a, Rank b) { return a < b ? a : b; });
    float* members = biased + static_cast<int>(index_of(worst)) * size;
    __syncwarp();  // all have read
    for (int i = lane; i < size; i += kWarp) members[i] = NAN;
    __syncwarp();
  }
}

// How many experts come before expert `e`: those of larger values, and those of equal ones with
// smaller ids. NaN comes before none.
__device__ int place_of(const float* biased, int num_experts, int e) {
  const float value = biased[e];
  int place = 0;
#pragma unroll 8
  for (int i = 0; i < num_experts; ++i) {
    place += biased[i] > value || (biased[i] == value && i < e);
  }
  return place;
}

// `own_ids` [k], `scores` [2 E + k] in shared memory.
__device__ void route_token(const Router& r, std::int32_t* own_ids, float* scores) {
  float* biased = scores + r.num_experts;  // NaN: not to be chosen
  float* chosen = biased + r.num_experts;
  const std::int64_t t = blockIdx.x;
  const float* logits = r.logits + t * r.parts * r.num_experts;
  std::int32_t* ids = r.ids + t * r.k;
  float* weights = r.weights + t * r.k;
  if (r.positions && r.positions[t] < 0) {
    for (int j = threadIdx.x; j < r.k; j += kBlock) ids[j] = own_ids[j] = -1, weights[j] = 0;
    return;
  }
  for (int e = threadIdx.x; e < r.num_experts; e += kBlock) {
    float logit = logits[e];
    for (int part = 1; part < r.parts; ++part) logit += logits[part * r.num_experts + e];
    scores[e] = sigmoid(logit);
    biased[e] = orderable(scores[e] + r.bias[e]);
  }
  __syncthreads();
  if (r.given) {
    for (int j = threadIdx.x; j < r.k; j += kBlock) {
      own_ids[j] = ids[j];
      chosen[j] = scores[ids[j]];
    }
  } else {
    if (r.topk_group < r.n_group) {
      if (threadIdx.x < kWarp) leave_best_groups(r, biased);
      __syncthreads();
    }
    for (int e = threadIdx.x; e < r.num_experts; e += kBlock) {
      const int place = isnan(biased[e]) ? r.k : place_of(biased, r.num_experts, e);
      if (place < r.k) ids[place] = own_ids[place] = e, chosen[place] = scores[e];
    }
  }
  __syncthreads();
  for (int j = threadIdx.x; j < r.k; j += kBlock) {
    double sum = 1e-20;
    for (int i = 0; i < r.k; ++i) sum += chosen[i];
    const double share = r.norm_topk_prob ? chosen[j] / sum : chosen[j];
    weights[j] = static_cast<float>(share * r.routed_scaling_factor);
  }
}

// permute of an only token, whose experts are distinct. `ids` lie in shared memory.
__device__ void place_token(const Places& p, const std::int32_t* ids, int k, int num_experts) {
  const auto num_before = [&](std::int32_t expert) {
    std::int32_t before = 0;
    for (int j = 0; j < k; ++j) before += ids[j] >= 0 && ids[j] < expert;
    return before;
  };
  for (int e = threadIdx.x; e <= num_experts; e += kBlock) p.offsets[e] = num_before(e);
  for (int j = threadIdx.x; j < k; j += kBlock) {
    const std::int32_t place = ids[j] < 0 ? -1 : num_before(ids[j]);
    p.places[j] = place;
    if (place >= 0) p.rows[place] = 0;
  }
}

__global__ void __launch_bounds__(kBlock) route_kernel(const Router r, const Places places) {
  extern __shared__ float shared[];
  auto* const own_ids = reinterpret_cast<std::int32_t*>(shared);
  // Experts, which come next, would take the room of the shared one's thread blocks to wait in.
  if (!places.rows) let_next_start();
  wait_for_inputs();
  route_token(r, own_ids, shared + r.k);
  if (!places.rows) return;
  __syncthreads();
  place_token(places, own_ids, r.k, r.num_experts);
}

// `parts`: rows of args.logits [T * parts, E] whose sum, in order, is a token's.
void start_route(const RouteArgs& args, int parts, const Places& places, const Gpu& gpu) {
  const std::int64_t tokens = args.ids.dim(0), experts = args.logits.dim(1), k = args.ids.dim(1);
  if (tokens == 0 || k == 0) return;
  GLINT_CHECK(experts <= kMostExperts, str("route: ", experts, " experts; at most ", kMostExperts));
  const Router router = {.logits = args.logits.ptr<float>(),
                         .bias = args.bias.ptr<float>(),
                         .positions = args.positions ? args.positions.ptr<std::int32_t>() : nullptr,
                         .parts = parts,
                         .num_experts = static_cast<int>(experts),
                         .n_group = args.n_group,
                         .topk_group = args.topk_group,
                         .k = static_cast<int>(k),
                         .norm_topk_prob = args.norm_topk_prob,
                         .given = args.given,
                         .routed_scaling_factor = args.routed_scaling_factor,
                         .ids = args.ids.ptr<std::int32_t>(),
                         .weights = args.weights.ptr<float>()};
  const std::size_t shared =
      static_cast<std::size_t>(2 * (experts + k) + kReadAhead) * sizeof(float);
  launch_small(route_kernel,
               {.grid = dim3(static_cast<unsigned>(tokens)), .block = kBlock, .shared = shared},
               gpu, router, places);
}

}  // namespace

void launch_route(const RouteArgs& args, const Gpu& gpu) { start_route(args, 1, {}, gpu); }

void launch_route_permute(const RoutePermuteArgs& args, const Gpu& gpu) {
  const PermuteArgs& permute = args.permute;
  const bool is_only = permute.ids.dim(0) == 1 && permute.ids.dim(1) > 0;
  Places places = {};
  if (is_only) {
    places = {.rows = permute.rows.ptr<std::int32_t>(),
              .offsets = permute.offsets.ptr<std::int32_t>(),
              .places = permute.places.ptr<std::int32_t>()};
  }
  start_route(args.route, 3, places, gpu);
  if (!is_only) launch_permute(permute, gpu);
}

}  // namespace glint::cuda
