// For tests of training: what is compared.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "train/trainer.h"

namespace glint {

// All that are trained, one after another.
inline std::vector<float> weights_of(Trainer& trainer) {
  ThreadPool pool(1);
  std::vector<float> all;
  for (const ModelTensor& tensor : trainer.ranks().trained()) {
    const std::vector<float> values = trainer.weights().read(tensor, pool);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace glint
