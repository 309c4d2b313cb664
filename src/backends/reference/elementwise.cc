// The reference of embed, gather_rows, add and silu_mul (ops/elementwise.h).
#include <cmath>
#include <cstring>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_ops.h"

namespace glint {

using namespace reference;

void ReferenceOps::embed(const EmbedArgs& args) {
  check(args);
  const std::int64_t D = args.table.dim(1);
  for (std::int64_t t = 0; t < args.ids.dim(0); ++t) {
    std::vector<float> row(D);
    std::int64_t at = args.ids.ptr<std::int32_t>()[t];
    if (args.is_part) {
      at -= args.first;
      if (at >= args.table.dim(0)) at = -1;
    } else if (at >= 0) {
      at = index_at(args.ids, t, args.table.dim(0), "token");
    }
    if (at >= 0) row = floats_of(args.table.slice(0, at, 1));
    with_float_type(args.out.dtype, [&](auto type) {
      using T = decltype(type);
      for (std::int64_t d = 0; d < D; ++d) args.out.row<T>(t)[d] = from_float<T>(row[d]);
    });
  }
}

void ReferenceOps::gather_rows(const GatherRowsArgs& args) {
  check(args);
  const std::int64_t bytes = args.x.dim(1) * size_of(args.x.dtype);
  for (std::int64_t r = 0; r < args.rows.dim(0); ++r) {
    const std::int64_t source = index_or_padding(args.rows, r, args.x.dim(0), "row");
    std::byte* const out = args.out.data + r * bytes;
    if (source < 0) {
      std::memset(out, 0, bytes);
    } else {
      std::memcpy(out, args.x.data + source * bytes, bytes);
    }
  }
}

void ReferenceOps::add(const AddArgs& args) {
  check(args);
  const std::vector<float> y = floats_of(args.y);
  with_float_type(args.x.dtype, [&](auto type) {
    using T = decltype(type);
    T* x = args.x.ptr<T>();
    for (std::size_t i = 0; i < y.size(); ++i) x[i] = from_float<T>(to_float(x[i]) + y[i]);
  });
}

void ReferenceOps::silu_mul(const SiluMulArgs& args) {
  check(args);
  with_float_type(args.gate.dtype, [&](auto type) {
    using T = decltype(type);
    for (std::int64_t i = 0; i < args.gate.size(); ++i) {
      const double gate = to_float(args.gate.ptr<T>()[i]), up = to_float(args.up.ptr<T>()[i]);
      const double value = gate / (1 + std::exp(-gate)) * up;
      args.out.ptr<T>()[i] = from_float<T>(static_cast<float>(value));
    }
  });
}

}  // namespace glint
