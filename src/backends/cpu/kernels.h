// Kernels: the inner loops of the CPU backend as a table of functions, one table an instruction
// set.
//
// Every matrix product of the backend, attention and indexer included, is made of three steps over
// *panels*: 16 or 32 rows of a weight (or keys, or heads) stored k-major, so that a vector register
// holds the same k of 16 rows and nothing is ever summed across lanes:
//
//   pack    rows as a checkpoint stores them -> panel of the same codes; a transposition of dwords
//   expand  panel of codes -> panel of numbers (bf16 or f32) that tiles read; scratch of one chunk
//   tile    panel x rows of x -> c, accumulated over k ascending
//
// An output is one chain of additions over k ascending - in f32, of runs of kF32Run k's, themselves
// sums of chains of kF32Part: rounding errors grow with the length of a chain -, whatever the
// number of tokens, of threads, and whether the panel was packed at load or on the fly: its bits
// depend on the weight's format and the instruction set only.
//
// This header is included by sources compiled for AVX-512: it must not pull in inline functions
// that the linker could then choose for everyone, so it knows plain types only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/row_kernels.h"

namespace glint::cpu {

// Same order as WeightFormat; a dword holds 2^code numbers.
enum Code { kCodeF32, kCodeBf16, kCodeFp8, kCodeNvfp4, kNumCodes };

inline constexpr int kHalfPanel = 16;  // rows in one 512-bit register of dwords
inline constexpr int kPanel = 32;      // rows of a weight's panel
inline constexpr int kChunk = 256;     // k's that are expanded at a time: 16 KiB of bf16
inline constexpr int kF32Run = 64;     // k's that f32 tiles sum before they add to c, and ...
inline constexpr int kF32Part = 16;    // ... of those, what is one chain

// `align` is a power of two.
constexpr std::int64_t aligned_up(std::int64_t k, std::int64_t align) {
  return (k + align - 1) & -align;
}
// k's in one dword of a row.
constexpr int per_dword(Code code) { return 1 << code; }
// A panel's k is padded with zeros: to whole lines of packing, and to what the tiles read.
constexpr std::int64_t padded(Code code, std::int64_t k) {
  return aligned_up(k, code == kCodeF32 ? 32 : 16 * per_dword(code));
}
// Elements between copied rows of x: readable beyond k to any x_align, and not a multiple of 4096
// bytes, because the rows of a tile must not share the sets of the cache.
constexpr std::int64_t x_stride(std::int64_t k) { return aligned_up(k, 128) + 32; }
// Bytes of `k` columns of a panel; without scales.
constexpr std::int64_t panel_bytes(Code code, std::int64_t k) {
  return padded(code, k) / per_dword(code) * kPanel * 4;
}

// Rows to be packed. Panel layout: [k / per_dword][rows] dwords, a dword being per_dword
// consecutive k's of a row, but for the order inside: fp8 stores each 4 rows' k, k+1 and then their
// k+2, k+3 in 16 bytes; nvfp4 stores the even k's of a dword in its low half, the odd ones above.
// Panels of fp8 and nvfp4 have kPanel rows.
struct PackArgs {
  const std::byte* rows;            // row r at rows + r * row_bytes, not aligned
  std::int64_t row_bytes;           // distance of rows
  std::int64_t bytes;               // of each row, to be packed
  int num_rows;                     // 0 .. panel_rows; the others become zeros
  int panel_rows;                   // kHalfPanel or kPanel
  std::byte* panel;                 // aligned to 64: panel_bytes(code, k), or half of them
  std::int64_t ahead = 0;           // bytes ahead of each row to prefetch; 0: none
  const std::byte* next = nullptr;  // as many bytes as the rows have are prefetched from here
  bool past_caches = false;         // the panel is not read soon
};

// Where a panel keeps the e4m3 scale of nvfp4 group `g` of row `n`: 64 bytes for two groups, in the
// order in which unpacking a register leaves them.
constexpr std::int64_t scale_byte(std::int64_t g, int n) {
  return g / 2 * 64 + n % 16 / 4 * 16 + g % 2 * 8 + n / 16 * 4 + n % 4;
}

// Bytes to prefetch into the L2 cache while a chunk of a panel is read, `step` for each line of it:
// from `at` on, and after `end` from `next` on. None where `step` is 0.
struct Ahead {
  const std::byte* at = nullptr;
  const std::byte* end = nullptr;
  const std::byte* next = nullptr;
  std::int64_t step = 0;
};

// How many rows of x a thread's tile registers are configured for; 0: they are not in use. To be
// configured takes a tenth of a microsecond, so they stay until Kernels::leave.
struct TileRows {
  int first = 0, second = 0;
};

// A chunk of a panel. Scales: fp8 one f32 for each `block` k's; nvfp4 e4m3 in the order of
// scale_byte.
struct ExpandArgs {
  const std::byte* panel;
  const void* scale;
  int block;      // fp8 only: 128, 64 or 32
  int k;          // a multiple of 16
  void* out;      // f32 [k][kPanel], or bf16 pairs [k / 2][kPanel][2]; k a multiple of 32
  float* scales;  // bf16 nvfp4 only: f32 [k / 16][kPanel]
  Ahead ahead;    // of the codes
};

// c[t][n] = or += sum_k x[t][k] * w[n][k] for the panel's rows n.
struct TileArgs {
  const void* w;                // a panel, expanded or of codes
  const void* scale = nullptr;  // as in ExpandArgs; of an expanded nvfp4 panel: f32
  int block = 0;                // as in ExpandArgs
  int panel_rows;
  const void* x;  // f32 or bf16, row t at x + t * x_stride elements; may be unaligned
  std::int64_t x_stride;
  int tokens;        // >= 1
  int rows;          // >= tokens: those of x and of c that may be read and written, to any value
  int k;             // in bf16 a multiple of Family::x_align
  float* c;          // [tokens][kPanel], aligned to 64
  bool starts;       // what c held is replaced, not added to
  Ahead ahead = {};  // of the codes
  Ahead scale_ahead = {};  // of nvfp4's scales, half a line for each 16 k
  TileRows* tiles;         // this thread's
};

// How x of one type is multiplied.
struct Family {
  int x_align;      // rows of x are readable, and zero beyond K, up to a multiple of this
  int x_rows;       // more than tile_tokens rows of x had better be readable to a multiple of this
  int tile_tokens;  // a panel is read once for so many, and `ahead` goes on in the next reading;
                    // 0: nothing is brought
  // How many bytes ahead of what is read once lines are brought, for one row of x and for more:
  // less, and memory is late; more, and they are lost before they are read.
  std::int64_t ahead[2][kNumCodes];
  void (*expand[kNumCodes])(const ExpandArgs&);
  void (*multiply[kNumCodes])(const TileArgs&);  // expanded panels
  // Panels of codes: decoded in the tile, worth it for up to decode_tokens tokens.
  void (*decode_multiply[kNumCodes])(const TileArgs&);
  int decode_tokens[kNumCodes];
};

struct Kernels {
  const char* name;
  void (*pack[kNumCodes])(const PackArgs&);
  // e4m3 scales of nvfp4 rows, [n][groups] -> scale_byte; to a whole number of padded(kCodeNvfp4,
  // k).
  void (*pack_scales)(const PackArgs&);
  Family f32;
  Family bf16;
  bool has_bf16;  // else x is widened to f32
  // Before a thread that multiplied goes on to anything else: others may read what it stored.
  void (*leave)(TileRows&);

  void (*rms_norm)(const NormRow&);
  void (*layer_norm)(const NormRow&);
  void (*silu_mul)(const SiluRow&);
  void (*rope)(const RopeRow&);
  void (*store)(const StoreRows&);
  void (*combine)(const CombineRow&);
  void (*attended)(const AttendedRow&);
  void (*softmax)(const SoftmaxArgs&);
  void (*merge)(const MergeArgs&);
  void (*merge_values)(const MergeValuesArgs&);
  void (*interleave)(const InterleaveArgs&);
  void (*attend_back)(const AttendBackArgs&);
  // out[i] = sum_h weights[h] * max(0, c[h][i]), i < kPanel
  void (*relu_sum)(const float* c, const float* weights, int heads, float* out);
  // out[i] = e4m3 * scale
  void (*dequantize)(const std::uint8_t* codes, float scale, void* out, bool to_bf16,
                     std::int64_t size);
  // out = x divided by a power of two and rounded to e4m3 values; returns the power: index_scale of
  // the largest |x|.
  float (*quantize)(const void* x, bool from_bf16, void* out, bool to_bf16, std::int64_t size);
  void (*convert)(const void* from, bool from_bf16, void* to, bool to_bf16, std::int64_t size);
};

}  // namespace glint::cpu
