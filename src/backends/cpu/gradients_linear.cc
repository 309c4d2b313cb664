// Backward passes of products: dx = g W and dW = g^T x are products with turned operands.
#include <algorithm>

#include "backends/cpu/cpu_gradients.h"
#include "backends/cpu/for_rows.h"
#include "base/ceil_div.h"

namespace glint {
namespace {

WeightFormat format_of(DType dtype) {
  return dtype == DType::kBF16 ? WeightFormat::kBF16 : WeightFormat::kF32;
}
Weight weight_of(const Tensor& x) {
  return {.format = format_of(x.dtype), .rows = x.dim(0), .cols = x.dim(1), .data = x};
}
// The type that g is multiplied in: bf16 where both operands of the forward product were.
DType product_type(DType x, WeightFormat weight) {
  return x == DType::kBF16 && weight == WeightFormat::kBF16 ? DType::kBF16 : DType::kF32;
}
// Memory of a copy of x as `to`, and of turned matrices.
Tensor take_cast(const Tensor& x, DType to, Arena& scratch) {
  if (x.rank == 2) return scratch.take_padded(to, {x.dim(0), x.dim(1)});
  return scratch.take_padded(to, {x.dim(0), x.dim(1), x.dim(2)});
}
WeightStack take_turned(const WeightStack& weights, Arena& scratch) {
  const DType dtype = weights[0].data.dtype;
  return {.format = format_of(dtype),
          .count = weights.count,
          .rows = weights.cols,
          .cols = weights.rows,
          .data = scratch.take(dtype, {weights.count, weights.cols, weights.rows})};
}
// A gradient is turned so many columns at a time: that of the head is as large as the logits.
constexpr std::int64_t kColumns = 512;

}  // namespace

// Through a tile in the first cache, so that both sides are read and written by lines.
void CpuGradients::turn(const Rows& rows, const Tensor& to) {
  constexpr std::int64_t kTile = 32;
  const std::int64_t R = rows.count, C = rows.x.dim(1);
  with_float_type(rows.x.dtype, [&]<class From>(From) {
    with_float_type(to.dtype, [&]<class To>(To) {
      cpu::for_rows(pool_, ceil_div(C, kTile), R * kTile, [&](std::int64_t tile, int) {
        const std::int64_t begin = tile * kTile, end = std::min(begin + kTile, C);
        To part[kTile][kTile];
        for (std::int64_t r0 = 0; r0 < R; r0 += kTile) {
          const std::int64_t r_end = std::min(r0 + kTile, R);
          for (std::int64_t r = r0; r < r_end; ++r) {
            const From* const from = rows.x.row<From>(rows.places ? rows.places[r] : r);
            for (std::int64_t c = begin; c < end; ++c) {
              part[c - begin][r - r0] = from_float<To>(to_float(from[c]));
            }
          }
          for (std::int64_t c = begin; c < end; ++c) {
            std::copy_n(part[c - begin], r_end - r0, to.ptr<To>() + c * R + r0);
          }
        }
      });
    });
  });
}

Tensor CpuGradients::turned(const Rows& rows, DType to) {
  const Tensor out = scratch_.take(to, {rows.x.dim(1), rows.count});
  turn(rows, out);
  return out;
}

template <class Wanted>
WeightStack CpuGradients::turned(const WeightStack& weights, Wanted wanted) {
  const WeightStack all = take_turned(weights, scratch_);
  for (std::int64_t i = 0; i < weights.count; ++i) {
    const Tensor matrix = weights[i].data;
    GLINT_CHECK(matrix.dtype == all.data.dtype, "the matrices of a stack have one type");
    if (wanted(i)) turn({.x = matrix, .count = matrix.dim(0)}, all.data[i]);
  }
  return all;
}

Tensor CpuGradients::cast(const Tensor& x, DType to) {
  if (x.dtype == to) return x;
  const Tensor out = take_cast(x, to, scratch_);
  const std::int64_t heads = x.rank == 3 ? x.dim(1) : 1, size = x.dim(-1);
  cpu::for_rows(pool_, x.dim(0), heads * size, [&](std::int64_t t, int) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t from = t * x.stride[0] + (x.rank == 3 ? h * x.stride[1] : 0);
      const std::int64_t at = t * out.stride[0] + (x.rank == 3 ? h * out.stride[1] : 0);
      kernels_.convert(x.data + from * glint::size_of(x.dtype), x.dtype == DType::kBF16,
                       out.data + at * glint::size_of(to), to == DType::kBF16, size);
    }
  });
  return out;
}

