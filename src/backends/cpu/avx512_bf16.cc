// Kernels for AVX-512 with BF16 and VBMI.
#define GLINT_LANES 16
// Each part builds on those before it.
// clang-format off
#include "backends/cpu/vec.inc"
#include "backends/cpu/panels.inc"
#include "backends/cpu/bf16_tiles.inc"
// clang-format on
#include "backends/cpu/tables.h"

namespace glint::cpu {
namespace {

// 32 bf16 numbers times `factor`, rounded to nearest even.
GLINT_INLINE __m512i scaled(__m512i numbers, __m512 factor) {
  const __m512 even = _mm512_mul_ps((__m512)_mm512_slli_epi32(numbers, 16), factor);
  const __m512i odd_bits =
      _mm512_and_si512(numbers, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  const __m512 odd = _mm512_mul_ps((__m512)odd_bits, factor);
  const __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(even));
  const __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(odd));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

// Latents of an fp8 cache by the tables of the tiles, 64 at a time.
void dequantize_by_table(const std::uint8_t* codes, float scale, void* out, bool to_bf16,
                         std::int64_t size) {
  if (!to_bf16) return avx512_kernels().dequantize(codes, scale, out, false, size);
  const Decode<kCodeFp8> decode;
  const __m512 factor = _mm512_set1_ps(scale);
  // Unpacking takes the halves of each 16 bytes apart: this puts them in order first.
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  auto* to = static_cast<std::uint16_t*>(out);
  for (std::int64_t i = 0; i < size; i += 64) {
    const std::int64_t left = size - i;
    const __mmask64 mask = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
    __m512i numbers[2];
    decode(_mm512_permutexvar_epi64(order, _mm512_maskz_loadu_epi8(mask, codes + i)), numbers);
    _mm512_mask_storeu_epi16(to + i, static_cast<__mmask32>(mask), scaled(numbers[0], factor));
    _mm512_mask_storeu_epi16(to + i + 32, static_cast<__mmask32>(mask >> 32),
                             scaled(numbers[1], factor));
  }
}

// c [rows][kPanel] -> bf16, as store_rows but for numbers below 2^-126, which become zeros as they
// do in the tiles.
template <bool kHasUp, bool kPastCaches>
void store_bf16_rows(const StoreRows& all) {
  const auto rounded = [](V value) {
    return bits<V>(widen((VHalf)_mm512_cvtneps_pbh((__m512)value)) << 16);
  };
  for (std::int64_t r = 0; r < all.rows; ++r) {
    V value[2];
    for (int i = 0; i < 2; ++i) {
      const std::int64_t at = r * kPanel + i * kLanes;
      value[i] = load(all.c + at) * all.scale;
      if constexpr (kHasUp) {
        value[i] = silu(rounded(value[i])) * rounded(load(all.up + at) * all.up_scale);
      }
    }
    const auto line = (__m512i)_mm512_cvtne2ps_pbh((__m512)value[1], (__m512)value[0]);
    std::byte* const out = all.out + r * all.out_bytes;
    if constexpr (kPastCaches) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(out), line);
    } else {
      const std::uint64_t size = static_cast<std::uint64_t>(all.size);
      _mm512_mask_storeu_epi16(out, static_cast<__mmask32>((std::uint64_t{1} << size) - 1), line);
    }
  }
}
void store_rows_bf16(const StoreRows& all) {
  if (!all.is_bf16) return avx512_kernels().store(all);
  const bool whole_lines = all.size == kPanel && all.out_bytes % 64 == 0 &&
                           reinterpret_cast<std::uintptr_t>(all.out) % 64 == 0;
  if (all.past_caches && whole_lines) {
    all.up ? store_bf16_rows<true, true>(all) : store_bf16_rows<false, true>(all);
  } else {
    all.up ? store_bf16_rows<true, false>(all) : store_bf16_rows<false, false>(all);
  }
}

}  // namespace

const Kernels& avx512_bf16_kernels() {
  static const Kernels kKernels = [] {
    Kernels kernels = avx512_kernels();
    kernels.name = "avx512_bf16";
    kernels.bf16 = kBf16Family;
    kernels.has_bf16 = true;
    kernels.dequantize = dequantize_by_table;
    kernels.store = store_rows_bf16;
    kernels.leave = [](TileRows&) { _mm_sfence(); };
    return kernels;
  }();
  return kKernels;
}

}  // namespace glint::cpu
