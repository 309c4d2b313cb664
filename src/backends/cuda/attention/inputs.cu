// Three thread blocks for each token: of the query's latent, of the latent cache's row, and of the
// index key. Sums are those of rms_norm and layer_norm.
#include "backends/cuda/attention/inputs.h"
#include "backends/cuda/cache/write.cuh"
#include "backends/cuda/norm/norm_row.cuh"
#include "ops/norm.h"

namespace glint::cuda {
namespace {

constexpr int kBlock = kNormBlock;
constexpr int kMostColumns = 1024;  // of a cache's row

// A norm's weight or bias, of either type.
struct Vector {
  const void* data;
  bool is_f32;

  __device__ float operator[](std::int64_t i) const {
    return is_f32 ? static_cast<const float*>(data)[i]
                  : as_float(static_cast<const bf16*>(data)[i]);
  }
};

struct Rotation {
  const std::int32_t* positions;
  const float* table;
  int pairs;
};

struct Inputs {
  bf16* q;
  std::int64_t q_stride;
  int q_columns;
  bf16* kv;
  const bf16* k;
  Vector q_norm, kv_norm, k_norm, k_bias;
  float eps, k_eps;
  Rotation rotation;
  bool k_interleaved;
  const std::int32_t* slots;
  LatentRows latents;
  IndexRows keys;
};

// out = rms_norm(x), which may be the same. Waits for inputs.
__device__ void normalise(bf16* x, const Vector& weight, float eps, int columns, bf16* out) {
  const auto with = [&](const auto* weights) {
    const auto normalise = [&](auto whole) {
      norm_row<whole()>(
          x, static_cast<const bf16*>(nullptr), weights, columns, eps,
          [&](std::int64_t c, const float(&v)[kVec]) { store<whole()>(out + c, v, columns - c); });
    };
    with_whole(normalise, columns, x, weights, out);
  };
  weight.is_f32 ? with(static_cast<const float*>(weight.data))
                : with(static_cast<const bf16*>(weight.data));
}

// to = rope(x), which may be the same.
__device__ void rotate(const bf16* x, const Rotation& r, bool interleaved, bf16* to) {
  const std::int32_t position = r.positions[blockIdx.x];
  const float* cos = r.table + max(position, 0) * std::int64_t{2} * r.pairs;
  const float* sin = cos + r.pairs;
  for (int j = threadIdx.x; j < r.pairs; j += kBlock) {
    const int first = interleaved ? 2 * j : j, second = first + (interleaved ? 1 : r.pairs);
    const float a = as_float(x[first]), b = as_float(x[second]);
    to[first] = position < 0 ? x[first] : rounded<bf16>(a * cos[j] - b * sin[j]);
    to[second] = position < 0 ? x[second] : rounded<bf16>(b * cos[j] + a * sin[j]);
  }
}

// out = layer_norm(x). Waits for inputs.
__device__ void centre(const bf16* x, const Inputs& p, bf16* out) {
  const int columns = p.keys.dim, first = threadIdx.x;
  const float count = static_cast<float>(columns);
  const float weight = first < columns ? p.k_norm[first] : 0;
  const float bias = first < columns ? p.k_bias[first] : 0;
  wait_for_inputs();
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += kBlock) sum += as_float(x[c]);
  const float mean = block_sum<kBlock>(sum) / count;
  float squares = 0;
  for (int c = threadIdx.x; c < columns; c += kBlock) {
    const float away = as_float(x[c]) - mean;
    squares += away * away;
  }
  const float scale = 1.0f / sqrtf(block_sum<kBlock>(squares) / count + p.k_eps);
  for (int c = threadIdx.x; c < columns; c += kBlock) {
    const float normed = (as_float(x[c]) - mean) * scale;
    const bool is_first = c == first;
    out[c] =
        rounded<bf16>(normed * (is_first ? weight : p.k_norm[c]) + (is_first ? bias : p.k_bias[c]));
  }
}

template <class Latent, class Key>
__global__ void __launch_bounds__(kBlock) inputs_kernel(const Inputs p) {
  __shared__ __align__(16) bf16 row[kMostColumns];
  let_next_start();
  const std::int64_t token = blockIdx.x;
  if (blockIdx.y == 0) {
    bf16* const q = p.q + token * p.q_stride;
    return normalise(q, p.q_norm, p.eps, p.q_columns, q);
  }
  const bool is_latent = blockIdx.y == 1;
  const int latent = p.latents.latent_dim;
  bf16* const kv = p.kv + token * (latent + p.latents.rope_dim);
  if (is_latent) {
    normalise(kv, p.kv_norm, p.eps, latent, row);
  } else {
    centre(p.k + token * p.keys.dim, p, row);
    __syncthreads();
  }
  const std::int64_t slot = p.slots[token];
  if (is_latent) {
    rotate(kv + latent, p.rotation, true, row + latent);
  } else {
    rotate(row, p.rotation, p.k_interleaved, row);
  }
  __syncthreads();
  if (slot < 0) return;
  if (is_latent) {
    write_latent_row<kBlock, Latent>(row, row + latent, p.latents, p.latents.row(slot));
  } else {
    write_index_row<kBlock, Key>(row, p.keys, slot);
  }
}

Vector vector_of(const Tensor& x) { return {x.data, x.dtype == DType::kF32}; }

}  // namespace

