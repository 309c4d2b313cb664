// E2M1 (4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4, 6 with a sign bit) as scalar code.
#pragma once

#include <cstdint>

namespace glint {

constexpr float e2m1_to_float(int code) {
  constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const float magnitude = kMagnitudes[code & 7];
  return code & 8 ? -magnitude : magnitude;
}

// Nearest code, ties to the even code, saturating at +-6. The sign of a zero result is kept from
// `value`'s sign bit only when the value is not zero.
constexpr int float_to_e2m1(float value) {
  const float magnitude = value < 0 ? -value : value;
  // Midpoints between neighbours; a tie goes to the even code, so it rounds up exactly when the
  // upper code is even.
  constexpr float kMid[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
  int code = 0;
  while (code < 7 && (magnitude > kMid[code] || (magnitude == kMid[code] && code % 2 == 1))) ++code;
  return code | (value < 0 ? 8 : 0);
}

}  // namespace glint
