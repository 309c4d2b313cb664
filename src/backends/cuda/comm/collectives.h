// The kernels of a group of GPUs (comm/comm.h): sums by the tree, rounded once, and moves.
#pragma once

#include <span>

#include "backends/cuda/comm/windows.h"
#include "backends/cuda/gpu.h"
#include "comm/comm.h"

namespace glint::cuda {

// Up to so many f32 every rank adds all for itself; above, each its share for all, which is one
// more meeting and less to read, but among two ranks.
inline constexpr std::int64_t kMostOneShot = 96 << 10;

enum class Shots { kByShape, kOne, kTwo };  // for measuring

void launch_all_reduce(const Windows& windows, const Tensor& partial, const Tensor& out,
                       const Gpu& gpu, Shots shots = Shots::kByShape);
void launch_reduce_scatter(const Windows& windows, const Tensor& partial, const Tensor& out,
                           const Gpu& gpu);
void launch_all_gather(const Windows& windows, const Tensor& mine, const Tensor& all,
                       const Gpu& gpu);
void launch_broadcast(const Windows& windows, const Tensor& x, int root, const Gpu& gpu);
// Offsets are read on the GPU. A row is of at most kSliceBytes.
void launch_exchange(const Windows& windows, const ExchangeArgs& args, const Gpu& gpu);

// out = the sum of `count` dense f32 parts of out's size, `stride` elements apart, on this GPU.
void launch_add_parts(const float* parts, int count, std::int64_t stride, const Tensor& out,
                      const Gpu& gpu);
// x = 0, dense, where `ended`, which the GPU reads, is not 0.
void launch_clear_if(const std::uint32_t* ended, const Tensor& x, const Gpu& gpu);
// to[i] = x[rows[i]], or x[i] without `rows`, for the rows of `to`.
void launch_pack_rows(const Tensor& x, const Tensor& rows, const Tensor& to, const Gpu& gpu);

}  // namespace glint::cuda
