// Cases of linear, grouped_linear and per_head.
#include <algorithm>

#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBF16,
                                     WeightFormat::kFp8Block, WeightFormat::kNvfp4};

enum class Out { kAsX, kF32, kAdded };  // what the result is, or is added to

const char* name_of(Out out) {
  return out == Out::kAsX ? "" : out == Out::kF32 ? ", to f32" : ", added";
}

// Results of `dims`, one row a token.
Tensor output(Workspace& ws, Out out, DType x, Dims dims, Pad pad = {}) {
  if (out != Out::kAdded) return ws.output("out", out == Out::kF32 ? DType::kF32 : x, dims, pad);
  return ws.updated("out", ws.input(DType::kF32, dims, pad));
}

struct LinearShape {
  std::int64_t T, N, K;
  Out out = Out::kAsX;
  Pad pad = {};  // of x and out
  bool unaligned = false;
};

Case linear_case(DType dtype, WeightFormat format, LinearShape s) {
  return {
      .op = "linear",
      .name = str(short_name(dtype), " x ", name_of(format), ", T ", s.T, ", ", s.N, " x ", s.K,
                  name_of(s.out), s.pad.back ? ", strided" : "", s.unaligned ? ", unaligned" : ""),
      .need = {.ops = {Op::kLinear}, .activations = {dtype}, .weights = {format}},
      .tolerance = tolerance_of(kLinearTolerance, s.out == Out::kAsX ? dtype : DType::kF32),
      .tokens = s.T,
      .prepare = [=](Workspace& ws) {
        const LinearArgs args = {.x = ws.tokens(ws.input(dtype, {s.T, s.K}, s.pad)),
                                 .weight = ws.weight(format, s.N, s.K, s.unaligned),
                                 .out = output(ws, s.out, dtype, {s.T, s.N}, s.pad),
                                 .accumulate = s.out == Out::kAdded};
        return Call{[=, &ws] { ws.ops().linear(args); }, cost(args)};
      }};
}

// How many of the rows each expert gets.
using Counts = std::vector<int>;

// The experts' rows in order: which expert, and which row of x, each row of out has. The last are
// padding, of no expert and no row.
struct Groups {
  std::vector<std::int32_t> experts, rows, offsets;
};

Groups groups(const Workspace& ws, const Counts& counts, std::int64_t sources, int padding) {
  Groups g;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    for (int i = 0; i < counts[e]; ++i) {
      g.experts.push_back(static_cast<std::int32_t>(e));
      g.rows.push_back(static_cast<std::int32_t>((g.rows.size() * 7 + e) % sources));
    }
  }
  g.experts.insert(g.experts.end(), padding, static_cast<std::int32_t>(counts.size()));
  g.rows.insert(g.rows.end(), padding, -1);
  g.experts = ws.tokens(g.experts);
  g.rows = ws.tokens(g.rows);
  for (std::int32_t e = 0; e <= static_cast<std::int32_t>(counts.size()); ++e) {
    const auto end = std::lower_bound(g.experts.begin(), g.experts.end(), e);
    g.offsets.push_back(static_cast<std::int32_t>(end - g.experts.begin()));
  }
  return g;
}

