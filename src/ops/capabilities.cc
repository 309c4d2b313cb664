#include "ops/capabilities.h"

#include "base/str.h"

namespace glint {

const char* name_of(Op op) {
  static constexpr const char* kNames[] = {
#define GLINT_OP(Type, name) #name,
      GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP
  };
  return kNames[static_cast<int>(op)];
}

Capabilities all_capabilities(std::string backend) {
  return {.backend = std::move(backend),
          .ops = EnumSet<Op>::first(static_cast<int>(Op::kCount)),
          .activations = {DType::kF32, DType::kBF16},
          .weights = EnumSet<WeightFormat>::first(4),
          .latents = EnumSet<LatentFormat>::first(3),
          .indexes = EnumSet<IndexFormat>::first(3),
          .mixed_stacks = true,
          .gradients = true};
}

namespace {

template <class Enum>
std::string first_missing(const EnumSet<Enum>& have, const EnumSet<Enum>& need) {
  for (int i = 0; i < 32; ++i) {
    const Enum value = static_cast<Enum>(i);
    if (need.has(value) && !have.has(value)) return name_of(value);
  }
  return "";
}

}  // namespace

Status check_capabilities(const Capabilities& have, const Capabilities& need) {
  const auto lacks = [&](const std::string& what) {
    return unsupported(str("the ", have.backend, " backend has no ", what,
                           ", which this model needs; run it with --backend cpu"));
  };
  if (const auto op = first_missing(have.ops, need.ops); !op.empty()) return lacks(op);
  if (const auto type = first_missing(have.activations, need.activations); !type.empty()) {
    return lacks(type + " activations");
  }
  if (const auto format = first_missing(have.weights, need.weights); !format.empty()) {
    return lacks(format + " weights");
  }
  if (const auto format = first_missing(have.latents, need.latents); !format.empty()) {
    return lacks(format + " KV cache");
  }
  if (const auto format = first_missing(have.indexes, need.indexes); !format.empty()) {
    return lacks(format + " index keys");
  }
  if (need.mixed_stacks && !have.mixed_stacks)
    return lacks("experts of several formats in a layer");
  if (need.gradients && !have.gradients) return lacks("gradients");
  return Ok{};
}

}  // namespace glint
