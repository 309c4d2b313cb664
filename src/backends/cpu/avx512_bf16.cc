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

// c [rows][kPanel] -> bf16, as store_rows but for numbers below 2^-126, which become zeros as they do
// in the tiles.
template <bool kHasUp>
void store_bf16_rows(const StoreRows& all) {
  const auto rounded = [](V value) { return _mm512_cvtneps_pbh((__m512)value); };
  const auto widened = [](__m256bh value) {
    return bits<V>(widen((VHalf)value) << 16);
  };
  for (std::int64_t r = 0; r < all.rows; ++r) {
    std::byte* out = all.out + r * all.out_bytes;
    for (int n = 0; n < all.size; n += kLanes) {
      V value = load(all.c + r * kPanel + n) * all.scale;
      if constexpr (kHasUp) {
        const V up = load(all.up + r * kPanel + n) * all.up_scale;
        value = silu(widened(rounded(value))) * widened(rounded(up));
      }
      const int left = all.size - n;
      const auto mask = static_cast<__mmask16>(left >= kLanes ? 0xffff : (1 << left) - 1);
      _mm256_mask_storeu_epi16(out + n * 2, mask, (__m256i)rounded(value));
    }
  }
}
void store_rows_bf16(const StoreRows& all) {
  if (!all.is_bf16) return avx512_kernels().store(all);
  all.up ? store_bf16_rows<true>(all) : store_bf16_rows<false>(all);
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
    return kernels;
  }();
  return kKernels;
}

}  // namespace glint::cpu
