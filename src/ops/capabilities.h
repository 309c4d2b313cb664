// A backend's capabilities as data: the loader compares them with the needs of a model and its
// configuration before the first weight is read, and fails with one sentence.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "ops/kv_layout.h"
#include "ops/op_list.h"
#include "tensor/weight.h"

namespace glint {

enum class Op : std::uint8_t {
#define GLINT_OP(Type, name) k##Type,
  GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP
      kCount
};
const char* name_of(Op op);  // "rms_norm"

// A set of the values of a small enum.
template <class Enum>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<Enum> values) {
    for (const Enum value : values) add(value);
  }
  constexpr void add(Enum value) { bits_ |= 1u << static_cast<int>(value); }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(Enum value) const { return bits_ >> static_cast<int>(value) & 1; }
  static constexpr EnumSet first(int count) {
    EnumSet set;
    set.bits_ = (1u << count) - 1;
    return set;
  }

 private:
  std::uint32_t bits_ = 0;
};

struct Capabilities {
  std::string backend = {};
  EnumSet<Op> ops = {};
  EnumSet<DType> activations = {};  // kF32, kBF16; the residual stream is f32 with either
  EnumSet<WeightFormat> weights = {};
  EnumSet<LatentFormat> latents = {};
  EnumSet<IndexFormat> indexes = {};
  bool mixed_stacks = false;  // a layer's experts in several formats, or anywhere in memory
  bool gradients = false;     // the backward passes (ops/backward.h)
};

// Everything that a full backend runs.
Capabilities all_capabilities(std::string backend);

// kUnsupported, naming the first thing that `have` lacks of `need`:
// "the cuda backend has no select_keys, which this model needs; run it with --backend cpu".
Status check_capabilities(const Capabilities& have, const Capabilities& need);

}  // namespace glint
