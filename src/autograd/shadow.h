// Shadow: gradients of what lies in an arena, each at the same place of memory beside it, in f32.
//
// Whoever asks for the gradient of a view, a slice or a row gets the same view of the shadow, so
// that nothing needs to know how tensors alias. By the two rules of ops/backward.h the shadow is
// zero wherever nothing is pending, and memory that several values used in turn is right.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tensor/arena.h"

namespace glint {

void fill_zero(Device& device, std::byte* data, std::size_t bytes);
// Memory for gradients, or an empty buffer where the device has none left.
Buffer zeroed_memory(Device& device, std::size_t bytes);

class Shadow {
 public:
  // `arena` outlives it. Values of f32 or bf16 have gradients.
  explicit Shadow(Arena& arena) : arena_(arena) {}
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  // The gradient of `x`: f32, of its shape, for an op that adds to it. Something flows into x then.
  Tensor add_to(const Tensor& x);
  // The gradient of `x` for the op that wrote `x`.
  Tensor of(const Tensor& x);

  // Whether something flows into `x`, or into anything that shares memory with it.
  bool is_live(const Tensor& x) const;
  void set_live(const Tensor& x);
  void forget_live() { live_.clear(); }

  // Makes room for gradients of all that the arena has room for, while none is pending. False: the
  // device has no such memory.
  bool reserve();

  // Why the shadow is not zero everywhere but in the gradient of `except` (which may be empty), or
  // nothing if it is. Reads all of it, in host memory: for tests.
  std::string find_remains(const Tensor& except);

 private:
  // Gradients of one chunk of the arena: bf16 has a shadow of its own, twice as large.
  struct Chunk {
    Buffer of_f32 = {}, of_bf16 = {};
  };

  Arena& arena_;
  std::vector<Chunk> chunks_;
  std::vector<std::pair<const std::byte*, const std::byte*>> live_;
};

}  // namespace glint
