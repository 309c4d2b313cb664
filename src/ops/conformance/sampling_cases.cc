// Cases of sample, argmax and token_log_probs.
#include <bit>
#include <limits>

#include "ops/conformance/cases.h"
#include "ops/sampling_math.h"

namespace glint::conformance {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct SampleShape {
  std::int64_t R = 1, V = 64, num_ids = 0;  // 0: V
  float scale = 1, top_p = 1, min_p = 0;
  std::int32_t top_k = 0;
  bool mask = false, edits = false, ties = false, bad = false, counts = false;
};

std::string name(const SampleShape& s) {
  std::string text = str(s.R, " x ", s.V);
  if (s.num_ids) text += str(" of ", s.num_ids);
  if (s.scale != 1) text += str(", scale ", s.scale);
  if (s.top_k) text += str(", top_k ", s.top_k);
  if (s.top_p < 1) text += str(", top_p ", s.top_p);
  if (s.min_p > 0) text += str(", min_p ", s.min_p);
  for (const auto& [is, what] : {std::pair{s.mask, ", masks"},
                                 {s.edits, ", edits"},
                                 {s.counts, ", penalties"},
                                 {s.ties, ", ties"},
                                 {s.bad, ", not numbers"}}) {
    if (is) text += what;
  }
  return text;
}

std::vector<float> logits_of(Workspace& ws, const SampleShape& s) {
  std::vector<float> logits = ws.noise(s.R * s.V, 3);
  if (s.ties) {
    for (float& x : logits) x = x < 0 ? 0.0f : -0.0f + static_cast<float>(static_cast<int>(x));
  }
  if (s.bad) {
    const float bad[] = {kInfinity, std::numeric_limits<float>::quiet_NaN(), -kInfinity};
    for (std::int64_t r = 0; r < s.R; ++r) {
      const std::int64_t at = r % 3 == 2 ? 0 : (r * 7) % s.V;
      const std::int64_t count = r % 3 == 2 ? s.V : 1;  // whole rows of -infinity
      for (std::int64_t i = at; i < at + count; ++i) {
        logits[static_cast<std::size_t>(r * s.V + i)] = bad[r % 3];
      }
    }
  }
  return logits;
}

// Masks of every second row: each keeps other ids, and the last one none.
void add_masks(Workspace& ws, const SampleShape& s, SampleArgs& args) {
  const std::int64_t words = (s.V + 31) / 32;
  std::vector<std::int32_t> masks, rows;
  for (std::int64_t r = 0; r < s.R; ++r) {
    rows.push_back(r % 2 ? static_cast<std::int32_t>(r / 2) : -1);
    if (r % 2 == 0) continue;
    for (std::int64_t w = 0; w < words; ++w) {
      const std::uint32_t bits =
          philox(5, static_cast<std::uint64_t>(r), static_cast<std::uint64_t>(w))[0];
      masks.push_back(r + 2 >= s.R ? 0 : static_cast<std::int32_t>(bits));
    }
  }
  args.masks = ws.ints(masks, {static_cast<std::int64_t>(masks.size()) / words, words});
  args.mask_rows = ws.tokens(ws.ints(rows, {s.R}));
}

// Bias and ids that are forbidden, of all rows but every fourth.
void add_edits(Workspace& ws, const SampleShape& s, SampleArgs& args) {
  std::vector<std::int32_t> begins = {0}, ids;
  std::vector<float> values;
  const std::int64_t count = args.num_ids;
  for (std::int64_t r = 0; r < s.R; ++r) {
    for (std::int64_t i = r % 4; r % 4 && i < count; i += 3) {
      ids.push_back(static_cast<std::int32_t>(i));
      const bool forbidden = i % 5 == 0;
      values.push_back(forbidden ? -kInfinity : 0.25f * static_cast<float>(i % 3 - 1));
    }
    begins.push_back(static_cast<std::int32_t>(ids.size()));
  }
  args.edit_begins = ws.ints(begins, {s.R + 1});
  args.edit_ids = ws.ints(ids, {static_cast<std::int64_t>(ids.size())});
  args.edit_values = ws.input(DType::kF32, {static_cast<std::int64_t>(ids.size())}, values);
}

// Penalties of all rows but every fourth, of ids of prompts and answers, with up to three drafts.
void add_counts(Workspace& ws, const SampleShape& s, SampleArgs& args) {
  const std::int64_t seats = s.R, W = s.V + 2;
  std::vector<std::int32_t> counts(static_cast<std::size_t>(seats * W)), seat_of, drafts, penalties;
  for (std::size_t i = 0; i < counts.size(); i += 3) {
    counts[i] = static_cast<std::int32_t>(i * 7 % 11 * kCountOfSaid + i % 2 * kCountOfPrompt);
  }
  for (std::int64_t r = 0; r < s.R; ++r) {
    seat_of.push_back(static_cast<std::int32_t>(r % 4 ? seats - 1 - r : -1));
    drafts.push_back(static_cast<std::int32_t>(r % 4 < 2 ? -1 : r * 5 % s.V));
    const double p[] = {1.1 + 0.1 * static_cast<double>(r % 3), 0.3, r % 2 ? 0.7 : -0.2};
    for (const double x : p) {
      const auto bits = std::bit_cast<std::uint64_t>(x);
      penalties.push_back(static_cast<std::int32_t>(bits));
      penalties.push_back(static_cast<std::int32_t>(bits >> 32));
    }
  }
  args.counts = ws.ints(counts, {seats, W});
  args.seats = ws.ints(seat_of, {s.R});
  args.drafts = ws.ints(drafts, {s.R});
  args.penalties = ws.ints(penalties, {s.R, 3, 2});
}

Case sample_case(SampleShape s) {
  return {.op = "sample",
          .name = name(s),
          .need = {.ops = {Op::kSample}},
          // The lists of edits are of all rows together, and drafts are of rows before.
          .tokens = s.edits || s.counts ? 0 : s.R,
          .prepare = [s](Workspace& ws) {
            SampleArgs args;
            args.logits = ws.tokens(ws.input(DType::kF32, {s.R, s.V}, logits_of(ws, s), {0, 3}));
            args.num_ids = s.num_ids ? s.num_ids : s.V;
            const auto same = [&](float value) {
              return ws.tokens(ws.input(DType::kF32, {s.R},
                                        std::vector<float>(static_cast<std::size_t>(s.R), value)));
            };
            args.scales = same(s.scale);
            args.top_p = same(s.top_p);
            args.min_p = same(s.min_p);
            std::vector<std::int32_t> top_k, seeds, positions;
            for (std::int32_t r = 0; r < static_cast<std::int32_t>(s.R); ++r) {
              top_k.push_back(s.top_k);
              seeds.insert(seeds.end(), {r * 77 + 1, -r});
              positions.push_back(r * 1000);
            }
            args.top_k = ws.tokens(ws.ints(top_k, {s.R}));
            args.seeds = ws.tokens(ws.ints(seeds, {s.R, 2}));
            args.positions = ws.tokens(ws.ints(positions, {s.R}));
            if (s.mask) add_masks(ws, s, args);
            if (s.edits) add_edits(ws, s, args);
            if (s.counts) add_counts(ws, s, args);
            if (s.mask || s.edits || s.counts) {
              args.work = ws.arena().take(DType::kF32, {args.logits.dim(0), s.V});
            }
            args.tokens = ws.output("tokens", DType::kI32, {s.R});
            return Call{[=, &ws] { ws.ops().sample(args); }, cost(args)};
          }};
}

Case argmax_case(SampleShape s) {
  return {.op = "argmax",
          .name = name(s),
          .need = {.ops = {Op::kArgmax}},
          .tokens = s.R,
          .prepare = [s](Workspace& ws) {
            const ArgmaxArgs args = {
                .logits = ws.tokens(ws.input(DType::kF32, {s.R, s.V}, logits_of(ws, s), {0, 3})),
                .num_ids = s.num_ids ? s.num_ids : s.V,
                .tokens = ws.output("tokens", DType::kI32, {s.R})};
            return Call{[=, &ws] { ws.ops().argmax(args); }, cost(args)};
          }};
}

// [R, K] of an op's results; of no columns nothing is compared.
Tensor others(Workspace& ws, const char* name, DType dtype, std::int64_t R, std::int64_t K) {
  if (K > 0) return ws.output(name, dtype, {R, K});
  return ws.tokens(ws.arena().take(dtype, {R, K}));
}

Case log_probs_case(SampleShape s, std::int64_t K) {
  return {.op = "token_log_probs",
          .name = str(name(s), ", ", K, " others"),
          .need = {.ops = {Op::kTokenLogProbs}},
          .tolerance = kTokenLogProbsTolerance,
          .tokens = s.R,
          .prepare = [s, K](Workspace& ws) {
            std::vector<std::int32_t> rows, ids;
            for (std::int64_t n = 0; n < s.R; ++n) {
              rows.push_back(static_cast<std::int32_t>(s.R - 1 - n));
              ids.push_back(static_cast<std::int32_t>(n % 4 == 3 ? kNoToken : n * 13 % s.V));
            }
            const TokenLogProbsArgs args = {
                .logits = ws.input(DType::kF32, {s.R, s.V}, logits_of(ws, s), {0, 3}),
                .rows = ws.tokens(ws.ints(rows, {s.R})),
                .ids = ws.ints(ids, {s.R}),
                .num_ids = s.num_ids ? s.num_ids : s.V,
                .log_probs = ws.output("log_probs", DType::kF32, {s.R}),
                .ranks = ws.output("ranks", DType::kI32, {s.R}),
                .top_ids = others(ws, "top_ids", DType::kI32, s.R, K),
                .top_log_probs = others(ws, "top_log_probs", DType::kF32, s.R, K)};
            return Call{[=, &ws] { ws.ops().token_log_probs(args); }, cost(args)};
          }};
}

}  // namespace

