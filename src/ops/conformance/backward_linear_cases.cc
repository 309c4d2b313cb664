// Cases of the backward passes of linear, grouped_linear and per_head.
#include <algorithm>

#include "ops/conformance/backward_cases.h"

namespace glint::conformance {
namespace {

// Gradients that a case asks for.
enum class Wanted { kBoth, kInput, kWeight };

const char* name_of(Wanted wanted) {
  return wanted == Wanted::kBoth ? "" : wanted == Wanted::kInput ? ", dx alone" : ", dW alone";
}

std::string name_of(DType x, WeightFormat format) {
  return str(short_name(x), " x ", name_of(format));
}
// Where both are bf16, the gradient may be rounded too.
double tolerance_of(DType x, WeightFormat format) {
  const bool both = x == DType::kBF16 && format == WeightFormat::kBF16;
  return both ? kLinearBackTolerance.bf16 : kLinearBackTolerance.f32;
}
Capabilities needs(DType x, WeightFormat format) {
  Capabilities need = back_needs(x);
  need.weights = {format};
  return need;
}
// The weights lie in rows whatever the backend packs.
Weight rows_of(Workspace& ws, WeightFormat format, std::int64_t N, std::int64_t K) {
  const DType dtype = format == WeightFormat::kF32 ? DType::kF32 : DType::kBF16;
  return {.format = format, .rows = N, .cols = K, .data = ws.input(dtype, {N, K})};
}
WeightStack stack_of_rows(Workspace& ws, WeightFormat format, std::int64_t count, std::int64_t N,
                          std::int64_t K) {
  const DType dtype = format == WeightFormat::kF32 ? DType::kF32 : DType::kBF16;
  return {.format = format,
          .count = count,
          .rows = N,
          .cols = K,
          .data = ws.input(dtype, {count, N, K})};
}

struct LinearShape {
  std::int64_t T, N, K;
  Wanted wanted = Wanted::kBoth;
  Pad pad = {};  // of x, out and their gradients
};

Case linear_case(DType dtype, WeightFormat format, LinearShape s) {
  return {.op = "linear_back",
          .name = str(name_of(dtype, format), ", T ", s.T, ", ", s.N, " x ", s.K, name_of(s.wanted),
                      s.pad.back ? ", strided" : ""),
          .need = needs(dtype, format),
          .tolerance = tolerance_of(dtype, format),
          .tokens = s.T,
          .prepare = [=](Workspace& ws) {
            LinearBackArgs args = {.op = {.x = ws.tokens(ws.input(dtype, {s.T, s.K}, s.pad)),
                                          .weight = rows_of(ws, format, s.N, s.K),
                                          .out = ws.tokens(ws.input(dtype, {s.T, s.N}, s.pad))}};
            args.dout = gradient(ws, "dout", {s.T, s.N}, s.pad);
            if (s.wanted != Wanted::kWeight) args.dx = gradient(ws, "dx", {s.T, s.K}, s.pad);
            if (s.wanted != Wanted::kInput) {
              args.dweight = whole_gradient(ws, "dweight", {s.N, s.K});
            }
            return back_call(ws, &Gradients::linear_back, args, cost(args));
          }};
}

struct GroupShape {
  std::vector<int> counts;  // rows of each expert
  std::int64_t N, K;
  bool gathered;
  int padding = 0;
  Wanted wanted = Wanted::kBoth;
};

Case grouped_case(DType dtype, WeightFormat format, const GroupShape& s) {
  std::int64_t R = s.padding;
  for (const int count : s.counts) R += count;
  return {.op = "grouped_linear_back",
          .name = str(name_of(dtype, format), ", ", s.counts.size(), " experts, ", R, " rows, ",
                      s.N, " x ", s.K, s.gathered ? ", gathered" : "", s.padding ? ", padding" : "",
                      name_of(s.wanted)),
          .need = needs(dtype, format),
          .tolerance = tolerance_of(dtype, format),
          .prepare = [=](Workspace& ws) {
            const auto E = static_cast<std::int64_t>(s.counts.size());
            const std::int64_t S =
                s.gathered ? std::max<std::int64_t>(R / 2, std::ranges::max(s.counts)) : R;
            std::vector<std::int32_t> offsets = {0}, rows;
            for (const int count : s.counts) offsets.push_back(offsets.back() + count);
            for (std::int64_t r = 0; r < R; ++r) {
              rows.push_back(r < offsets.back() ? static_cast<std::int32_t>(r * 11 % S) : -1);
            }
            GroupedLinearBackArgs args = {
                .op = {.x = ws.input(dtype, {S, s.K}, s.gathered ? Pad{0, 32} : Pad{}),
                       .offsets = ws.ints(offsets, {E + 1}),
                       .weights = stack_of_rows(ws, format, E, s.N, s.K),
                       .out = ws.input(dtype, {R, s.N})}};
            if (s.gathered) args.op.rows = ws.ints(rows, {R});
            args.dout = whole_gradient(ws, "dout", {R, s.N});
            if (s.wanted != Wanted::kWeight) args.dx = whole_gradient(ws, "dx", {S, s.K});
            if (s.wanted != Wanted::kInput) {
              args.dweights = whole_gradient(ws, "dweights", {E, s.N, s.K});
            }
            GroupedLinearBackArgs on_host = args;
            on_host.op.offsets = Tensor(offsets.data(), DType::kI32, {E + 1});
            return back_call(ws, &Gradients::grouped_linear_back, args, cost(on_host));
          }};
}

struct HeadShape {
  std::int64_t T, H, A, B;
  Wanted wanted = Wanted::kBoth;
  Pad pad = {};  // of x, out and their gradients
};

Case per_head_case(DType dtype, WeightFormat format, HeadShape s) {
  return {
      .op = "per_head_back",
      .name = str(name_of(dtype, format), ", T ", s.T, ", ", s.H, " x ", s.B, " x ", s.A,
                  name_of(s.wanted), s.pad.back ? ", strided" : ""),
      .need = needs(dtype, format),
      .tolerance = tolerance_of(dtype, format),
      .tokens = s.T,
      .prepare = [=](Workspace& ws) {
        PerHeadBackArgs args = {.op = {.x = ws.tokens(ws.input(dtype, {s.T, s.H, s.A}, s.pad)),
                                       .weights = stack_of_rows(ws, format, s.H, s.B, s.A),
                                       .out = ws.tokens(ws.input(dtype, {s.T, s.H, s.B}, s.pad))}};
        args.dout = gradient(ws, "dout", {s.T, s.H, s.B}, s.pad);
        if (s.wanted != Wanted::kWeight) args.dx = gradient(ws, "dx", {s.T, s.H, s.A}, s.pad);
        if (s.wanted != Wanted::kInput) {
          args.dweights = whole_gradient(ws, "dweights", {s.H, s.B, s.A});
        }
        return back_call(ws, &Gradients::per_head_back, args, cost(args));
      }};
}

}  // namespace

void add_backward_linear_cases(std::vector<Case>& cases, bool timing) {
  if (timing) {
    cases.push_back(linear_case(DType::kF32, WeightFormat::kF32, {512, 2048, 1024}));
    cases.push_back(linear_case(DType::kBF16, WeightFormat::kBF16, {512, 2048, 1024}));
    cases.push_back(grouped_case(DType::kBF16, WeightFormat::kBF16,
                                 {std::vector<int>(16, 32), 512, 1536, true}));
    return;
  }
  for (const DType dtype : kActivations) {
    for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) {
      for (const std::int64_t T : {1, 2, 7, 33}) {
        cases.push_back(linear_case(dtype, format, {T, 40, 72}));
      }
      cases.push_back(linear_case(dtype, format, {130, 33, 31}));
      cases.push_back(linear_case(dtype, format, {5, 70, 48, Wanted::kInput, {0, 16}}));
      cases.push_back(linear_case(dtype, format, {6, 17, 300, Wanted::kWeight, {2, 1}}));
      cases.push_back(linear_case(dtype, format, {3, 1, 1}));
      cases.push_back(grouped_case(dtype, format, {{0, 3, 0, 1, 7, 0}, 40, 48, true}));
      cases.push_back(grouped_case(dtype, format, {{33, 0}, 48, 32, false}));
      cases.push_back(grouped_case(dtype, format, {{2, 0, 5}, 17, 31, true, 4}));
      cases.push_back(grouped_case(dtype, format, {{2, 4}, 16, 8, false, 3, Wanted::kInput}));
      cases.push_back(grouped_case(dtype, format, {{4, 1}, 16, 8, true, 0, Wanted::kWeight}));
      cases.push_back(per_head_case(dtype, format, {7, 4, 48, 32, Wanted::kBoth, {0, 16}}));
      cases.push_back(per_head_case(dtype, format, {3, 1, 5, 7, Wanted::kInput, {2, 1}}));
      cases.push_back(per_head_case(dtype, format, {33, 2, 24, 40, Wanted::kWeight}));
    }
  }
}

}  // namespace glint::conformance
