// Cases of dense_ffn, moe and head.
#include <algorithm>
#include <memory>

#include "ops/compose.h"
#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBF16,
                                     WeightFormat::kFp8Block, WeightFormat::kNvfp4};

FfnWeights make_ffn(Workspace& ws, WeightFormat format, std::int64_t hidden, std::int64_t inter) {
  return {.gate_proj = ws.weight(format, inter, hidden),
          .up_proj = ws.weight(format, inter, hidden),
          .down_proj = ws.weight(format, hidden, inter)};
}

Case block_case(const char* op, DType dtype, WeightFormat format, EnumSet<Op> ops, std::int64_t T,
                const std::string& shape) {
  return {.op = op,
          .name = str(short_name(dtype), " x ", name_of(format), ", T ", T, ", ", shape),
          .need = {.ops = ops, .activations = {dtype}, .weights = {format}},
          .tolerance = tolerance_of(kBlockTolerance, dtype),
          .tokens = T};
}

Tensor take_part(Workspace& ws, bool part, std::int64_t T, std::int64_t hidden) {
  return part ? ws.output("part", DType::kF32, {T, hidden}) : Tensor();
}

Case dense_ffn_case(DType dtype, WeightFormat format, std::int64_t T, std::int64_t hidden,
                    std::int64_t inter, bool part = false) {
  return with_composition(
      block_case("dense_ffn", dtype, format, {Op::kRmsNorm, Op::kLinear, Op::kSiluMul}, T,
                 str(hidden, " x ", inter, part ? ", a part" : "")),
      [=](Workspace& ws, bool composed) {
        const auto weights = std::make_shared<FfnWeights>(make_ffn(ws, format, hidden, inter));
        const DenseFfnArgs args = {.weights = *weights,
                                   .norm = ws.input(DType::kBF16, {hidden}),
                                   .eps = 1e-5f,
                                   .x = ws.updated("x", ws.input(DType::kF32, {T, hidden})),
                                   .delta = ws.updated("delta", ws.input(dtype, {T, hidden})),
                                   .part = take_part(ws, part, T, hidden)};
        return Call{[=, &ws] {
          (void)weights;  // owns what args refers to
          composed ? ws.ops().Ops::dense_ffn(args, ws.arena())
                   : ws.ops().dense_ffn(args, ws.arena());
        }};
      });
}

struct MoeShape {
  std::int64_t T, hidden, inter;
  int E, k;
  int n_group = 1, topk_group = 1;
  bool shared = true;
  bool padded = false;  // every other row is padding
  bool given = false;   // the experts are those of an earlier pass
  bool part = false;    // of a sum over ranks
  WeightFormat gate = WeightFormat::kF32;
};

std::shared_ptr<MoeWeights> make_moe(Workspace& ws, WeightFormat format, const MoeShape& s) {
  auto w = std::make_shared<MoeWeights>();
  w->gate = ws.weight(s.gate, s.E, s.hidden);
  // Wide apart, so that rounding does not change who is chosen.
  w->e_score_correction_bias = ws.input(DType::kF32, {s.E}, ws.noise(s.E, 0.5));
  w->gate_proj = ws.stack(format, s.E, s.inter, s.hidden);
  w->up_proj = ws.stack(format, s.E, s.inter, s.hidden);
  w->down_proj = ws.stack(format, s.E, s.hidden, s.inter);
  if (s.shared) w->shared_experts = make_ffn(ws, format, s.hidden, s.inter);
  return w;
}

// As judge_outputs, but one token in eight (or a single one) may have been routed elsewhere: its
// scores may tie within rounding, and then its rows say nothing.
Verdict judge_moe(const Outputs& want, Outputs got, double tolerance) {
  const auto routed = std::find_if(want.begin(), want.end(),
                                   [](const Output& output) { return output.name == "routed"; });
  Output& mine = got[routed - want.begin()];
  std::int64_t elsewhere = 0;
  for (std::int64_t t = 0; t < routed->rows(); ++t) {
    const std::int32_t *a = &routed->ids[t * routed->width], *b = &mine.ids[t * routed->width];
    if (std::equal(a, a + routed->width, b)) continue;
    if (++elsewhere > std::max<std::int64_t>(1, routed->rows() / 8)) break;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto copy = [&](const auto& from, auto& to) {
        if (from.empty()) return;
        std::copy_n(from.begin() + t * want[i].width, want[i].width,
                    to.begin() + t * want[i].width);
      };
      copy(want[i].values, got[i].values);
      copy(want[i].ids, got[i].ids);
    }
  }
  return judge_outputs(want, got, tolerance);
}

// Ops::moe without the parts that a backend may have, too.
void composed_moe(Ops& ops, const MoeArgs& args, Arena& scratch) {
  const Arena::Scope scope(scratch);
  const MoeRouteArgs routed = take_routing(args, scratch);
  ops.Ops::moe_route(routed, scratch);
  const Tensor answers = scratch.take(args.answer().dtype, {routed.rows.dim(0), args.x.dim(1)});
  ops.Ops::moe_experts(experts_of(routed, answers), scratch);
  ops.Ops::moe_combine(combining_of(routed, answers), scratch);
}