void add_sampling_cases(std::vector<Case>& cases, bool timing) {
  if (timing) {
    for (const std::int64_t R : {1, 128}) {
      cases.push_back(argmax_case({.R = R, .V = 154880}));
      cases.push_back(sample_case({.R = R, .V = 154880}));
      cases.push_back(sample_case({.R = R, .V = 154880, .top_p = 0.95f, .top_k = 40}));
      cases.push_back(sample_case({.R = R, .V = 154880, .counts = true}));
      cases.push_back(log_probs_case({.R = R, .V = 154880}, 20));
    }
    return;
  }
  const SampleShape shapes[] = {{.R = 1, .V = 1},
                                {.R = 3, .V = 5},
                                {.R = 7, .V = 1000, .num_ids = 700},
                                {.R = 2, .V = 154880, .num_ids = 154820},
                                {.R = 9, .V = 77, .ties = true},
                                {.R = 6, .V = 130, .bad = true}};
  for (const SampleShape& shape : shapes) {
    cases.push_back(argmax_case(shape));
    for (const std::int64_t K : {0, 1, 20}) cases.push_back(log_probs_case(shape, K));
    for (const bool mask : {false, true}) {
      for (const bool edits : {false, true}) {
        SampleShape s = shape;
        s.mask = mask;
        s.edits = edits;
        for (const float scale : {0.0f, 0.5f, 1.0f, 1e30f}) {
          s.scale = scale;
          cases.push_back(sample_case(s));
        }
        s.scale = 1.25f;
        s.top_p = 0.9f;
        cases.push_back(sample_case(s));
        s.top_k = 13;
        cases.push_back(sample_case(s));
        s.min_p = 0.05f;
        cases.push_back(sample_case(s));
        s.top_p = 1e-6f;
        cases.push_back(sample_case(s));
        s.top_p = 1;
        s.top_k = 1;
        cases.push_back(sample_case(s));
        s.counts = true;
        for (const float scale : {0.0f, 0.8f}) {
          s.scale = scale;
          cases.push_back(sample_case(s));
        }
      }
    }
  }
}

}  // namespace glint::conformance
