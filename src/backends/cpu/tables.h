// The kernel tables, one for each instruction set; isa.h says which of them this CPU can run. Only
// plain types here: the sources compiled for AVX-512 include it.
#pragma once

#include "backends/cpu/kernels.h"

namespace glint::cpu {

const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& avx512_bf16_kernels();
const Kernels& amx_kernels();
const Kernels& amx_emulated_kernels();  // runs where avx512_bf16 does

}  // namespace glint::cpu