Case grouped_case(DType dtype, std::vector<WeightFormat> formats, Counts counts, std::int64_t N,
                  std::int64_t K, bool gathered, int padding = 0, Out out = Out::kAsX) {
  std::int64_t R = padding;
  for (const int count : counts) R += count;
  std::string name = str(short_name(dtype), " x ", name_of(formats[0]));
  if (formats.size() > 1) name += " and others";
  name += str(", ", counts.size(), " experts, ", R, " rows, ", N, " x ", K);
  Capabilities need = {.ops = {Op::kGroupedLinear}, .activations = {dtype}};
  for (const WeightFormat format : formats) need.weights.add(format);
  need.mixed_stacks = formats.size() > 1;
  return {
      .op = "grouped_linear",
      .name = name + (gathered ? ", gathered" : "") + (padding ? ", padding" : "") + name_of(out),
      .need = need,
      .tolerance = tolerance_of(kLinearTolerance, out == Out::kAsX ? dtype : DType::kF32),
      .tokens = R,
      .prepare = [=](Workspace& ws) {
        const WeightStack weights = formats.size() > 1
                                        ? ws.list(formats, std::ssize(counts), N, K)
                                        : ws.stack(formats[0], std::ssize(counts), N, K);
        const std::int64_t sources = gathered ? std::max<std::int64_t>(R / 2, 1) : R;
        Groups g = groups(ws, counts, sources, padding);
        const std::int64_t E = static_cast<std::int64_t>(counts.size());
        const std::int64_t here = static_cast<std::int64_t>(g.rows.size());
        const Tensor x = ws.input(dtype, {sources, K}, gathered ? Pad{0, 32} : Pad{});
        GroupedLinearArgs args = {.x = gathered ? x : ws.tokens(x),
                                  .offsets = ws.ints(g.offsets, {E + 1}),
                                  .weights = weights,
                                  .out = output(ws, out, dtype, {R, N}),
                                  .accumulate = out == Out::kAdded};
        if (gathered) args.rows = ws.ints(g.rows, {here});
        GroupedLinearArgs on_host = args;
        on_host.offsets = Tensor(g.offsets.data(), DType::kI32, {E + 1});
        return Call{[=, &ws] { ws.ops().grouped_linear(args); }, cost(on_host)};
      }};
}

struct HeadShape {
  std::int64_t T, H, A, B;
  Pad pad = {};  // of x and out
  Fp8Blocks blocks = {};
  Out out = Out::kAsX;
};

Case per_head_case(DType dtype, WeightFormat format, HeadShape s) {
  return {.op = "per_head",
          .name = str(short_name(dtype), " x ", name_of(format), ", T ", s.T, ", ", s.H, " x ", s.B,
                      " x ", s.A, s.pad.back ? ", strided" : "",
                      s.blocks.rows * s.blocks.cols < kFp8Block * kFp8Block ? ", small blocks" : "",
                      name_of(s.out)),
          .need = {.ops = {Op::kPerHead}, .activations = {dtype}, .weights = {format}},
          .tolerance = tolerance_of(kLinearTolerance, s.out == Out::kAsX ? dtype : DType::kF32),
          .tokens = s.T,
          .prepare = [=](Workspace& ws) {
            const PerHeadArgs args = {.x = ws.tokens(ws.input(dtype, {s.T, s.H, s.A}, s.pad)),
                                      .weights = ws.stack(format, s.H, s.B, s.A, s.blocks),
                                      .out = output(ws, s.out, dtype, {s.T, s.H, s.B}, s.pad),
                                      .accumulate = s.out == Out::kAdded};
            return Call{[=, &ws] { ws.ops().per_head(args); }, cost(args)};
          }};
}

void add_timed(std::vector<Case>& cases) {
  for (const WeightFormat format : kFormats) {
    // Large enough to come from memory, not from a cache.
    if (format != WeightFormat::kF32) {
      for (const std::int64_t T : {1, 16, 128}) {
        cases.push_back(linear_case(DType::kBF16, format, {T, 12288, 6144}));
      }
      cases.push_back(grouped_case(DType::kBF16, {format}, Counts(16, 1), 2048, 6144, true));
      cases.push_back(grouped_case(DType::kBF16, {format}, Counts(16, 32), 512, 1536, true));
    }
    cases.push_back(linear_case(DType::kF32, format, {128, 2048, 6144}));
  }
  cases.push_back(per_head_case(DType::kBF16, WeightFormat::kBF16, {1, 64, 192, 512, {0, 64}}));
  cases.push_back(per_head_case(DType::kBF16, WeightFormat::kBF16, {128, 64, 512, 256}));
}

}  // namespace

