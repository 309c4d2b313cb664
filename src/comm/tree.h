// The order in which ranks' parts are added: a fixed binary tree, ((0 + 1) + (2 + 3)) + ..., split
// at the largest power of two below the number of parts. It is the order of one rank that adds as
// many slices itself, so that 1, 2, 4 and 8 ranks with 8 slices in all have the same bits.
#pragma once

namespace glint {

// The sum over parts [0, count), count >= 1, where part(i) is the i-th.
template <class Part>
constexpr float tree_sum(int count, Part&& part) {
  // Sums of the 2^l parts before the present one that wait for their other half; slot l.
  float waiting[32];
  for (int i = 0; i < count; ++i) {
    float sum = part(i);
    int level = 0;
    for (; i >> level & 1; ++level) sum = waiting[level] + sum;
    waiting[level] = sum;
  }
  // Now `waiting` holds a tree for each set bit of `count`, the smallest over the last parts.
  int level = 0;
  while (!(count >> level & 1)) ++level;  // std::countr_zero is 32 in CUDA's device code
  float sum = waiting[level];
  for (++level; count >> level; ++level) {
    if (count >> level & 1) sum = waiting[level] + sum;
  }
  return sum;
}

}  // namespace glint
