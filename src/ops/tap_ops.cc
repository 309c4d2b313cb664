#include "ops/tap_ops.h"

namespace glint {

void TapOps::linear(const LinearArgs& args) {
  if (taps_.linear) taps_.linear(args);
  inner_->linear(args);
}

void TapOps::grouped_linear(const GroupedLinearArgs& args) {
  if (taps_.grouped_linear) taps_.grouped_linear(args);
  inner_->grouped_linear(args);
}

void TapOps::write_latent(const WriteLatentArgs& args) {
  GLINT_CHECK(attention_, "a latent is written outside attention_in");
  if (taps_.latent) taps_.latent(*attention_, args.latent);
  inner_->write_latent(args);
}

void TapOps::attention_in(const AttentionInArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  attention_ = &args.weights;
  AttentionInArgs all = args;
  // The indexer's products are tapped even where no keys are scored, so that taps do not depend on
  // which tokens share a step.
  if (args.weights.indexer && !args.index_q) {
    const std::int64_t T = args.x.dim(0);
    const AttentionDims& d = args.dims;
    all.index_q = scratch.take(args.q.dtype, {T, d.index_n_heads, d.index_head_dim});
    all.index_weights = scratch.take(DType::kF32, {T, d.index_n_heads});
  }
  Ops::attention_in(all, scratch);
  attention_ = nullptr;
}

}  // namespace glint
