#include "backends/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>

#include "backends/cpu/tables.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr const char* kNames[] = {"avx2", "avx512", "avx512_bf16", "amx", "amx_emulated"};

bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  if (!(d & kAmxBf16) || !(d & kAmxTile)) return false;
  // Linux saves 8 KiB of tile data only for processes that ask (arch/x86/include/uapi/asm/prctl.h).
  constexpr long kReqXcompPerm = 0x1023, kXtileData = 18;
  return ::syscall(SYS_arch_prctl, kReqXcompPerm, kXtileData) == 0;
}

}  // namespace

const char* name_of(CpuIsa isa) { return kNames[static_cast<int>(isa)]; }

Result<CpuIsa> parse_cpu_isa(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<CpuIsa>(i);
  }
  return invalid(str(
      quoted(name), " is no instruction set; one of avx2, avx512, avx512_bf16, amx, amx_emulated"));
}

bool cpu_has(CpuIsa isa) {
  // These ask XGETBV too, that is whether the operating system saves the registers.
  switch (isa) {
    case CpuIsa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case CpuIsa::kAvx512:
      return cpu_has(CpuIsa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512dq");
    case CpuIsa::kAvx512Bf16:
      return cpu_has(CpuIsa::kAvx512) && __builtin_cpu_supports("avx512vbmi") &&
             __builtin_cpu_supports("avx512bf16");
    case CpuIsa::kAmx:
      return cpu_has(CpuIsa::kAvx512Bf16) && has_amx();
    case CpuIsa::kAmxEmulated:
      return cpu_has(CpuIsa::kAvx512Bf16);
  }
  return false;
}

const cpu::Kernels& cpu::kernels_for(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kAvx2:
      return avx2_kernels();
    case CpuIsa::kAvx512:
      return avx512_kernels();
    case CpuIsa::kAvx512Bf16:
      return avx512_bf16_kernels();
    case CpuIsa::kAmx:
      return amx_kernels();
    case CpuIsa::kAmxEmulated:
      return amx_emulated_kernels();
  }
  GLINT_CHECK(false, "no such instruction set");
}

Result<CpuIsa> best_cpu_isa() {
  for (const CpuIsa isa : {CpuIsa::kAmx, CpuIsa::kAvx512Bf16, CpuIsa::kAvx512, CpuIsa::kAvx2}) {
    if (cpu_has(isa)) return isa;
  }
  return unsupported("this CPU has no AVX2, which the cpu backend needs; use --backend reference");
}

}  // namespace glint
