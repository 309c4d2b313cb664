// Shapes and costs of the backward passes.
#include "ops/backend.h"
#include "ops/backward.h"
#include "ops/backward/gradient_check.h"
#include "tensor/shape_check.h"

namespace glint {

std::unique_ptr<Gradients> Backend::make_gradients() { return nullptr; }

namespace {

template <class WeightOrStack>
bool in_rows(const WeightOrStack& w) {
  return w.layout == WeightLayout::kRows;
}
bool has_gradient(const Weight& w) {
  return in_rows(w) && (w.format == WeightFormat::kF32 || w.format == WeightFormat::kBF16);
}
// Matrices that lie anywhere may have several formats: those are looked at one by one.
bool has_gradient(const WeightStack& w) { return has_gradient(w[0]); }

template <class Back>
void check_product(const GradientCheck& c, const Back& args) {
  c.require(!args.op.accumulate, "accumulate", "has no backward pass");
  c.of("dout", args.dout, args.op.out);
  c.if_wanted("dx", args.dx, args.op.x);
}

constexpr const char* kOnlyRows = "must be f32 or bf16, in rows, to have a gradient";

template <class Back>
void check_stack(const char* op, const Back& args) {
  check(args.op);
  const GradientCheck c(op);
  check_product(c, args);
  const WeightStack& w = args.op.weights;
  c.require(has_gradient(w), "weights", kOnlyRows);
  if (args.dweights) c.dense("dweights", args.dweights, {w.count, w.rows, w.cols});
}

// Arithmetic of the two products beside that of the forward one, whose operands are read again.
template <class Back>
OpCost product_cost(const Back& args, const Tensor& dweight) {
  const OpCost forward = cost(args.op);
  const int products = (args.dx ? 1 : 0) + (dweight ? 1 : 0);
  return {
      .flops = products * forward.flops,
      .bytes = forward.bytes + 2 * (bytes_of(args.dout) + bytes_of(args.dx) + bytes_of(dweight))};
}

// `bytes_twice`: operands that are read and zeroed, or added to.
OpCost row_cost(double flops_an_element, const Tensor& values, double bytes_once,
                double bytes_twice) {
  return {.flops = flops_an_element * static_cast<double>(values.size()),
          .bytes = bytes_once + 2 * bytes_twice};
}

}  // namespace

void check(const EmbedBackArgs& args) {
  check(args.op);
  const GradientCheck c("embed_back");
  GLINT_CHECK(!args.op.is_part, "embed_back: a part of a vocabulary has no gradients");
  c.of("dout", args.dout, args.op.out);
  if (args.dtable) c.dense("dtable", args.dtable, {args.op.table.dim(0), args.op.table.dim(1)});
}
OpCost cost(const EmbedBackArgs& args) {
  return row_cost(1, args.dout, bytes_of(args.op.ids), 2 * bytes_of(args.dout));
}

void check(const GatherRowsBackArgs& args) {
  check(args.op);
  const GradientCheck c("gather_rows_back");
  c.of("dout", args.dout, args.op.out);
  c.of("dx", args.dx, args.op.x);
}
OpCost cost(const GatherRowsBackArgs& args) {
  return row_cost(1, args.dout, bytes_of(args.op.rows), 2 * bytes_of(args.dout));
}

void check(const AddBackArgs& args) {
  check(args.op);
  const GradientCheck c("add_back");
  c.of("dx", args.dx, args.op.x);
  c.of("dy", args.dy, args.op.y);
}
OpCost cost(const AddBackArgs& args) {
  return row_cost(1, args.dx, bytes_of(args.dx), bytes_of(args.dy));
}

void check(const SiluMulBackArgs& args) {
  check(args.op);
  const GradientCheck c("silu_mul_back");
  c.of("dout", args.dout, args.op.out);
  c.of("dgate", args.dgate, args.op.gate);
  c.of("dup", args.dup, args.op.up);
}
OpCost cost(const SiluMulBackArgs& args) {
  return row_cost(12, args.dout, bytes_of(args.op.gate) + bytes_of(args.op.up),
                  bytes_of(args.dout) + bytes_of(args.dgate) + bytes_of(args.dup));
}

void check(const RopeBackArgs& args) {
  check(args.op);
  GradientCheck("rope_back").of("dx", args.dx, args.op.x);
}
OpCost cost(const RopeBackArgs& args) {
  return row_cost(3, args.dx, bytes_of(args.op.positions), bytes_of(args.dx));
}

void check(const RmsNormBackArgs& args) {
  check(args.op);
  const GradientCheck c("rms_norm_back");
  c.of("dout", args.dout, args.op.out);
  c.of("dx", args.dx, args.op.x);
  c.require(static_cast<bool>(args.ddelta) == static_cast<bool>(args.op.delta), "ddelta",
            "is given exactly where delta is");
  if (args.ddelta) c.of("ddelta", args.ddelta, args.op.delta);
  if (args.dweight) c.dense("dweight", args.dweight, {args.op.weight.dim(0)});
}
OpCost cost(const RmsNormBackArgs& args) {
  return row_cost(12, args.dout, bytes_of(args.op.x) + bytes_of(args.op.weight),
                  bytes_of(args.dout) + bytes_of(args.dx) + bytes_of(args.ddelta));
}

void check(const LinearBackArgs& args) {
  check(args.op);
  const GradientCheck c("linear_back");
  check_product(c, args);
  c.require(has_gradient(args.op.weight), "weight", kOnlyRows);
  if (args.dweight) c.dense("dweight", args.dweight, {args.op.weight.rows, args.op.weight.cols});
}
OpCost cost(const LinearBackArgs& args) { return product_cost(args, args.dweight); }

void check(const GroupedLinearBackArgs& args) { check_stack("grouped_linear_back", args); }
OpCost cost(const GroupedLinearBackArgs& args) { return product_cost(args, args.dweights); }

void check(const PerHeadBackArgs& args) { check_stack("per_head_back", args); }
OpCost cost(const PerHeadBackArgs& args) { return product_cost(args, args.dweights); }

namespace {

void check_cache(const GradientCheck& c, const LatentCache& cache, const Tensor& dcache) {
  c.require(cache.format != LatentFormat::kFp8, "the cache", "is fp8, which has no gradient");
  c.dense("dcache", dcache, {cache.num_slots, cache.latent_dim + cache.rope_dim});
}

}  // namespace

void check(const WriteLatentBackArgs& args) {
  check(args.op);
  const GradientCheck c("write_latent_back");
  check_cache(c, args.op.cache, args.dcache);
  c.of("dlatent", args.dlatent, args.op.latent);
  c.of("dk_rope", args.dk_rope, args.op.k_rope);
}
OpCost cost(const WriteLatentBackArgs& args) {
  return row_cost(1, args.dlatent, bytes_of(args.op.slots),
                  2 * (bytes_of(args.dlatent) + bytes_of(args.dk_rope)));
}

void check(const SparseMlaBackArgs& args) {
  check(args.op);
  const GradientCheck c("sparse_mla_back");
  c.require(static_cast<bool>(args.op.lse), "lse", "is not given");
  check_cache(c, args.op.kv, args.dcache);
  c.of("dout", args.dout, args.op.out);
  c.of("dq_latent", args.dq_latent, args.op.q_latent);
  c.of("dq_rope", args.dq_rope, args.op.q_rope);
}
OpCost cost(const SparseMlaBackArgs& args) {
  const OpCost forward = cost(args.op);
  // Scores, g . c, dq, and both terms of dcache, beside the forward pass' scores and sums.
  return {.flops = 2.5 * forward.flops,
          .bytes = forward.bytes + 2 * (bytes_of(args.dout) + bytes_of(args.dq_latent) +
                                        bytes_of(args.dq_rope) + bytes_of(args.dcache))};
}

void check(const RouteBackArgs& args) {
  check(args.op);
  const GradientCheck c("route_back");
  c.of("dweights", args.dweights, args.op.weights);
  c.of("dlogits", args.dlogits, args.op.logits);
}
OpCost cost(const RouteBackArgs& args) {
  return row_cost(16, args.dweights, bytes_of(args.op.ids) + bytes_of(args.dweights),
                  2 * bytes_of(args.dweights));
}

void check(const CombineBackArgs& args) {
  check(args.op);
  const GradientCheck c("combine_back");
  c.of("dout", args.dout, args.op.out);
  c.of("dy", args.dy, args.op.y);
  c.of("dweights", args.dweights, args.op.weights);
  c.require(static_cast<bool>(args.dshared) == static_cast<bool>(args.op.shared), "dshared",
            "is given exactly where shared is");
  if (args.dshared) c.of("dshared", args.dshared, args.op.shared);
}
OpCost cost(const CombineBackArgs& args) {
  return row_cost(4, args.dy, bytes_of(args.op.y) + bytes_of(args.op.weights),
                  bytes_of(args.dy) + bytes_of(args.dout) + bytes_of(args.dshared));
}

void check(const LogProbsArgs& args) {
  ShapeCheck c("log_probs");
  c.strided("logits", args.logits, DType::kF32, {"R", "V"});
  c.dense("targets", args.targets, DType::kI32, {"R"});
  c.dense("log_probs", args.log_probs, DType::kF32, {"R"});
  c.dense("entropies", args.entropies, DType::kF32, {"R"});
  c.require(args.temperature > 0, "temperature must be positive");
}
OpCost cost(const LogProbsArgs& args) {
  return row_cost(12, args.logits, bytes_of(args.logits), 0);
}

void check(const CrossEntropyArgs& args) {
  ShapeCheck c("cross_entropy");
  c.strided("logits", args.logits, DType::kF32, {"R", "V"});
  c.dense("targets", args.targets, DType::kI32, {"R"});
  c.dense("scales", args.scales, DType::kF32, {"R"});
  if (args.entropy_scales) c.dense("entropy_scales", args.entropy_scales, DType::kF32, {"R"});
  c.dense("log_probs", args.log_probs, DType::kF32, {"R"});
  c.require(args.temperature > 0, "temperature must be positive");
}
OpCost cost(const CrossEntropyArgs& args) {
  return row_cost(12, args.logits, 0, bytes_of(args.logits));
}

}  // namespace glint
