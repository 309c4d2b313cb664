// Cases of the backward passes of what works on rows, of route and combine, and of the loss.
#include <algorithm>

#include "ops/conformance/backward_cases.h"

namespace glint::conformance {
namespace {

// Rows in no order, some twice, some -1.
std::vector<std::int32_t> some_rows(std::int64_t count, std::int64_t limit) {
  std::vector<std::int32_t> rows;
  for (std::int64_t r = 0; r < count; ++r) {
    rows.push_back(r % 5 == 3 ? -1 : static_cast<std::int32_t>((r * r + 2 * r) % limit));
  }
  return rows;
}

Case embed_case(DType dtype, std::int64_t T, std::int64_t V, std::int64_t D, bool frozen = false) {
  return {.op = "embed_back",
          .name = str(short_name(dtype), ", T ", T, ", ", V, " x ", D, frozen ? ", frozen" : ""),
          .need = back_needs(dtype),
          .tolerance = kElementwiseBackTolerance,
          .tokens = T,
          .prepare = [=](Workspace& ws) {
            EmbedBackArgs args = {.op = {.ids = ws.tokens(ws.ints(some_rows(T, V), {T})),
                                         .table = ws.input(dtype, {V, D}),
                                         .out = ws.tokens(ws.input(DType::kF32, {T, D}))}};
            args.dout = gradient(ws, "dout", {T, D});
            if (!frozen) args.dtable = whole_gradient(ws, "dtable", {V, D});
            return back_call(ws, &Gradients::embed_back, args, cost(args));
          }};
}

Case gather_case(DType dtype, std::int64_t R, std::int64_t S, std::int64_t D) {
  return {.op = "gather_rows_back",
          .name = str(short_name(dtype), ", ", R, " of ", S, " x ", D),
          .need = back_needs(dtype),
          .tolerance = kElementwiseBackTolerance,
          .tokens = R,
          .prepare = [=](Workspace& ws) {
            GatherRowsBackArgs args = {.op = {.x = ws.input(dtype, {S, D}),
                                              .rows = ws.tokens(ws.ints(some_rows(R, S), {R})),
                                              .out = ws.tokens(ws.input(dtype, {R, D}))}};
            args.dout = gradient(ws, "dout", {R, D});
            args.dx = whole_gradient(ws, "dx", {S, D});
            return back_call(ws, &Gradients::gather_rows_back, args, cost(args));
          }};
}

Case add_case(DType x, DType y, std::int64_t T, std::int64_t D) {
  return {.op = "add_back",
          .name = str(short_name(x), " + ", short_name(y), ", ", T, " x ", D),
          .need = back_needs(y),
          .tolerance = kElementwiseBackTolerance,
          .tokens = T,
          .prepare = [=](Workspace& ws) {
            AddBackArgs args = {
                .op = {.x = ws.tokens(ws.input(x, {T, D})), .y = ws.tokens(ws.input(y, {T, D}))}};
            args.dx = gradient(ws, "dx", {T, D});
            args.dy = gradient(ws, "dy", {T, D});
            return back_call(ws, &Gradients::add_back, args, cost(args));
          }};
}

Case silu_case(DType dtype, std::int64_t T, std::int64_t D, bool in_place) {
  return {.op = "silu_mul_back",
          .name = str(short_name(dtype), ", ", T, " x ", D, in_place ? ", in place" : ""),
          .need = back_needs(dtype),
          .tolerance = kElementwiseBackTolerance,
          .tokens = T,
          .prepare = [=](Workspace& ws) {
            SiluMulBackArgs args = {
                .op = {.gate = ws.tokens(ws.input(dtype, {T, D}, ws.noise(T * D, 4))),
                       .up = ws.tokens(ws.input(dtype, {T, D})),
                       .out = ws.tokens(ws.input(dtype, {T, D}))}};
            args.dout = gradient(ws, "dout", {T, D});
            args.dgate = in_place ? args.dout : gradient(ws, "dgate", {T, D});
            args.dup = gradient(ws, "dup", {T, D});
            return back_call(ws, &Gradients::silu_mul_back, args, cost(args));
          }};
}

Case rope_case(DType dtype, std::int64_t T, std::int64_t H, std::int64_t R, bool interleaved) {
  return {.op = "rope_back",
          .name = str(short_name(dtype), ", ", T, " x ", H, " x ", R,
                      interleaved ? ", interleaved" : ", half-split"),
          .need = back_needs(dtype),
          .tolerance = kElementwiseBackTolerance,
          .tokens = T,
          .prepare = [=](Workspace& ws) {
            const int last = static_cast<int>(T) / 3, first = static_cast<int>(T) - 2 * last;
            const TestBatch batch = make_batch({{0, first}, {-1, last}, {40, last}});
            const BatchView view = view_of(ws, batch, static_cast<int>(R));
            const Pad query = {7, 2};
            const RopeBackArgs args = {.op = {.x = ws.tokens(ws.input(dtype, {T, H, R}, query)),
                                              .positions = view.positions,
                                              .table = view.rope_table,
                                              .interleaved = interleaved},
                                       .dx = gradient(ws, "dx", {T, H, R}, query)};
            return back_call(ws, &Gradients::rope_back, args, cost(args));
          }};
}

struct NormShape {
  std::int64_t T, D;
  bool delta = false, frozen = false, in_place = false;
  DType x = DType::kF32;
  Pad pad = {};
};

Case norm_case(DType out, NormShape s) {
  return {.op = "rms_norm_back",
          .name = str(short_name(s.x), " to ", short_name(out), ", ", s.T, " x ", s.D,
                      s.delta ? ", delta" : "", s.frozen ? ", frozen" : "",
                      s.in_place ? ", in place" : "", s.pad.front ? ", strided" : ""),
          .need = back_needs(out),
          .tolerance = kRmsNormBackTolerance,
          .tokens = s.T,
          .prepare = [=](Workspace& ws) {
            const auto rows = [&](DType dtype) {
              return ws.tokens(ws.input(dtype, {s.T, s.D}, s.pad));
            };
            RmsNormBackArgs args = {.op = {.x = rows(s.x), .weight = ws.input(out, {s.D})}};
            if (s.delta) {
              args.op.delta = ws.tokens(ws.input(out, {s.T, s.D}));
              args.ddelta = gradient(ws, "ddelta", {s.T, s.D});
            }
            args.op.out = rows(out);
            args.dout = gradient(ws, "dout", {s.T, s.D}, s.pad);
            args.dx = s.in_place ? args.dout : gradient(ws, "dx", {s.T, s.D}, s.pad);
            if (!s.frozen) args.dweight = whole_gradient(ws, "dweight", {s.D});
            return back_call(ws, &Gradients::rms_norm_back, args, cost(args));
          }};
}

struct RouteShape {
  std::int64_t T, E, k;
  bool normed = true;
};

// k distinct experts for each token; none for the last of more than two.
std::vector<std::int32_t> experts_of(const RouteShape& s) {
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < s.T; ++t) {
    for (std::int64_t j = 0; j < s.k; ++j) {
      ids.push_back(s.T > 2 && t == s.T - 1 ? -1
                                            : static_cast<std::int32_t>((7 * t + 3 * j) % s.E));
    }
  }
  return ids;
}

Case route_case(RouteShape s) {
  return {.op = "route_back",
          .name = str("T ", s.T, ", ", s.k, " of ", s.E, s.normed ? "" : ", not normed"),
          .need = back_needs(DType::kF32),
          .tolerance = kMoeBackTolerance,
          .tokens = s.T,
          .prepare = [=](Workspace& ws) {
            RouteBackArgs args = {.op = {.logits = ws.tokens(ws.input(DType::kF32, {s.T, s.E})),
                                         .bias = ws.input(DType::kF32, {s.E}),
                                         .norm_topk_prob = s.normed,
                                         .routed_scaling_factor = 2.5f,
                                         .ids = ws.tokens(ws.ints(experts_of(s), {s.T, s.k})),
                                         .given = true,
                                         .weights = ws.tokens(ws.input(DType::kF32, {s.T, s.k}))}};
            args.dweights = gradient(ws, "dweights", {s.T, s.k});
            args.dlogits = gradient(ws, "dlogits", {s.T, s.E});
            return back_call(ws, &Gradients::route_back, args, cost(args));
          }};
}

Case combine_case(DType dtype, std::int64_t T, std::int64_t k, std::int64_t D, bool shared) {
  return {.op = "combine_back",
          .name = str(short_name(dtype), ", T ", T, ", k ", k, ", ", D, shared ? ", shared" : ""),
          .need = back_needs(dtype),
          .tolerance = kMoeBackTolerance,
          .prepare = [=](Workspace& ws) {
            std::vector<std::int32_t> places;
            const std::int64_t pairs = T * k;
            for (std::int64_t i = 0; i < pairs; ++i) {
              places.push_back(i / k % 4 == 3 ? -1 : static_cast<std::int32_t>(pairs - 1 - i));
            }
            CombineBackArgs args = {.op = {.y = ws.input(dtype, {pairs, D}),
                                           .places = ws.tokens(ws.ints(places, {T, k})),
                                           .weights = ws.tokens(ws.input(DType::kF32, {T, k}))}};
            if (shared) args.op.shared = ws.tokens(ws.input(dtype, {T, D}));
            args.op.out = ws.tokens(ws.input(dtype, {T, D}));
            args.dout = gradient(ws, "dout", {T, D});
            args.dy = whole_gradient(ws, "dy", {pairs, D});
            args.dweights = gradient(ws, "dweights", {T, k});
            if (shared) args.dshared = gradient(ws, "dshared", {T, D});
            return back_call(ws, &Gradients::combine_back, args, cost(args));
          }};
}

struct LossShape {
  std::int64_t R, V;
  float temperature = 1;
  double spread = 1;  // of the logits
  Pad pad = {};
  bool entropy = false;  // the loss depends on it
};

std::string describe(const LossShape& s) {
  return str(s.R, " x ", s.V, s.temperature != 1 ? ", temperature" : "",
             s.spread > 5 ? ", sharp" : "", s.pad.back ? ", strided" : "",
             s.entropy ? ", entropy" : "");
}

// The likeliest token in turns with any, and with none.
std::vector<std::int32_t> some_targets(const LossShape& s, std::span<const float> logits) {
  std::vector<std::int32_t> targets;
  for (std::int64_t r = 0; r < s.R; ++r) {
    const float* const row = &logits[static_cast<std::size_t>(r * s.V)];
    const std::int64_t best = std::max_element(row, row + s.V) - row;
    targets.push_back(static_cast<std::int32_t>(r % 4 == 3 ? -1 : r % 2 == 0 ? best : r % s.V));
  }
  return targets;
}

Case loss_case(LossShape s) {
  return {.op = "cross_entropy",
          .name = describe(s),
          .need = back_needs(DType::kF32),
          .tolerance = kCrossEntropyTolerance,
          .tokens = s.R,
          .prepare = [=](Workspace& ws) {
            const std::vector<float> values = ws.noise(s.R * s.V, s.spread);
            CrossEntropyArgs args = {
                .logits = ws.updated("logits", ws.input(DType::kF32, {s.R, s.V}, values, s.pad)),
                .targets = ws.tokens(ws.ints(some_targets(s, values), {s.R})),
                .scales = ws.tokens(ws.input(DType::kF32, {s.R})),
                .temperature = s.temperature,
                .log_probs = ws.output("log_probs", DType::kF32, {s.R})};
            if (s.entropy) args.entropy_scales = ws.tokens(ws.input(DType::kF32, {s.R}));
            return back_call(ws, &Gradients::cross_entropy, args, cost(args));
          }};
}

Case log_probs_case(LossShape s) {
  return {.op = "log_probs",
          .name = describe(s),
          .need = back_needs(DType::kF32),
          .tolerance = kCrossEntropyTolerance,
          .tokens = s.R,
          .prepare = [=](Workspace& ws) {
            const std::vector<float> values = ws.noise(s.R * s.V, s.spread);
            const LogProbsArgs args = {
                .logits = ws.tokens(ws.input(DType::kF32, {s.R, s.V}, values, s.pad)),
                .targets = ws.tokens(ws.ints(some_targets(s, values), {s.R})),
                .temperature = s.temperature,
                .log_probs = ws.output("log_probs", DType::kF32, {s.R}),
                .entropies = ws.output("entropies", DType::kF32, {s.R})};
            return back_call(ws, &Gradients::log_probs, args, cost(args));
          }};
}

}  // namespace