bool is_attention_inputs(const AttentionInArgs& args, bool with_index) {
  const LatentCache& latents = args.latent_cache;
  const IndexCache& keys = args.index_cache;
  return args.q.dtype == DType::kBF16 && latents.format != LatentFormat::kF32 &&
         latents.latent_dim + latents.rope_dim <= kMostColumns &&
         (!with_index || (keys.format != IndexFormat::kF32 && keys.dim <= kMostColumns));
}

void launch_attention_inputs(const AttentionInputs& args, const Gpu& gpu) {
  const AttentionInArgs& block = args.block;
  const AttentionWeights& w = block.weights;
  const auto tokens = static_cast<unsigned>(args.q.dim(0));
  if (tokens == 0) return;
  Inputs inputs = {
      .q = bf16_data(args.q),
      .q_stride = args.q.stride[0],
      .q_columns = static_cast<int>(args.q.dim(1)),
      .kv = bf16_data(args.kv),
      .k = nullptr,
      .q_norm = vector_of(w.q_a_layernorm),
      .kv_norm = vector_of(w.kv_a_layernorm),
      .k_norm = {},
      .k_bias = {},
      .eps = block.dims.rms_norm_eps,
      .k_eps = LayerNormArgs{}.eps,
      .rotation = {block.batch.positions.ptr<std::int32_t>(), block.batch.rope_table.ptr<float>(),
                   block.dims.qk_rope_head_dim / 2},
      .k_interleaved = block.dims.indexer_rope_interleave,
      .slots = block.batch.slots.ptr<std::int32_t>(),
      .latents = latent_rows(block.latent_cache),
      .keys = {}};
  if (args.k) {
    inputs.k = bf16_data(args.k);
    inputs.k_norm = vector_of(w.indexer.k_norm);
    inputs.k_bias = vector_of(w.indexer.k_norm_bias);
    inputs.keys = index_rows(block.index_cache);
  }
  const LaunchShape shape = {.grid = dim3(tokens, args.k ? 3 : 2), .block = kBlock};
  const bool fp8_latents = block.latent_cache.format == LatentFormat::kFp8;
  const bool fp8_keys = args.k && block.index_cache.format == IndexFormat::kFp8;
  const auto kernel = fp8_latents ? fp8_keys ? inputs_kernel<std::uint8_t, std::uint8_t>
                                             : inputs_kernel<std::uint8_t, bf16>
                      : fp8_keys ? inputs_kernel<bf16, std::uint8_t>
                                  : inputs_kernel<bf16, bf16>;
  launch_small(kernel, shape, gpu, inputs);
}

}  // namespace glint::cuda
