// The reference's backward passes of route and combine.
#include <algorithm>
#include <cmath>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_gradients.h"

namespace glint {

using namespace reference;

void ReferenceGradients::route_back(const RouteBackArgs& args) {
  check(args);
  const std::int64_t k = args.op.ids.dim(1), E = args.op.logits.dim(1);
  std::vector<double> s(k);
  for (std::int64_t t = 0; t < args.op.ids.dim(0); ++t) {
    float* const g = args.dweights.row<float>(t);
    const std::int32_t* const ids = args.op.ids.row<std::int32_t>(t);
    double sum = 1e-20, along = 0;
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t id = index_or_padding(args.op.ids, t * k + j, E, "expert");
      s[j] = id < 0 ? 0 : 1 / (1 + std::exp(-double{args.op.logits.row<float>(t)[id]}));
      sum += s[j];
      along += g[j] * s[j];
    }
    for (std::int64_t j = 0; j < k; ++j) {
      if (ids[j] < 0) continue;
      const double ds = args.op.norm_topk_prob ? (g[j] - along / sum) / sum : g[j];
      args.dlogits.row<float>(t)[ids[j]] +=
          static_cast<float>(ds * args.op.routed_scaling_factor * s[j] * (1 - s[j]));
    }
    std::fill_n(g, k, 0.0f);
  }
}

void ReferenceGradients::combine_back(const CombineBackArgs& args) {
  check(args);
  const std::int64_t k = args.op.places.dim(1), D = args.op.y.dim(1);
  for (std::int64_t t = 0; t < args.dout.dim(0); ++t) {
    float* const g = args.dout.row<float>(t);
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int64_t place =
          index_or_padding(args.op.places, t * k + j, args.op.y.dim(0), "place");
      if (place < 0) continue;
      const std::vector<float> y = floats_of(args.op.y.slice(0, place, 1));
      const double weight = args.op.weights.row<float>(t)[j];
      for (std::int64_t d = 0; d < D; ++d) {
        args.dy.row<float>(place)[d] += static_cast<float>(weight * g[d]);
      }
      args.dweights.row<float>(t)[j] += static_cast<float>(dot(g, y.data(), D));
    }
    for (std::int64_t d = 0; args.dshared && d < D; ++d) args.dshared.row<float>(t)[d] += g[d];
    std::fill_n(g, D, 0.0f);
  }
}

}  // namespace glint