Case moe_case(DType dtype, WeightFormat format, MoeShape s) {
  Case c = block_case(
      "moe", dtype, format,
      {Op::kRmsNorm, Op::kLinear, Op::kRoute, Op::kPermute, Op::kGroupedLinear, Op::kSiluMul,
       Op::kCombine},
      s.T,
      str(s.k, " of ", s.E, " experts of ", s.hidden, " x ", s.inter, s.shared ? ", shared" : "",
          s.n_group > 1 ? ", groups" : "", s.padded ? ", padding" : "", s.given ? ", given" : "",
          s.part ? ", a part" : "",
          s.gate == WeightFormat::kF32 ? "" : str(", router of ", name_of(s.gate))));
  c.need.weights.add(s.gate);
  c.judge = judge_moe;
  return with_composition(std::move(c), [=](Workspace& ws, bool composed) {
    const auto weights = make_moe(ws, format, s);
    std::vector<std::int32_t> positions;
    for (std::int64_t t = 0; t < s.T; ++t) positions.push_back(s.padded && t % 2 ? -1 : 0);
    std::vector<std::int32_t> experts;
    for (std::int64_t i = 0; i < s.T * s.k; ++i) {
      const auto expert = static_cast<std::int32_t>((i / s.k * 3 + i) % s.E);
      experts.push_back(positions[i / s.k] < 0 ? -1 : expert);
    }
    const MoeArgs args = {.weights = *weights,
                          .norm = ws.input(DType::kBF16, {s.hidden}),
                          .eps = 1e-5f,
                          .num_experts_per_tok = s.k,
                          .n_group = s.n_group,
                          .topk_group = s.topk_group,
                          .routed_scaling_factor = 2.5f,
                          .x = ws.updated("x", ws.input(DType::kF32, {s.T, s.hidden})),
                          .delta = ws.updated("delta", ws.input(dtype, {s.T, s.hidden})),
                          .part = take_part(ws, s.part, s.T, s.hidden),
                          .positions = ws.tokens(ws.ints(positions, {s.T})),
                          .routed = s.given ? ws.updated("routed", ws.ints(experts, {s.T, s.k}))
                                            : ws.output("routed", DType::kI32, {s.T, s.k}),
                          .routed_given = s.given};
    return Call{[=, &ws] {
      (void)weights;
      composed ? composed_moe(ws.ops(), args, ws.arena()) : ws.ops().moe(args, ws.arena());
    }};
  });
}

// Logits for the last `R` tokens.
Case head_case(DType dtype, WeightFormat format, std::int64_t T, std::int64_t R) {
  const std::int64_t hidden = 96, V = 211;
  Case c = block_case("head", dtype, format, {Op::kRmsNorm, Op::kGatherRows, Op::kLinear}, T,
                      str("logits of ", R));
  if (R != T) c.tokens = 0;
  return with_composition(std::move(c), [=](Workspace& ws, bool composed) {
    HeadArgs args = {.norm = ws.input(DType::kBF16, {hidden}),
                     .eps = 1e-5f,
                     .lm_head = ws.weight(format, V, hidden),
                     .x = ws.updated("x", ws.input(DType::kF32, {T, hidden})),
                     .delta = ws.tokens(ws.input(dtype, {T, hidden})),
                     .hidden = ws.output("hidden", dtype, {T, hidden})};
    if (R > 0) {
      std::vector<std::int32_t> rows = ws.tokens(std::vector<std::int32_t>(R));
      for (std::size_t r = 0; r < rows.size(); ++r) {
        rows[r] = static_cast<std::int32_t>(args.x.dim(0) - rows.size() + r);
      }
      args.rows = ws.ints(rows, {static_cast<std::int64_t>(rows.size())});
      args.logits = ws.output("logits", DType::kF32, {R, V});
    }
    return Call{[=, &ws] {
      composed ? ws.ops().Ops::head(args, ws.arena()) : ws.ops().head(args, ws.arena());
    }};
  });
}

constexpr MoeShape kMoeShapes[] = {
    {.T = 1, .hidden = 96, .inter = 48, .E = 16, .k = 4},
    {.T = 2, .hidden = 96, .inter = 48, .E = 16, .k = 4},
    {.T = 7, .hidden = 96, .inter = 48, .E = 16, .k = 4},
    {.T = 33, .hidden = 96, .inter = 48, .E = 16, .k = 4},
    {.T = 16, .hidden = 256, .inter = 128, .E = 8, .k = 2, .shared = false},
    {.T = 160, .hidden = 128, .inter = 96, .E = 4, .k = 2},
    {.T = 5, .hidden = 64, .inter = 32, .E = 24, .k = 5, .n_group = 4, .topk_group = 2},
    {.T = 9, .hidden = 64, .inter = 48, .E = 8, .k = 3, .padded = true},
    {.T = 6, .hidden = 64, .inter = 48, .E = 8, .k = 3, .padded = true, .given = true},
    {.T = 5, .hidden = 96, .inter = 48, .E = 16, .k = 4, .shared = true, .part = true},
    {.T = 5, .hidden = 96, .inter = 48, .E = 16, .k = 4, .shared = false, .part = true}};

}  // namespace

void add_ffn_block_cases(std::vector<Case>& cases, bool timing) {
  if (timing) return;
  for (const DType dtype : kActivations) {
    for (const WeightFormat format : kFormats) {
      for (const std::int64_t T : {1, 2, 7, 33}) {
        cases.push_back(dense_ffn_case(dtype, format, T, 96, 160));
      }
      cases.push_back(dense_ffn_case(dtype, format, 16, 256, 384));
      cases.push_back(dense_ffn_case(dtype, format, 5, 96, 160, /*part=*/true));
      for (MoeShape s : kMoeShapes) {
        for (const WeightFormat gate : {WeightFormat::kF32, WeightFormat::kBF16}) {
          s.gate = gate;
          cases.push_back(moe_case(dtype, format, s));
        }
      }
      cases.push_back(head_case(dtype, format, 1, 1));
      cases.push_back(head_case(dtype, format, 7, 7));
      cases.push_back(head_case(dtype, format, 7, 2));
      cases.push_back(head_case(dtype, format, 3, 0));
    }
  }
}

}  // namespace glint::conformance
