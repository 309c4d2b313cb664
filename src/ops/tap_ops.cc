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
  attention_ = &args.weights;
  Ops::attention_in(args, scratch);
  attention_ = nullptr;
}

}  // namespace glint