void add_linear_cases(std::vector<Case>& cases, bool timing) {
  if (timing) return add_timed(cases);
  for (const DType dtype : kActivations) {
    for (const WeightFormat format : kFormats) {
      for (const std::int64_t T : {1, 2, 3, 7, 16, 33, 64}) {
        cases.push_back(linear_case(dtype, format, {T, 200, 272}));  // ragged fp8 blocks
      }
      cases.push_back(linear_case(dtype, format, {2, 72, 6144}));
      cases.push_back(linear_case(dtype, format, {3, 130, 2048, Out::kF32}));
      cases.push_back(linear_case(dtype, format, {2, 17, 16384}));  // GLM-5's longest sums
      cases.push_back(linear_case(dtype, format, {17, 1, 16}));
      cases.push_back(linear_case(dtype, format, {5, 33, 144, Out::kAsX, {0, 48}}));
      cases.push_back(linear_case(dtype, format, {19, 70, 272, Out::kAdded, {0, 16}}));
      cases.push_back(linear_case(dtype, format, {1, 33, 144, Out::kAdded}));
      cases.push_back(linear_case(dtype, format, {9, 100, 400, Out::kF32, {}, true}));
      if (format != WeightFormat::kNvfp4) {
        cases.push_back(linear_case(dtype, format, {4, 3, 1}));
        cases.push_back(linear_case(dtype, format, {7, 131, 77}));
        cases.push_back(linear_case(dtype, format, {16, 31, 301, Out::kAsX, {1, 2}, true}));
      }
      cases.push_back(grouped_case(dtype, {format}, {0, 3, 0, 1, 7, 0}, 70, 144, true));
      cases.push_back(grouped_case(dtype, {format}, {130, 0, 200, 3}, 70, 272, true));
      cases.push_back(grouped_case(dtype, {format}, {33, 0}, 144, 48, false));
      cases.push_back(grouped_case(dtype, {format}, {0, 0, 1}, 256, 1536, true));
      cases.push_back(grouped_case(dtype, {format}, Counts(16, 4), 32, 64, true));
      cases.push_back(grouped_case(dtype, {format}, {2, 0, 5}, 48, 96, true, 4));
      cases.push_back(grouped_case(dtype, {format}, {2, 0, 5}, 48, 96, false, 4));
      cases.push_back(grouped_case(dtype, {format}, {0, 3, 0, 9}, 70, 144, true, 0, Out::kF32));
      cases.push_back(grouped_case(dtype, {format}, {4, 0, 5}, 70, 144, true, 2, Out::kAdded));
    }
    cases.push_back(grouped_case(dtype, {std::begin(kFormats), std::end(kFormats)},
                                 {2, 1, 5, 3, 0, 4}, 150, 160, true));
    for (const WeightFormat format : kFormats) {
      cases.push_back(per_head_case(dtype, format, {3, 4, 192, 512, {0, 64}}));
      cases.push_back(per_head_case(dtype, format, {7, 4, 512, 256}));
      cases.push_back(per_head_case(dtype, format, {33, 1, 48, 32}));
      cases.push_back(per_head_case(dtype, format, {5, 3, 48, 40, {0, 4}, {}, Out::kF32}));
      cases.push_back(per_head_case(dtype, format, {5, 3, 48, 40, {0, 4}, {}, Out::kAdded}));
      if (format == WeightFormat::kNvfp4) continue;
      cases.push_back(per_head_case(dtype, format, {17, 3, 5, 7, {2, 1}}));
      if (format != WeightFormat::kFp8Block) continue;
      for (const std::int64_t T : {1, 5, 40}) {
        cases.push_back(per_head_case(dtype, format, {T, 2, 192, 512, {}, {128, 64}}));
        cases.push_back(per_head_case(dtype, format, {T, 2, 512, 256, {}, {64, 128}}));
        cases.push_back(per_head_case(dtype, format, {T, 2, 320, 100, {}, {32, 32}}));
      }
    }
  }
}

}  // namespace glint::conformance
