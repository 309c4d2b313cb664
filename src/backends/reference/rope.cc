// The reference of rope (ops/rope.h).
#include "backends/reference/numeric.h"
#include "backends/reference/reference_ops.h"

namespace glint {

using namespace reference;

void ReferenceOps::rope(const RopeArgs& args) {
  check(args);
  const std::int64_t pairs = args.x.dim(2) / 2;
  const std::int64_t apart = args.interleaved ? 1 : pairs, step = args.interleaved ? 2 : 1;
  with_float_type(args.x.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t t = 0; t < args.x.dim(0); ++t) {
      const std::int64_t position =
          index_or_padding(args.positions, t, args.table.dim(0), "position");
      if (position < 0) continue;
      const float* cos = args.table.row<float>(position);
      const float* sin = cos + pairs;
      for (std::int64_t h = 0; h < args.x.dim(1); ++h) {
        T* v = args.x.row<T>(t) + h * args.x.stride[1];
        for (std::int64_t j = 0; j < pairs; ++j) {
          T& a = v[j * step];
          T& b = v[j * step + apart];
          const double x = to_float(a), y = to_float(b);
          a = from_float<T>(static_cast<float>(x * cos[j] - y * sin[j]));
          b = from_float<T>(static_cast<float>(y * cos[j] + x * sin[j]));
        }
      }
    }
  });
}

}  // namespace glint