void CpuGradients::set_zero(const Tensor& x) {
  const std::int64_t heads = x.rank == 3 ? x.dim(1) : 1, size = x.dim(-1);
  cpu::for_rows(pool_, x.dim(0), heads * size, [&](std::int64_t t, int) {
    for (std::int64_t h = 0; h < heads; ++h) {
      std::fill_n(x.row<float>(t) + (x.rank == 3 ? h * x.stride[1] : 0), size, 0.0f);
    }
  });
}

void CpuGradients::add_weight_gradient(const Rows& g, const Rows& x, DType type,
                                       const Tensor& dweight) {
  const Arena::Scope scope(scratch_);
  const Weight inputs = weight_of(turned(x, x.x.dtype));
  const std::int64_t N = dweight.dim(0);
  for (std::int64_t n = 0; n < N; n += kColumns) {
    const Arena::Scope strip(scratch_);
    const std::int64_t columns = std::min(kColumns, N - n);
    Rows part = g;
    part.x = g.x.slice(1, n, columns);
    ops_.linear({.x = turned(part, type),
                 .weight = inputs,
                 .out = dweight.slice(0, n, columns),
                 .accumulate = true});
  }
}

void CpuGradients::linear_back(const LinearBackArgs& args) {
  check(args);
  const Arena::Scope scope(scratch_);
  const std::int64_t T = args.dout.dim(0);
  if (T == 0) return;
  const DType type = product_type(args.op.x.dtype, args.op.weight.format);
  if (args.dx) {
    const Arena::Scope turned_weight(scratch_);
    const Tensor& w = args.op.weight.data;
    ops_.linear({.x = cast(args.dout, type),
                 .weight = weight_of(turned({.x = w, .count = w.dim(0)}, w.dtype)),
                 .out = args.dx,
                 .accumulate = true});
  }
  if (args.dweight) {
    add_weight_gradient({.x = args.dout, .count = T}, {.x = args.op.x, .count = T}, type,
                        args.dweight);
  }
  set_zero(args.dout);
}

void CpuGradients::grouped_linear_back(const GroupedLinearBackArgs& args) {
  check(args);
  const Arena::Scope scope(scratch_);
  const WeightStack& weights = args.op.weights;
  const std::int64_t E = weights.count, K = args.op.x.dim(1);
  const std::int32_t* const offsets = args.op.offsets.ptr<std::int32_t>();
  const std::int32_t* const rows = args.op.rows ? args.op.rows.ptr<std::int32_t>() : nullptr;
  const std::int64_t R = offsets[E];
  const auto count = [&](std::int64_t e) { return offsets[e + 1] - offsets[e]; };
  if (R == 0) return;
  const DType type = product_type(args.op.x.dtype, weights[0].format);
  if (args.dx) {
    const Arena::Scope turned_weights(scratch_);
    const bool in_place = !rows && args.dx.is_dense();
    const Tensor part = in_place ? args.dx.slice(0, 0, R) : scratch_.take(DType::kF32, {R, K});
    ops_.grouped_linear({.x = cast(args.dout.slice(0, 0, R), type),
                         .offsets = args.op.offsets,
                         .weights = turned(weights, [&](std::int64_t e) { return count(e) > 0; }),
                         .out = part,
                         .accumulate = in_place});
    if (!in_place) {
      // The rows that came from each row of x, in their order.
      const std::int64_t S = args.dx.dim(0);
      std::vector<std::int32_t> ends(static_cast<std::size_t>(S + 1)), from(R);
      const auto source = [&](std::int64_t r) { return rows ? rows[r] : r; };
      for (std::int64_t r = 0; r < R; ++r) {
        GLINT_CHECK(source(r) >= 0 && source(r) < S, "a row beyond x");
        ++ends[source(r) + 1];
      }
      for (std::int64_t s = 0; s < S; ++s) ends[s + 1] += ends[s];
      std::vector<std::int32_t> next(ends.begin(), ends.end() - 1);
      for (std::int64_t r = 0; r < R; ++r) from[next[source(r)]++] = static_cast<std::int32_t>(r);
      cpu::for_rows(pool_, S, K, [&](std::int64_t s, int) {
        float* const to = args.dx.row<float>(s);
        for (std::int32_t i = ends[s]; i < ends[s + 1]; ++i) {
          const float* const add = part.row<float>(from[i]);
          for (std::int64_t k = 0; k < K; ++k) to[k] += add[k];
        }
      });
    }
  }
  for (std::int64_t e = 0; args.dweights && e < E; ++e) {
    if (count(e) == 0) continue;
    const Rows x = rows ? Rows{.x = args.op.x, .places = rows + offsets[e], .count = count(e)}
                        : Rows{.x = args.op.x.slice(0, offsets[e], count(e)), .count = count(e)};
    add_weight_gradient({.x = args.dout.slice(0, offsets[e], count(e)), .count = count(e)}, x, type,
                        args.dweights[e]);
  }
  set_zero(args.dout.slice(0, 0, R));
}

