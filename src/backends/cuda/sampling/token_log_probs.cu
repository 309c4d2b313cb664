// argmax and token_log_probs.
#include "backends/cuda/reduce.cuh"
#include "backends/cuda/sampling/sampling.h"

namespace glint::cuda {
namespace {

constexpr int kThreads = 1024;

// The best of z[0, count) that comes after `previous`; kNoRank: there is none.
__device__ Rank next_best(const float* z, int count, Rank previous) {
  Rank best = kNoRank;
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const Rank rank = rank_of(z[i], static_cast<std::uint32_t>(i));
    if (rank < previous && rank > best) best = rank;
  }
  return block_best<kThreads>(best);
}

__global__ void __launch_bounds__(kThreads)
    argmax_kernel(const float* logits, std::int64_t stride, int num_ids, std::int32_t* tokens) {
  const float* z = logits + blockIdx.x * stride;
  const Rank best = next_best(z, num_ids, ~Rank{0});
  if (threadIdx.x == 0) tokens[blockIdx.x] = static_cast<std::int32_t>(index_of(best));
}

struct Rows {
  const float* logits;
  std::int64_t stride;
  const std::int32_t *rows, *ids;
  int vocab, num_ids, k;
  float* log_probs;
  std::int32_t *ranks, *top_ids;
  float* top_log_probs;
};

__global__ void __launch_bounds__(kThreads) log_probs_kernel(const Rows rows) {
  const std::int64_t n = blockIdx.x;
  const std::int32_t r = rows.rows[n], own_id = rows.ids[r];
  const float* z = rows.logits + r * rows.stride;
  const float own = own_id < 0 ? NAN : z[own_id];
  bool bad = false;
  float most = -INFINITY;
  int above = 0;
  for (int i = threadIdx.x; i < rows.vocab; i += kThreads) {
    bad = bad || !(z[i] < INFINITY);
    most = fmaxf(most, z[i]);
    above += z[i] > own;
  }
  bad = __syncthreads_or(bad);
  const float max = block_max<kThreads>(most);
  above = block_reduce<kThreads>(above, [](int a, int b) { return a + b; });
  double sum = 0;
  for (int i = threadIdx.x; i < rows.vocab; i += kThreads) {
    sum += exp(static_cast<double>(z[i] - max));
  }
  sum = log(block_reduce<kThreads>(sum, [](double a, double b) { return a + b; }));
  const auto log_prob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit - max) - sum);
  };
  if (threadIdx.x == 0) {
    rows.log_probs[n] = bad ? NAN : log_prob(own);
    rows.ranks[n] = bad ? 1 : above + 1;
  }
  Rank previous = ~Rank{0};
  for (int k = 0; k < rows.k; ++k) {
    if (!bad && previous != kNoRank) previous = next_best(z, rows.num_ids, previous);
    if (threadIdx.x > 0) continue;
    const bool is_there = !bad && previous != kNoRank;
    const std::uint32_t id = index_of(previous);
    rows.top_ids[n * rows.k + k] = is_there ? static_cast<std::int32_t>(id) : -1;
    rows.top_log_probs[n * rows.k + k] = is_there ? log_prob(z[id]) : 0;
  }
}

}  // namespace

void launch_argmax(const ArgmaxArgs& args, const Gpu& gpu) {
  const std::int64_t R = args.logits.dim(0);
  if (R == 0) return;
  argmax_kernel<<<static_cast<unsigned>(R), kThreads, 0, gpu.stream>>>(
      args.logits.ptr<float>(), args.logits.stride[0], static_cast<int>(args.num_ids),
      args.tokens.ptr<std::int32_t>());
}

void launch_token_log_probs(const TokenLogProbsArgs& args, const Gpu& gpu) {
  const std::int64_t N = args.rows.dim(0);
  if (N == 0) return;
  const Rows rows = {.logits = args.logits.ptr<float>(),
                     .stride = args.logits.stride[0],
                     .rows = args.rows.ptr<std::int32_t>(),
                     .ids = args.ids.ptr<std::int32_t>(),
                     .vocab = static_cast<int>(args.logits.dim(1)),
                     .num_ids = static_cast<int>(args.num_ids),
                     .k = static_cast<int>(args.top_ids.dim(1)),
                     .log_probs = args.log_probs.ptr<float>(),
                     .ranks = args.ranks.ptr<std::int32_t>(),
                     .top_ids = args.top_ids.ptr<std::int32_t>(),
                     .top_log_probs = args.top_log_probs.ptr<float>()};
  log_probs_kernel<<<static_cast<unsigned>(N), kThreads, 0, gpu.stream>>>(rows);
}

}  // namespace glint::cuda
