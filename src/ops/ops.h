// Ops: the seam between the model and a backend.
//
// Primitives (op_list.h, one method each) are pure virtual: a backend that lacks one does not
// compile. Blocks (blocks/blocks.h) have a default that composes primitives; a backend may override
// them. Every method may return before the device is done; order is kept.
//
// Each op's check(), which every backend calls first, aborts on a wrong shape, type or stride and
// names it. It does not read memory: an index out of range is undefined behaviour, which only the
// reference backend finds.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "ops/blocks/blocks.h"
#include "ops/elementwise.h"
#include "ops/kv_write.h"
#include "ops/linear.h"
#include "ops/moe.h"
#include "ops/norm.h"
#include "ops/op_list.h"
#include "ops/rope.h"
#include "ops/sampling.h"
#include "ops/select_keys.h"
#include "ops/sequences.h"
#include "ops/sparse_mla.h"
#include "ops/weight_plan.h"
#include "tensor/arena.h"
#include "tensor/device.h"

namespace glint {

class Ops {
 public:
  virtual ~Ops() = default;

  virtual Device& device() = 0;

#define GLINT_OP(Type, name) virtual void name(const Type##Args& args) = 0;
  GLINT_FOR_EACH_OP(GLINT_OP)
#undef GLINT_OP

  // `scratch` holds temporaries; everything taken from it is given back on return.
#define GLINT_BLOCK(Type, name) virtual void name(const Type##Args& args, Arena& scratch);
  GLINT_FOR_EACH_BLOCK(GLINT_BLOCK)
  GLINT_FOR_EACH_MOE_PART(GLINT_BLOCK)
#undef GLINT_BLOCK
};

}  // namespace glint
