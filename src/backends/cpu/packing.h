// Packing: weights as panels (kernels.h), at load or a chunk at a time, and where their parts lie.
#pragma once

#include <span>

#include "backends/cpu/kernels.h"
#include "base/ceil_div.h"
#include "base/thread_pool.h"
#include "ops/ops.h"

namespace glint::cpu {

inline Code code_of(const Weight& weight) { return static_cast<Code>(weight.format); }
inline std::int64_t panels_of(const Weight& weight) { return ceil_div(weight.rows, kPanel); }

// The panel of `weight` that begins at row n0, columns [begin, end); end may lie beyond the last.
struct PanelPart {
  const Weight& weight;
  std::int64_t n0 = 0;
  std::int64_t begin = 0, end = weight.cols;
};

// Where the codes and the scales of a panel's part lie: to be fetched while another is multiplied.
struct PartAt {
  const std::byte* codes = nullptr;  // null: not known, or not packed
  const std::byte* scales = nullptr;
  std::int64_t bytes = 0;  // of the codes, up to those of a chunk
};
PartAt place_of(const PanelPart& part);

// Arguments that pack rows [n0, n0 + kPanel), columns [k0, k0 + k) of a weight in rows to `to`, and
// those for the nvfp4 scales.
PackArgs pack_rows(const Weight& weight, std::int64_t n0, std::int64_t k0, std::int64_t k,
                   std::byte* to);
PackArgs pack_row_scales(const Weight& weight, std::int64_t n0, std::int64_t k0, std::int64_t k,
                         std::byte* to);

// Weights in the order that the tiles read, once at load.
// Panels one after another, then the scales: nvfp4 in the order of scale_byte, fp8 as they were;
// then nvfp4's of all.
std::int64_t packed_bytes(const Weight& weight);
Weight packed(const Weight& weight, std::byte* to);
void pack(const Kernels& kernels, ThreadPool& pool, std::span<const PackedPair> pairs);

}  // namespace glint::cpu
