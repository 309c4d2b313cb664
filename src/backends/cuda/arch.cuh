// The architecture that this is being compiled for.
#pragma once

#include "backends/cuda/arch.h"

namespace glint::cuda {

#ifdef __CUDA_ARCH__
inline constexpr Arch kArch = arch_of(__CUDA_ARCH__ / 10);
#else
inline constexpr Arch kArch = {};  // of the host, which compiles no kernel
#endif

}  // namespace glint::cuda
