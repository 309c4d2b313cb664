// Arguments of the kernels that do not multiply: rows of norms, rotations and activations, and
// attention between its products. Plain types only, for the reason in kernels.h, which includes
// this and defines kPanel and kHalfPanel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace glint::cpu {

// One row of an op on rows. Pointers are to f32, or to bf16 where the flag says so.
struct NormRow {
  void* x;            // updated if delta is given
  const void* delta;  // or null
  const void* weight;
  const void* bias;  // layer_norm
  void* out;
  std::int64_t size;
  float eps;
  bool is_bf16, delta_is_bf16, weight_is_bf16, out_is_bf16;
};
struct SiluRow {
  const void* gate;
  const void* up;
  void* out;
  std::int64_t size;
  bool is_bf16;
};
struct RopeRow {
  void* x;  // [size]
  const float* cos;
  const float* sin;  // [size / 2]
  std::int64_t size;
  bool is_bf16, interleaved;
};
// c [rows][kPanel] of tiles, times `scale` -> `size` outputs a row; with `up` (a second c):
// silu(c) * up, both rounded to the type of out first.
struct StoreRows {
  const float* c;
  const float* up = nullptr;
  float scale = 1, up_scale = 1;
  std::byte* out;
  std::int64_t out_bytes;  // distance of rows
  std::int64_t rows;
  int size;
  bool is_bf16;
  bool adds = false;         // to the f32 outputs that are there
  bool past_caches = false;  // the rows are not read soon
};
// A head of a token after attention: its values times `factor` -> `size` outputs. Value d is
// values[d / kPanel * panel_stride + d % kPanel].
struct AttendedRow {
  const float* values;
  std::int64_t panel_stride;
  float factor;
  void* out;
  std::int64_t size;
  bool is_bf16;
};
struct CombineRow {
  const void* const* rows;  // [count]
  const float* weights;     // [count]
  int count;
  const void* shared;  // or null
  void* out;
  std::int64_t size;
  bool is_bf16;
};

// Attention over some keys for up to kPanel heads, which are the lanes: scores become
// p = exp(scale * score - largest), in place.
struct SoftmaxArgs {
  float* scores;    // [keys][kPanel], unscaled
  int keys, heads;  // heads: kHalfPanel or kPanel
  float scale;
  float* largest;  // [kPanel], written: the largest scale * score
  float* sum;      // [kPanel], written: of p
};

// Attention over more keys: largest and sum become those of both.
struct MergeArgs {
  float* largest;
  float* sum;
  const float* more_largest;
  const float* more_sum;
  int lanes;    // of all four; a multiple of kHalfPanel
  float* keep;  // [lanes], written: what values over the earlier keys have to be multiplied by,
  float* add;   // and those over more keys
};
// values = keep * values + add * more, all [rows][kPanel].
struct MergeValuesArgs {
  float* values;
  const float* more;
  const float* keep;  // [rows]
  const float* add;
  std::int64_t rows;
};

// The backward pass of attention for 4 heads of a token and up to 4 keys, all [.][size] in f32,
// where `size` is a multiple of kPanel and what lies beyond a row's end is zero. Heads beyond the
// last are zeros, and so are keys beyond num_keys.
struct AttendBackArgs {
  const float* keys;
  const float* q;       // times softmax_scale
  const float* g;       // dout, zero beyond the latent
  const float* lse;     // [4]
  const float* along;   // [4]: dout . out
  float* dq;            // added to, not yet times softmax_scale
  float* const* dkeys;  // [num_keys]: rows that are added to
  int num_keys;
  std::int64_t size;
};

// Rows of values as the panels of their transpose: out row d of panel d / kPanel holds element d of
// every row, so that k runs over the rows. In bf16 pairs of rows are interleaved.
struct InterleaveArgs {
  const void* rows;  // f32 or bf16, row r at rows + r * stride elements
  std::int64_t stride;
  int num_rows;       // even in bf16
  std::int64_t size;  // elements of a row, readable up to a multiple of kPanel
  void* panels;       // [size / kPanel, rounded up][num_rows][kPanel], aligned to 64
  bool is_bf16;
};

}  // namespace glint::cpu
