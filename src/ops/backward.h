// Gradients: the backward passes of the ops, with a contract each (ops/backward/*.h).
//
// d<name> is the gradient of <name>: f32, of its shape, wherever it lies. Two rules let gradients
// lie beside the values, in memory of the same layout (autograd/shadow.h):
//
//   an op that wrote `out` reads dout in its backward pass and leaves zeros there;
//   an op that read `x` adds to dx.
//
// So what is written in place needs nothing special, memory that several values used in turn is
// right, and gradients are zero wherever nothing is pending. `op` holds the arguments of the
// forward op with the values that it saw. layer_norm, write_index and select_keys, the indexer's,
// have no backward pass: a choice of keys has no gradient; nor has permute.
//
// Each check() aborts on wrong shapes and types, as those of the ops do.
#pragma once

#include <memory>

#include "ops/backward/attention.h"
#include "ops/backward/cross_entropy.h"
#include "ops/backward/elementwise.h"
#include "ops/backward/linear.h"
#include "ops/backward/moe.h"
#include "ops/backward/norm.h"

// OP(Type, name): a method whose arguments are TypeArgs.
#define GLINT_FOR_EACH_BACKWARD(OP)          \
  OP(EmbedBack, embed_back)                  \
  OP(GatherRowsBack, gather_rows_back)       \
  OP(AddBack, add_back)                      \
  OP(SiluMulBack, silu_mul_back)             \
  OP(RmsNormBack, rms_norm_back)             \
  OP(RopeBack, rope_back)                    \
  OP(LinearBack, linear_back)                \
  OP(GroupedLinearBack, grouped_linear_back) \
  OP(PerHeadBack, per_head_back)             \
  OP(WriteLatentBack, write_latent_back)     \
  OP(SparseMlaBack, sparse_mla_back)         \
  OP(RouteBack, route_back)                  \
  OP(CombineBack, combine_back)              \
  OP(LogProbs, log_probs)                    \
  OP(CrossEntropy, cross_entropy)

namespace glint {

class Ops;
class PlanGradients;

// Made by Backend::make_gradients(), on its device.
class Gradients {
 public:
  virtual ~Gradients() = default;

#define GLINT_OP(Type, name) virtual void name(const Type##Args& args) = 0;
  GLINT_FOR_EACH_BACKWARD(GLINT_OP)
#undef GLINT_OP

  // The most that they took at once for themselves.
  virtual std::int64_t scratch_bytes() const { return 0; }
  // For planning: these on `ops`, which compute nothing (ops/plan_ops.h) and outlive the result.
  virtual std::unique_ptr<PlanGradients> make_plan(Ops& ops);
};

}  // namespace glint
