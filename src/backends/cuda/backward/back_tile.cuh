// Which part of a backward pass' product a thread block computes, and where it reads.
#pragma once

#include "backends/cuda/backward/back_product.h"
#include "backends/cuda/linear/group_tile.cuh"
#include "backends/cuda/vec.cuh"

namespace glint::cuda {

// out[m0 .. m_end) x [n0 ..) of one matrix, summed over [k_begin, k_end).
struct BackTile {
  int matrix = 0;
  std::int64_t m0 = 0, m_end = 0, n0 = 0;
  std::int64_t k_begin = 0, k_end = 0;

  __device__ bool is_empty() const { return m0 >= m_end || k_begin >= k_end; }
};

template <BackProductOf kOf, int kRows, int kColumns>
__device__ BackTile find_back_tile(const BackProduct& p) {
  BackTile t = {.matrix = static_cast<int>(blockIdx.z),
                .m0 = blockIdx.x * std::int64_t{kRows},
                .n0 = blockIdx.y * std::int64_t{kColumns},
                .k_end = p.k};
  t.m_end = min(t.m0 + kRows, p.m);
  if (!p.offsets) return t;
  if constexpr (kOf == BackProductOf::kInput) {
    const RowTile rows = GroupTiles<kRows>(p.offsets, p.matrices).at(blockIdx.x);
    t.matrix = rows.matrix, t.m0 = rows.first, t.m_end = rows.end;
  } else {
    t.k_begin = p.offsets[t.matrix], t.k_end = p.offsets[t.matrix + 1];
  }
  return t;
}

template <BackProductOf kOf>
dim3 back_grid(const BackProduct& p, int rows, int columns) {
  const bool by_rows = p.offsets && kOf == BackProductOf::kInput;
  const std::int64_t tiles =
      by_rows ? most_group_tiles(p.m, p.matrices, rows) : (p.m + rows - 1) / rows;
  return dim3(static_cast<unsigned>(tiles), static_cast<unsigned>((p.n + columns - 1) / columns),
              static_cast<unsigned>(by_rows ? 1 : p.matrices));
}

// Eight neighbours of g in memory: by input at row m and columns k .., by weight at row k and
// columns m ... Zeros beyond the tile.
template <BackProductOf kOf>
__device__ void load_g(float (&v)[kVec], const BackProduct& p, const BackTile& t, std::int64_t m,
                       std::int64_t k) {
  constexpr bool kByInput = kOf == BackProductOf::kInput;
  const bool there = m < t.m_end && k < t.k_end;
  // Grouped rows are all in one matrix.
  const float* const g = p.g + (p.offsets ? 0 : t.matrix * p.g_step) +
                         (kByInput ? m * p.g_stride + k : k * p.g_stride + m);
  load(v, g, there ? kByInput ? t.k_end - k : t.m_end - m : 0);
}

// Row k of b, of the tile's matrix; null beyond the tile.
template <BackProductOf kOf, class B>
__device__ const B* row_of_b(const BackProduct& p, const BackTile& t, std::int64_t k) {
  if (k >= t.k_end) return nullptr;
  const B* const b = static_cast<const B*>(p.b);
  if constexpr (kOf == BackProductOf::kWeight) {
    if (p.offsets) return b + (p.b_rows ? p.b_rows[k] : k) * p.b_stride;
  }
  return b + t.matrix * p.b_step + k * p.b_stride;
}

// Matrix of the tile in `out`: grouped rows are all in one, by input.
template <BackProductOf kOf>
__device__ float* out_of(const BackProduct& p, const BackTile& t) {
  return p.out + (p.offsets && kOf == BackProductOf::kInput ? 0 : t.matrix * p.out_step);
}

}  // namespace glint::cuda
