// E2M1 (4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4, 6 with a sign bit) as scalar code.
#pragma once

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
  // One for each midpoint between neighbours that the value is beyond; a tie goes to the even code.
  // Without branches, so that loops over it become vector code.
  const int code = (magnitude > 0.25f) + (magnitude >= 0.75f) + (magnitude > 1.25f) +
                   (magnitude >= 1.75f) + (magnitude > 2.5f) + (magnitude >= 3.5f) +
                   (magnitude > 5.0f);
  return code | (value < 0 ? 8 : 0);
}

}  // namespace glint
