// top_k: the indices of the k largest of many floats.
#pragma once

#include <cstdint>
#include <span>

namespace glint::cpu {

// Writes into `out` the indices of the out.size() <= scores.size() largest scores, ascending. Ties
// go to the smaller index; -0.0 equals 0.0; NaN is below everything.
void top_k(std::span<const float> scores, std::span<std::int32_t> out);

}  // namespace glint::cpu