void add_backward_row_cases(std::vector<Case>& cases, bool timing) {
  if (timing) {
    cases.push_back(norm_case(DType::kBF16, {.T = 256, .D = 6144, .delta = true}));
    cases.push_back(silu_case(DType::kBF16, 256, 2048, true));
    cases.push_back(combine_case(DType::kBF16, 64, 8, 6144, true));
    cases.push_back(loss_case({64, 154880}));
    cases.push_back(log_probs_case({64, 154880}));
    return;
  }
  for (const DType dtype : kActivations) {
    cases.push_back(embed_case(dtype, 9, 6, 40));
    cases.push_back(embed_case(dtype, 1, 3, 7));
    cases.push_back(embed_case(dtype, 4, 5, 16, true));
    cases.push_back(gather_case(dtype, 12, 5, 48));
    cases.push_back(gather_case(dtype, 2, 9, 7));
    cases.push_back(add_case(DType::kF32, dtype, 5, 72));
    cases.push_back(silu_case(dtype, 7, 130, true));
    cases.push_back(silu_case(dtype, 3, 77, false));
    for (const bool interleaved : {true, false}) {
      cases.push_back(rope_case(dtype, 9, 3, 64, interleaved));
      cases.push_back(rope_case(dtype, 4, 1, 6, interleaved));
    }
    cases.push_back(norm_case(dtype, {.T = 7, .D = 200}));
    cases.push_back(norm_case(dtype, {.T = 150, .D = 33, .delta = true}));
    cases.push_back(norm_case(dtype, {.T = 3, .D = 64, .delta = true, .frozen = true}));
    cases.push_back(norm_case(dtype, {.T = 5, .D = 37, .in_place = true, .x = dtype}));
    cases.push_back(norm_case(dtype, {.T = 5, .D = 48, .x = dtype, .pad = {16, 5}}));
    cases.push_back(combine_case(dtype, 5, 3, 70, true));
    cases.push_back(combine_case(dtype, 1, 2, 33, false));
  }
  cases.push_back(route_case({5, 16, 4}));
  cases.push_back(route_case({3, 7, 3, false}));
  cases.push_back(route_case({1, 64, 8}));
  cases.push_back(loss_case({9, 130}));
  cases.push_back(loss_case({6, 77, 0.7f, 3}));
  cases.push_back(loss_case({5, 300, 1, 12, {0, 4}}));
  cases.push_back(loss_case({2, 1}));
  cases.push_back(loss_case({.R = 6, .V = 77, .temperature = 0.7f, .spread = 3, .entropy = true}));
  cases.push_back(loss_case({.R = 5, .V = 300, .spread = 12, .pad = {0, 4}, .entropy = true}));
  cases.push_back(log_probs_case({9, 130}));
  cases.push_back(log_probs_case({6, 77, 0.7f, 3}));
  cases.push_back(log_probs_case({5, 300, 1, 12, {0, 4}}));
  cases.push_back(log_probs_case({2, 1}));
}

}  // namespace glint::conformance