void CpuGradients::per_head_back(const PerHeadBackArgs& args) {
  check(args);
  const Arena::Scope scope(scratch_);
  const std::int64_t T = args.dout.dim(0), H = args.dout.dim(1);
  if (T == 0) return;
  const DType type = product_type(args.op.x.dtype, args.op.weights[0].format);
  if (args.dx) {
    const Arena::Scope turned_weights(scratch_);
    ops_.per_head({.x = cast(args.dout, type),
                   .weights = turned(args.op.weights, [](std::int64_t) { return true; }),
                   .out = args.dx,
                   .accumulate = true});
  }
  for (std::int64_t h = 0; args.dweights && h < H; ++h) {
    add_weight_gradient({.x = args.dout.head(h), .count = T}, {.x = args.op.x.head(h), .count = T},
                        type, args.dweights[h]);
  }
  set_zero(args.dout);
}

// The memory of the passes that take any, in their order. Every weight counts as trained.
class CpuGradients::Plan final : public PlanGradients {
 public:
  Plan(CpuGradients& of, Ops& ops) : of_(of), ops_(ops), scratch_(ops.device()) {}

  std::int64_t scratch_bytes() const override {
    return static_cast<std::int64_t>(scratch_.high_water());
  }
  bool reserve() override { return of_.scratch_.reserve(scratch_.high_water()); }

  void rms_norm_back(const RmsNormBackArgs& args) override {
    check(args);
    const Arena::Scope scope(scratch_);
    take_parts(args, scratch_);
  }

  void linear_back(const LinearBackArgs& args) override {
    check(args);
    const Arena::Scope scope(scratch_);
    const Weight& w = args.op.weight;
    const DType type = product_type(args.op.x.dtype, w.format);
    if (args.dx) {
      const Arena::Scope turned_weight(scratch_);
      ops_.linear({.x = cast(args.dout, type),
                   .weight = weight_of(scratch_.take(w.data.dtype, {w.cols, w.rows})),
                   .out = args.dx,
                   .accumulate = true});
    }
    add_weight_gradient(args.dout, args.op.x, args.dout.dim(0), type);
  }

  // All rows may be of one expert.
  void grouped_linear_back(const GroupedLinearBackArgs& args) override {
    check(args);
    const Arena::Scope scope(scratch_);
    const WeightStack& weights = args.op.weights;
    const std::int64_t R = args.dout.dim(0), S = args.op.x.dim(0);
    const DType type = product_type(args.op.x.dtype, weights[0].format);
    if (args.dx) {
      const Arena::Scope turned_weights(scratch_);
      const bool in_place = !args.op.rows && args.dx.is_dense();
      ops_.grouped_linear(
          {.x = cast(args.dout, type),
           .offsets = args.op.offsets,
           .weights = take_turned(weights, scratch_),
           .out = in_place ? args.dx : scratch_.take(DType::kF32, {R, args.op.x.dim(1)}),
           .accumulate = in_place});
    }
    add_weight_gradient(args.dout, args.op.x, std::min(R, S), type);
  }

  void per_head_back(const PerHeadBackArgs& args) override {
    check(args);
    const Arena::Scope scope(scratch_);
    const DType type = product_type(args.op.x.dtype, args.op.weights[0].format);
    if (args.dx) {
      const Arena::Scope turned_weights(scratch_);
      ops_.per_head({.x = cast(args.dout, type),
                     .weights = take_turned(args.op.weights, scratch_),
                     .out = args.dx,
                     .accumulate = true});
    }
    add_weight_gradient(args.dout.head(0), args.op.x.head(0), args.dout.dim(0), type);
  }

  void sparse_mla_back(const SparseMlaBackArgs& args) override {
    check(args);
    const Arena::Scope scope(scratch_);
    plan_blocks(args.op, of_.pool_, scratch_);
  }

 private:
  Tensor cast(const Tensor& x, DType to) { return x.dtype == to ? x : take_cast(x, to, scratch_); }
  void add_weight_gradient(const Tensor& g, const Tensor& x, std::int64_t count, DType type) {
    const Arena::Scope scope(scratch_);
    const Weight inputs = weight_of(scratch_.take(x.dtype, {x.dim(1), count}));
    const std::int64_t columns = std::min(kColumns, g.dim(1));
    const Tensor turned = scratch_.take(type, {columns, count});
    ops_.linear({.x = turned,
                 .weight = inputs,
                 .out = Tensor(turned.data, DType::kF32, {columns, x.dim(1)}),
                 .accumulate = true});
  }

  CpuGradients& of_;
  Ops& ops_;
  Arena scratch_;
};

std::unique_ptr<PlanGradients> CpuGradients::make_plan(Ops& ops) {
  return std::make_unique<Plan>(*this, ops);
}

}  // namespace glint
