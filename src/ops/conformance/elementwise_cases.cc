// Cases of embed, gather_rows, add and silu_mul.
#include <algorithm>

#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

using Shape = std::pair<std::int64_t, std::int64_t>;  // T, D

std::vector<Shape> shapes(bool timing) {
  if (timing) return {{1, 6144}, {4096, 6144}};
  return {{1, 1}, {2, 3}, {3, 16}, {7, 6144}, {33, 100}, {64, 37}};
}

std::string name(DType dtype, Shape shape) {
  return str(short_name(dtype), ", ", shape.first, " x ", shape.second);
}

Case embed_case(DType table_dtype, DType dtype, Shape shape, bool is_part = false) {
  const auto [T, D] = shape;
  return {.op = "embed",
          .name = name(dtype, shape) + ", table " + short_name(table_dtype) +
                  (is_part ? ", of a part" : ""),
          // A table in bf16 becomes a residual stream in f32 whatever the activations.
          .need = {.ops = {Op::kEmbed}, .activations = {table_dtype}},
          .tolerance = tolerance_of(kElementwiseTolerance, dtype),
          .tokens = T,
          .prepare = [=, T = T, D = D](Workspace& ws) {
            std::vector<std::int32_t> ids(T);
            for (std::int64_t t = 0; t < T; ++t) ids[t] = static_cast<std::int32_t>(t * 5 % 11) - 1;
            const EmbedArgs args = {.ids = ws.tokens(ws.ints(ids, {T})),
                                    .table = ws.input(table_dtype, {is_part ? 4 : 10, D}),
                                    .out = ws.output("out", dtype, {T, D}),
                                    .is_part = is_part,
                                    .first = is_part ? 3 : 0};
            return Call{[=, &ws] { ws.ops().embed(args); }, cost(args)};
          }};
}

Case gather_rows_case(DType dtype, Shape shape) {
  const auto [R, D] = shape;
  return {.op = "gather_rows",
          .name = name(dtype, shape),
          .need = {.ops = {Op::kGatherRows}, .activations = {dtype}},
          .tolerance = tolerance_of(kElementwiseTolerance, dtype),
          .tokens = R,
          .prepare = [=, R = R, D = D](Workspace& ws) {
            std::vector<std::int32_t> rows(R);
            for (std::int64_t r = 0; r < R; ++r) rows[r] = static_cast<std::int32_t>(r * 3 % 6) - 1;
            const GatherRowsArgs args = {.x = ws.input(dtype, {5, D}),
                                         .rows = ws.tokens(ws.ints(rows, {R})),
                                         .out = ws.output("out", dtype, {R, D})};
            return Call{[=, &ws] { ws.ops().gather_rows(args); }, cost(args)};
          }};
}

Case add_case(DType dtype, DType y, Shape shape) {
  const auto [T, D] = shape;
  return {.op = "add",
          .name = name(y, shape) + (y == dtype ? "" : str(", to ", short_name(dtype))),
          .need = {.ops = {Op::kAdd}, .activations = {y}},
          .tolerance = tolerance_of(kElementwiseTolerance, dtype),
          .tokens = T,
          .prepare = [=, T = T, D = D](Workspace& ws) {
            const AddArgs args = {.x = ws.updated("x", ws.input(dtype, {T, D})),
                                  .y = ws.tokens(ws.input(y, {T, D}))};
            return Call{[=, &ws] { ws.ops().add(args); }, cost(args)};
          }};
}

Case silu_mul_case(DType dtype, Shape shape, bool in_place) {
  const auto [T, D] = shape;
  return {.op = "silu_mul",
          .name = name(dtype, shape) + (in_place ? ", in place" : ""),
          .need = {.ops = {Op::kSiluMul}, .activations = {dtype}},
          .tolerance = tolerance_of(kElementwiseTolerance, dtype),
          .tokens = T,
          .prepare = [=, T = T, D = D](Workspace& ws) {
            std::vector<float> gates = ws.noise(T * D, 4);
            const float extremes[] = {-0.f, 0, 100, -100, 1e-30f, -1e-30f, 30, -30, 3e4f, -3e4f};
            // Not in all cases: beside a result of 3e4 no other weighs anything.
            for (std::int64_t i = 0; in_place && i < std::min<std::int64_t>(T * D, 10); ++i) {
              gates[T * D - 1 - i] = extremes[i];
            }
            const Tensor gate = ws.input(dtype, {T, D}, gates);
            const Tensor up = ws.input(dtype, {T, D});
            const SiluMulArgs args = {
                .gate = ws.tokens(gate),
                .up = ws.tokens(up),
                .out = in_place ? ws.updated("gate", gate) : ws.output("out", dtype, {T, D})};
            return Call{[=, &ws] { ws.ops().silu_mul(args); }, cost(args)};
          }};
}

}  // namespace

void add_elementwise_cases(std::vector<Case>& cases, bool timing) {
  for (const DType dtype : kActivations) {
    if (timing && dtype == DType::kF32) continue;
    for (const Shape& shape : shapes(timing)) {
      cases.push_back(embed_case(dtype, dtype, shape));
      cases.push_back(gather_rows_case(dtype, shape));
      for (const DType y : kActivations) cases.push_back(add_case(dtype, y, shape));
      cases.push_back(silu_mul_case(dtype, shape, true));
      if (!timing) cases.push_back(silu_mul_case(dtype, shape, false));
    }
    if (!timing) {
      cases.push_back(embed_case(DType::kBF16, dtype, {7, 48}));
      cases.push_back(embed_case(DType::kF32, dtype, {7, 48}));
      cases.push_back(embed_case(DType::kBF16, dtype, {17, 48}, true));
    }
  }
}

}  // namespace glint::conformance
