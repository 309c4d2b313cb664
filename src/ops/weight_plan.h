// WeightPlan: where a backend's weights go, and what has to be written there. It is made twice, to
// know how much memory there must be and to give it out, and then run: model/place_weights.h.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/weight.h"

namespace glint {

class Backend;

// A weight in host memory, in the order of its file, and where and as what it will be.
struct PackedPair {
  Weight from = {}, to = {};
};

class WeightPlan {
 public:
  static constexpr std::int64_t kAlign = 256;

  struct Copy {
    Tensor from = {}, to = {};
  };

  // For the memory of `backend`'s device that begins at `begin`, aligned to kAlign. Null: the
  // memory is not there yet, and nothing may be written by this plan.
  WeightPlan(Backend& backend, std::byte* begin);

  // Each becomes what it will be after the plan has run: packed, copied, or, where the backend
  // reads host memory best as it is, itself. What is empty, or placed already, stays so.
  void place(Weight& weight);
  void place(WeightStack& weights);
  void place(Tensor& tensor);  // dense

  std::int64_t bytes() const;         // taken so far
  std::int64_t packed_bytes() const;  // of `pairs`
  const std::vector<PackedPair>& pairs() const { return pairs_; }
  const std::vector<Copy>& copies() const { return copies_; }
  // Lists that stacks of several formats refer to; for the owner of the weights.
  std::vector<std::vector<Weight>> take_lists() { return std::move(lists_); }

 private:
  // The next `bytes`, aligned to kAlign.
  std::byte* take(std::int64_t bytes);
  bool is_placed(const Tensor& tensor) const;

  Backend& backend_;
  std::uintptr_t begin_, next_;
  std::vector<PackedPair> pairs_;
  std::vector<Copy> copies_;
  std::vector<std::vector<Weight>> lists_;
};

}  // namespace glint
