// Cases of rms_norm, layer_norm and rope.
#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

struct NormTypes {
  DType x, delta, out;
};
constexpr NormTypes plain(DType dtype) { return {dtype, dtype, dtype}; }
// The residual stream beside bf16 activations.
constexpr NormTypes kStream = {DType::kF32, DType::kBF16, DType::kBF16};

struct NormShape {
  std::int64_t T, D;
  bool delta = false;
  DType weight = DType::kBF16;
  Pad pad = {};  // of x and out
  bool in_place = false;
};

Case rms_norm_case(NormTypes types, NormShape s) {
  std::string name = short_name(types.x);
  if (s.delta && types.delta != types.x) name += str(" + ", short_name(types.delta));
  if (types.out != types.x) name += str(" to ", short_name(types.out));
  const bool all_f32 = types.x == DType::kF32 && types.out == DType::kF32 &&
                       (types.delta == DType::kF32 || !s.delta);
  return {
      .op = "rms_norm",
      .name = str(name, ", ", s.T, " x ", s.D, s.delta ? ", delta" : "",
                  s.pad.front ? ", strided" : "", s.in_place ? ", in place" : ""),
      .need = {.ops = {Op::kRmsNorm}, .activations = {all_f32 ? DType::kF32 : DType::kBF16}},
      .tolerance = tolerance_of(kNormTolerance, types.out),
      .tokens = s.T,
      .prepare = [=](Workspace& ws) {
        std::vector<float> values = ws.noise(s.T * s.D, 3);
        for (std::int64_t d = 0; d < s.D; ++d) {
          values[d] = 0;  // row 0: only eps is left
          if (s.T > 1 && !s.delta) values[(s.T - 1) * s.D + d] *= 1e15f;
        }
        const Tensor x = ws.input(types.x, {s.T, s.D}, values, s.pad);
        RmsNormArgs args = {.x = ws.tokens(x), .weight = ws.input(s.weight, {s.D})};
        if (s.delta) {
          args.delta = ws.tokens(ws.input(types.delta, {s.T, s.D}));
          ws.updated("x", x);
        }
        args.out = s.in_place ? ws.updated("x", x) : ws.output("out", types.out, {s.T, s.D}, s.pad);
        return Call{[=, &ws] { ws.ops().rms_norm(args); }, cost(args)};
      }};
}

Case layer_norm_case(DType dtype, DType out, std::int64_t T, std::int64_t D, DType affine) {
  return {.op = "layer_norm",
          .name = str(short_name(dtype), " to ", short_name(out), ", ", T, " x ", D),
          .need = {.ops = {Op::kLayerNorm}, .activations = {dtype, out}},
          .tolerance = tolerance_of(kNormTolerance, out),
          .tokens = T,
          .prepare = [=](Workspace& ws) {
            std::vector<float> values = ws.noise(T * D);
            for (std::int64_t i = 0; i < T * D; ++i) {
              values[i] += 2;            // the variance must be of what is left without the mean
              if (i < D) values[i] = 3;  // row 0: no variance at all
            }
            const LayerNormArgs args = {.x = ws.tokens(ws.input(dtype, {T, D}, values)),
                                        .weight = ws.input(affine, {D}),
                                        .bias = ws.input(affine, {D}),
                                        .out = ws.output("out", out, {T, D})};
            return Call{[=, &ws] { ws.ops().layer_norm(args); }, cost(args)};
          }};
}

struct RopeShape {
  std::int64_t T, H, R;
  bool interleaved = true;
  Pad pad = {};
};

Case rope_case(DType dtype, RopeShape s) {
  return {.op = "rope",
          .name = str(short_name(dtype), ", ", s.T, " x ", s.H, " x ", s.R,
                      s.interleaved ? ", interleaved" : ", half-split",
                      s.pad.front + s.pad.back ? ", strided" : ""),
          .need = {.ops = {Op::kRope}, .activations = {dtype}},
          .tolerance = tolerance_of(kRopeTolerance, dtype),
          .tokens = s.T,
          .prepare = [=](Workspace& ws) {
            // Token 0 stands at position 0, where nothing turns; some rows are padding.
            const int T = static_cast<int>(s.T), last = T / 3;
            const TestBatch batch = make_batch(
                {{.first = 0, .count = T - 2 * last}, {-1, last}, {.first = 40, .count = last}});
            const BatchView view = view_of(ws, batch, static_cast<int>(s.R));
            const Tensor x = ws.input(dtype, {s.T, s.H, s.R}, s.pad);
            const RopeArgs args = {.x = ws.updated("x", x),
                                   .positions = view.positions,
                                   .table = view.rope_table,
                                   .interleaved = s.interleaved};
            return Call{[=, &ws] { ws.ops().rope(args); }, cost(args)};
          }};
}

}  // namespace

void add_norm_cases(std::vector<Case>& cases, bool timing) {
  for (const DType dtype : kActivations) {
    if (timing && dtype == DType::kF32) continue;
    const NormTypes types = plain(dtype);
    if (timing) {
      cases.push_back(rms_norm_case(kStream, {.T = 1, .D = 6144, .delta = true}));
      cases.push_back(rms_norm_case(kStream, {.T = 4096, .D = 6144, .delta = true}));
      cases.push_back(layer_norm_case(dtype, dtype, 2048, 128, DType::kF32));
      continue;
    }
    for (const std::int64_t D : {1, 7, 16, 100, 512, 2048, 6144}) {
      for (const std::int64_t T : {1, 3, 16}) {
        cases.push_back(rms_norm_case(types, {.T = T, .D = D}));
        cases.push_back(rms_norm_case(types, {.T = T, .D = D, .delta = true}));
      }
    }
    cases.push_back(rms_norm_case(types, {.T = 5, .D = 512, .weight = DType::kF32}));
    cases.push_back(rms_norm_case(types, {.T = 7, .D = 512, .pad = {3, 61}}));
    cases.push_back(rms_norm_case(types, {.T = 33, .D = 37, .in_place = true}));
    for (const DType x : kActivations) {
      for (const DType delta : kActivations) {
        for (const std::int64_t D : {37, 6144}) {
          cases.push_back(rms_norm_case({x, delta, dtype}, {.T = 7, .D = D}));
          cases.push_back(rms_norm_case({x, delta, dtype}, {.T = 7, .D = D, .delta = true}));
        }
      }
    }
    for (const DType out : kActivations) {
      cases.push_back(layer_norm_case(dtype, out, 1, 128, DType::kBF16));
      cases.push_back(layer_norm_case(dtype, out, 7, 128, DType::kF32));
      cases.push_back(layer_norm_case(dtype, out, 33, 37, DType::kF32));
    }
  }
}

void add_rope_cases(std::vector<Case>& cases, bool timing) {
  for (const DType dtype : kActivations) {
    if (timing && dtype == DType::kF32) continue;
    if (timing) {
      cases.push_back(rope_case(dtype, {512, 64, 64, true, {192, 0}}));
      continue;
    }
    for (const bool interleaved : {true, false}) {
      cases.push_back(rope_case(dtype, {1, 1, 2, interleaved}));
      cases.push_back(rope_case(dtype, {7, 64, 64, interleaved, {192, 0}}));
      cases.push_back(rope_case(dtype, {7, 32, 64, interleaved, {0, 64}}));
      cases.push_back(rope_case(dtype, {33, 1, 64, interleaved, {512, 0}}));
      cases.push_back(rope_case(dtype, {16, 3, 10, interleaved}));
      cases.push_back(rope_case(dtype, {2, 5, 36, interleaved, {1, 2}}));
    }
  }
}

}  // namespace glint::conformance
