// The instruction sets that the CPU backend has kernels for.
#pragma once

#include <string_view>

#include "base/result.h"

namespace glint {

// Each includes those before it, but for the order of rounding: results differ in the last bits.
enum class CpuIsa {
  kAvx2,        // with FMA
  kAvx512,      // F, BW, VL, DQ
  kAvx512Bf16,  // and VBMI
  kAmx,         // AMX-BF16, on top of kAvx512Bf16
  // kAmx with the tile instructions in software, bit for bit: for tests on CPUs without them.
  kAmxEmulated,
};

const char* name_of(CpuIsa isa);  // "avx2", "avx512", "avx512_bf16", "amx", "amx_emulated"
Result<CpuIsa> parse_cpu_isa(std::string_view name);

// Whether CPU and operating system can run it. For kAmx this asks Linux for the tile registers.
bool cpu_has(CpuIsa isa);
namespace cpu {
struct Kernels;
// The CPU must have `isa`.
const Kernels& kernels_for(CpuIsa isa);
}  // namespace cpu

// The last one that this CPU has, in hardware; an error without AVX2.
Result<CpuIsa> best_cpu_isa();

}  // namespace glint
