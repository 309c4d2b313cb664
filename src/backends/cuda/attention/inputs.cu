// A thread block for each token. Sums are those of rms_norm and layer_norm.
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

struct LatentInputs {
  bf16* kv;
  Vector norm;
  float eps;
  Rotation rotation;
  const std::int32_t* slots;
  LatentRows rows;
};

struct KeyInputs {
  const bf16* k;
  Vector norm, bias;
  float eps;
  Rotation rotation;
  bool interleaved;
  const std::int32_t* slots;
  IndexRows rows;
};

// out = rms_norm(x). Waits for inputs.
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
__device__ void centre(const bf16* x, const KeyInputs& p, bf16* out) {
  const int columns = p.rows.dim, first = threadIdx.x;
  const float count = static_cast<float>(columns);
  const float weight = first < columns ? p.norm[first] : 0;
  const float bias = first < columns ? p.bias[first] : 0;
  wait_for_inputs();
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += kBlock) sum += as_float(x[c]);
  const float mean = block_sum<kBlock>(sum) / count;
  float squares = 0;
  for (int c = threadIdx.x; c < columns; c += kBlock) {
    const float away = as_float(x[c]) - mean;
    squares += away * away;
  }
  const float scale = 1.0f / sqrtf(block_sum<kBlock>(squares) / count + p.eps);
  for (int c = threadIdx.x; c < columns; c += kBlock) {
    const float normed = (as_float(x[c]) - mean) * scale;
    const bool is_first = c == first;
    out[c] =
        rounded<bf16>(normed * (is_first ? weight : p.norm[c]) + (is_first ? bias : p.bias[c]));
  }
}

template <class Latent>
__global__ void __launch_bounds__(kBlock) latent_kernel(const LatentInputs p) {
  __shared__ __align__(16) bf16 row[kMostColumns];
  const std::int64_t token = blockIdx.x;
  const int latent = p.rows.latent_dim;
  bf16* const kv = p.kv + token * (latent + p.rows.rope_dim);
  normalise(kv, p.norm, p.eps, latent, row);
  const std::int64_t slot = p.slots[token];
  rotate(kv + latent, p.rotation, true, row + latent);
  __syncthreads();
  if (slot < 0) return;
  write_latent_row<kBlock, Latent>(row, row + latent, p.rows, p.rows.row(slot));
}

template <class Key>
__global__ void __launch_bounds__(kBlock) key_kernel(const KeyInputs p) {
  __shared__ __align__(16) bf16 row[kMostColumns];
  let_next_start();
  const std::int64_t token = blockIdx.x;
  centre(p.k + token * p.rows.dim, p, row);
  __syncthreads();
  const std::int64_t slot = p.slots[token];
  rotate(row, p.rotation, p.interleaved, row);
  __syncthreads();
  if (slot < 0) return;
  write_index_row<kBlock, Key>(row, p.rows, slot);
}

Vector vector_of(const Tensor& x) { return {x.data, x.dtype == DType::kF32}; }

Rotation rotation_of(const AttentionInArgs& block) {
  return {block.batch.positions.ptr<std::int32_t>(), block.batch.rope_table.ptr<float>(),
          block.dims.qk_rope_head_dim / 2};
}

}  // namespace

bool is_attention_inputs(const AttentionInArgs& args, bool with_index) {
  const LatentCache& latents = args.latent_cache;
  const IndexCache& keys = args.index_cache;
  return args.q.dtype == DType::kBF16 && latents.format != LatentFormat::kF32 &&
         latents.latent_dim + latents.rope_dim <= kMostColumns &&
         (!with_index || (keys.format != IndexFormat::kF32 && keys.dim <= kMostColumns));
}

void launch_latent_inputs(const LatentInputsArgs& args, const Gpu& gpu) {
  const AttentionInArgs& block = args.block;
  const auto tokens = static_cast<unsigned>(args.kv.dim(0));
  if (tokens == 0) return;
  const LatentInputs inputs = {.kv = bf16_data(args.kv),
                               .norm = vector_of(block.weights.kv_a_layernorm),
                               .eps = block.dims.rms_norm_eps,
                               .rotation = rotation_of(block),
                               .slots = block.batch.slots.ptr<std::int32_t>(),
                               .rows = latent_rows(block.latent_cache)};
  const auto kernel = block.latent_cache.format == LatentFormat::kFp8 ? latent_kernel<std::uint8_t>
                                                                      : latent_kernel<bf16>;
  launch_small(kernel, {.grid = dim3(tokens), .block = kBlock}, gpu, inputs);
}

void launch_key_inputs(const KeyInputsArgs& args, const Gpu& gpu) {
  const AttentionInArgs& block = args.block;
  const auto tokens = static_cast<unsigned>(args.k.dim(0));
  if (tokens == 0) return;
  const KeyInputs inputs = {.k = bf16_data(args.k),
                            .norm = vector_of(block.weights.indexer.k_norm),
                            .bias = vector_of(block.weights.indexer.k_norm_bias),
                            .eps = LayerNormArgs{}.eps,
                            .rotation = rotation_of(block),
                            .interleaved = block.dims.indexer_rope_interleave,
                            .slots = block.batch.slots.ptr<std::int32_t>(),
                            .rows = index_rows(block.index_cache)};
  const auto kernel =
      block.index_cache.format == IndexFormat::kFp8 ? key_kernel<std::uint8_t> : key_kernel<bf16>;
  launch_small(kernel, {.grid = dim3(tokens), .block = kBlock}, gpu, inputs);
}

}  // namespace glint::cuda
