// Launches the kernel that a product's shape chooses; one file in inst/ for each format.
#pragma once

#include "backends/cuda/linear/flow.cuh"

namespace glint::cuda {

inline bool is_multiple_of_16(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

// Whether rows of x and of the codes, of every matrix, start at multiples of 16 bytes.
template <WeightFormat kFormat>
bool is_aligned(const ProductArgs& p) {
  const auto is_stack_aligned = [&](const StackView& w) {
    return is_multiple_of_16(w.first.data) && w.data_step % 16 == 0 &&
           reinterpret_cast<std::uintptr_t>(w.first.scale) % 2 == 0 && w.scale_step % 2 == 0;
  };
  const int bytes = Codes<kFormat>::row_bytes(p.k);
  return bytes % 16 == 0 && p.k % 8 == 0 && is_multiple_of_16(p.x) && p.x_stride % 8 == 0 &&
         p.x_step % 8 == 0 && is_stack_aligned(p.weights) && is_stack_aligned(p.up);
}

template <WeightFormat kFormat, Epilogue kEpilogue>
void launch_as(const ProductArgs& p, const Gpu& gpu) {
  const bool aligned = is_aligned<kFormat>(p);
  switch (choose_kernel({.m = p.m,
                         .n = kEpilogue == Epilogue::kSiluMul ? 2 * p.n : p.n,
                         .k = p.k,
                         .matrices = p.matrices,
                         .grouped = p.offsets != nullptr,
                         .aligned = aligned},
                        gpu.arch, gpu.num_sms)) {
    case Kernel::kFew8:
      return launch_stream<kFormat, false, true, kEpilogue>(p, gpu);
    case Kernel::kCluster32:
      return aligned ? launch_stream<kFormat, true, true, kEpilogue>(p, gpu)
                     : launch_stream<kFormat, true, false, kEpilogue>(p, gpu);
    case Kernel::kTile:
      return aligned ? launch_tile<kFormat, kEpilogue, true>(p, gpu)
                     : launch_tile<kFormat, kEpilogue, false>(p, gpu);
    case Kernel::kFlow:
      return launch_flow<kFormat, kEpilogue>(p, gpu);
    case Kernel::kHalfWide:
      return launch_wide<kFormat, kHalfRows, 1, kEpilogue>(p, gpu);
    case Kernel::kWide:
      return launch_wide<kFormat, kWideRows, 1, kEpilogue>(p, gpu);
    case Kernel::kWidePairs:
      return launch_wide<kFormat, kWideRows, 2, kEpilogue>(p, gpu);
  }
}

template <WeightFormat kFormat>
void launch_product(const ProductArgs& p, Epilogue epilogue, const Gpu& gpu) {
  switch (epilogue) {
    case Epilogue::kBF16:
      return launch_as<kFormat, Epilogue::kBF16>(p, gpu);
    case Epilogue::kF32:
      return launch_as<kFormat, Epilogue::kF32>(p, gpu);
    case Epilogue::kAdd:
      return launch_as<kFormat, Epilogue::kAdd>(p, gpu);
    case Epilogue::kSiluMul:
      return launch_as<kFormat, Epilogue::kSiluMul>(p, gpu);
  }
}

}  // namespace glint::cuda
