// The sum of comm/tree.h over a number of parts that is known to the compiler.
#pragma once

namespace glint::cuda {

template <int kCount>
__device__ inline float tree(const float* parts) {
  if constexpr (kCount == 1) {
    return parts[0];
  } else {
    constexpr int kLeft = kCount > 4 ? 4 : kCount > 2 ? 2 : 1;  // the largest power of two below
    return tree<kLeft>(parts) + tree<kCount - kLeft>(parts + kLeft);
  }
}

// f(the number of ranks as a constant), for 1 to 8 ranks.
template <class F>
void with_ranks(int size, F&& f) {
  switch (size) {
#define GLINT_RANKS(n) \
  case n:              \
    return f(std::integral_constant<int, n>())
    GLINT_RANKS(1);
    GLINT_RANKS(2);
    GLINT_RANKS(3);
    GLINT_RANKS(4);
    GLINT_RANKS(5);
    GLINT_RANKS(6);
    GLINT_RANKS(7);
    GLINT_RANKS(8);
#undef GLINT_RANKS
    default:
      GLINT_CHECK(false, "windows are of 8 ranks at most");
  }
}

}  // namespace glint::cuda
