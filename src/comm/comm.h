// Comm: a group of ranks that work on the same model. Collectives only; everything else is local.
#pragma once

#include "tensor/tensor.h"

namespace glint {

class Comm {
 public:
  virtual ~Comm() = default;

  virtual int size() const = 0;
  // x = the sum of x over the group, in rank order, the same bits on every rank. Ordered with the
  // ops.
  virtual void all_reduce(const Tensor& x) = 0;
};

// A group of one: every collective is the identity.
class SelfComm final : public Comm {
 public:
  int size() const override { return 1; }
  void all_reduce(const Tensor&) override {}
};

// The groups that this rank belongs to. model/ calls them whatever their size.
struct Mesh {
  Comm& tp;  // ranks that share the heads of attention and the columns of FFNs
};

}  // namespace glint
