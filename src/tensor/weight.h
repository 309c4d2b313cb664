// Weight: a matrix [out, in] in the format that its checkpoint stores. y = x * W^T. Owns nothing.
// WeightStack: several of one shape.
#pragma once

#include <cstdint>
#include <span>

#include "base/ceil_div.h"
#include "tensor/tensor.h"

namespace glint {

enum class WeightFormat : std::uint8_t {
  kF32,
  kBF16,
  // data e4m3 [N, K]; scale f32, one for each block of 128 x 128: w = e4m3 * scale
  kFp8Block,
  // data u8 [N, K/2], low nibble first; scale e4m3 [N, K/16]: w = (e2m1 * scale) * global_scale
  kNvfp4,
};

const char* name_of(WeightFormat format);  // "f32", "bf16", "fp8", "nvfp4"

// How the bytes of a weight lie in memory.
enum class WeightLayout : std::uint8_t {
  kRows,    // as above
  kPacked,  // as Ops::pack left them: for the products of that backend only; kU8 bytes, nvfp4
            // scales included
};

// The side of an FP8 block and the length of an NVFP4 group.
inline constexpr int kFp8Block = 128;
inline constexpr int kLeastFp8Block = 32;  // of a part of a matrix: see Weight::block_rows
inline constexpr int kNvfp4Group = 16;

// FP8 blocks that `n` rows or columns are cut into; the last may be smaller.
constexpr std::int64_t fp8_blocks(std::int64_t n, int side = kFp8Block) {
  return ceil_div(n, side);
}

struct Weight {
  WeightFormat format = WeightFormat::kBF16;
  WeightLayout layout = WeightLayout::kRows;
  std::int64_t rows = 0;  // N, outputs
  std::int64_t cols = 0;  // K, inputs; a multiple of 16 in kNvfp4
  Tensor data = {};       // dense; kU8 or kF8E4M3 typed for the packed formats
  Tensor scale = {};      // dense; empty for kF32 and kBF16
  // kFp8Block: scale is [ceil(N / block_rows), ceil(K / block_cols)]. 128, or 64 or 32 where a part
  // of a matrix begins within a block, as kv_b_proj's halves of a head do.
  int block_rows = kFp8Block, block_cols = kFp8Block;
  Tensor global_scale = {};  // kNvfp4: weight_scale_2, [1] f32
  // Which tensor of its model it is (model/tensor_table.h), or -1: weights are told apart by it,
  // not by where they lie. A tensor that is there as two weights has halves 0 and 1.
  int id = -1, half = 0;

  explicit operator bool() const { return static_cast<bool>(data); }
};

// Matrices of one shape: a layer's experts, or the small ones of its heads. A kernel reads matrix i
// at data.data + i * data.stride[0], and its scales likewise.
struct WeightStack {
  WeightFormat format = WeightFormat::kBF16;
  WeightLayout layout = WeightLayout::kRows;
  std::int64_t count = 0, rows = 0, cols = 0;
  Tensor data = {};   // [count, ..]: Weight::data of each, dense in itself
  Tensor scale = {};  // [count, ..], or empty
  int block_rows = kFp8Block, block_cols = kFp8Block;
  Tensor global_scale = {};  // kNvfp4: [count, 1] f32
  int id = -1, half = 0;
  // Host memory only, where matrices lie anywhere in mapped files, or have several formats: each of
  // them. Shape, count and id hold for all; the rest says nothing. What is placed on a device, or
  // packed in one format, never needs it.
  std::span<const Weight> each = {};

  explicit operator bool() const { return count > 0; }
  Weight operator[](std::int64_t i) const;
};

// All of `each`, which stays where it is and has at least one.
WeightStack stack_of(std::span<const Weight> each);
// `count` matrices like `first`, whose bytes lie `stride` bytes apart, scales included.
WeightStack stack_of(const Weight& first, std::int64_t count, std::int64_t stride);

// Bytes that reading all of `weight` once moves: data and scales.
std::int64_t bytes_of(const Weight& weight);
std::int64_t bytes_of(const WeightStack& weights);

// Aborts, naming the weight, unless data and scales are dense and have the types and shapes of its
// format. Asked once, where a weight comes into being; ops look at its rows and columns only.
void check_weight(const char* name, const Weight& weight);

// The factor of all of an nvfp4 weight, which must be in host memory; 1 for other formats.
float global_scale_of(const Weight& weight);

// Writes row `n` of `weight` as exact f32 (code * scale, no rounding to BF16): [cols]. The
// definition of the formats, scalar; kernels are checked against it.
void dequantize_row(const Weight& weight, std::int64_t n, float* out);

}  // namespace glint
