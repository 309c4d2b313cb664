// Cases of route, pick_copies, count_experts, permute, regroup and combine.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "ops/conformance/cases.h"

namespace glint::conformance {
namespace {

struct RouteShape {
  std::int64_t T, E, k;
  int n_group = 1, topk_group = 1;
  bool normed = true;
  bool ties = false;
  bool nan = false;  // token 0's logits
  // Every third row from this one on is padding; -1: none is.
  std::int64_t padding = -1;
  bool given = false;

  bool is_padding(std::int64_t t) const { return padding >= 0 && t % 3 == padding; }
};

// Whether `got` may stand where the reference has `want`: their biased scores are next to equal,
// and where their inputs are equal too the lower id comes first.
bool may_replace(std::int32_t got, std::int32_t want, const float* biased, const float* logits,
                 const float* bias) {
  if (got == want) return true;
  if (logits[got] == logits[want] && bias[got] == bias[want]) return false;
  return std::fabs(biased[got] - biased[want]) <= kRouteSlack;
}

// The weights of the experts `ids` by the contract's formula.
std::vector<float> weights_of(const std::int32_t* ids, std::int64_t k, const float* scores,
                              bool normed) {
  double sum = 1e-20;
  for (std::int64_t j = 0; j < k; ++j) sum += scores[ids[j]];
  std::vector<float> weights;
  for (std::int64_t j = 0; j < k; ++j) {
    weights.push_back(static_cast<float>(2.5 * scores[ids[j]] / (normed ? sum : 1)));
  }
  return weights;
}

// want: ids, weights, then the notes logits, scores, biased scores [T, E] and bias [1, E].
Verdict judge_route(const RouteShape& s, const Outputs& want, const Outputs& got,
                    double tolerance) {
  if (want.size() != got.size()) return {1, "a stray write beside the outputs"};
  const std::int64_t k = want[0].width, E = want[2].width;
  Output expected = want[1];
  for (std::int64_t t = 0; t < want[0].rows(); ++t) {
    const std::int32_t *ids = &got[0].ids[t * k], *reference = &want[0].ids[t * k];
    if (s.is_padding(t)) {
      const auto is_none = [](std::int32_t id) { return id == -1; };
      if (!std::all_of(ids, ids + k, is_none)) return {1, str("padding ", t, " got an expert")};
      continue;
    }
    if (s.given && !std::equal(ids, ids + k, reference)) return {1, "the given experts changed"};
    std::vector<bool> seen(E);
    for (std::int64_t j = 0; j < k; ++j) {
      if (ids[j] < 0 || ids[j] >= E || seen[ids[j]]) {
        return {1, str("token ", t, " got expert ", ids[j], ", which is none, or twice")};
      }
      seen[ids[j]] = true;
      if (s.given || std::isnan(want[2].values[t * E])) continue;
      if (!may_replace(ids[j], reference[j], &want[4].values[t * E], &want[2].values[t * E],
                       want[5].values.data())) {
        return {1, str("choice ", j, " of token ", t, " is ", ids[j], ", the reference has ",
                       reference[j])};
      }
    }
    const std::vector<float> weights = weights_of(ids, k, &want[3].values[t * E], s.normed);
    std::copy(weights.begin(), weights.end(), expected.values.begin() + t * k);
  }
  return judge_outputs({expected}, {got[1]}, tolerance);
}

// Distinct experts in no order of merit; none for padding.
std::vector<std::int32_t> given_ids(const RouteShape& s) {
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < s.T; ++t) {
    for (std::int64_t j = 0; j < s.k; ++j) {
      ids.push_back(s.is_padding(t) ? -1 : static_cast<std::int32_t>((t * 5 + s.E - j) % s.E));
    }
  }
  return ids;
}

Case route_case(RouteShape s) {
  return {.op = "route",
          .name = str("T ", s.T, ", ", s.k, " of ", s.E,
                      s.n_group > 1 ? str(", ", s.topk_group, " of ", s.n_group, " groups") : "",
                      s.normed ? "" : ", not normed", s.ties ? ", ties" : "", s.nan ? ", NaN" : "",
                      s.padding >= 0 ? ", padding" : "", s.given ? ", given" : ""),
          .need = {.ops = {Op::kRoute}},
          .tolerance = kMoeTolerance.f32,
          .tokens = s.T,
          .prepare =
              [=](Workspace& ws) {
                std::vector<float> logits = ws.noise(s.T * s.E, 2), bias = ws.noise(s.E, 0.1);
                for (std::int64_t i = 0; i < s.T * s.E && s.ties; ++i) logits[i] = 0.5f;
                for (std::int64_t e = 0; e < s.E && s.ties; ++e) bias[e] = e % 3 == 1 ? 0.25f : 0;
                for (std::int64_t e = 0; e < s.E && s.nan; ++e) logits[e] = NAN;
                std::vector<float> scores, biased;
                for (std::int64_t i = 0; i < s.T * s.E; ++i) {
                  scores.push_back(static_cast<float>(1 / (1 + std::exp(-double{logits[i]}))));
                  biased.push_back(scores[i] + bias[i % s.E]);
                }
                RouteArgs args = {.logits = ws.tokens(ws.input(DType::kF32, {s.T, s.E}, logits)),
                                  .bias = ws.input(DType::kF32, {s.E}, bias),
                                  .n_group = s.n_group,
                                  .topk_group = s.topk_group,
                                  .norm_topk_prob = s.normed,
                                  .routed_scaling_factor = 2.5f,
                                  .ids = s.given
                                             ? ws.updated("ids", ws.ints(given_ids(s), {s.T, s.k}))
                                             : ws.output("ids", DType::kI32, {s.T, s.k}),
                                  .given = s.given,
                                  .weights = ws.output("weights", DType::kF32, {s.T, s.k})};
                std::vector<std::int32_t> positions;
                for (std::int64_t t = 0; t < s.T; ++t) {
                  positions.push_back(s.is_padding(t) ? -1 : static_cast<std::int32_t>(t));
                }
                if (s.padding >= 0) args.positions = ws.tokens(ws.ints(positions, {s.T}));
                ws.note("logits", logits, s.E);
                ws.note("scores", scores, s.E);
                ws.note("biased", biased, s.E);
                ws.note("bias", bias, s.E);
                return Call{[=, &ws] { ws.ops().route(args); }, cost(args)};
              },
          .judge = [=](const Outputs& want, const Outputs& got,
                       double tolerance) { return judge_route(s, want, got, tolerance); }};
}

// k experts of E for each of T tokens; a stride of 0 sends all tokens to the same ones, a negative
// one leaves every fourth pair without an expert.
std::vector<std::int32_t> expert_ids(std::int64_t T, std::int64_t E, std::int64_t k, int stride) {
  std::vector<std::int32_t> ids;
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int64_t j = 0; j < k; ++j) {
      const auto id = static_cast<std::int32_t>((t * std::abs(stride) + j * 5) % E);
      ids.push_back(stride < 0 && ids.size() % 4 == 1 ? -1 : id);
    }
  }
  return ids;
}

Case permute_case(std::int64_t T, std::int64_t E, std::int64_t k, int stride) {
  return {.op = "permute",
          .name = str("T ", T, ", ", k, " of ", E, stride ? "" : ", all to the same",
                      stride < 0 ? ", padding" : ""),
          .need = {.ops = {Op::kPermute}},
          .prepare = [=](Workspace& ws) {
            const PermuteArgs args = {.ids = ws.ints(expert_ids(T, E, k, stride), {T, k}),
                                      .rows = ws.whole_output("rows", DType::kI32, {T * k}),
                                      .offsets = ws.whole_output("offsets", DType::kI32, {E + 1}),
                                      .places = ws.whole_output("places", DType::kI32, {T, k})};
            return Call{[=, &ws] { ws.ops().permute(args); }, cost(args)};
          }};
}

// Expert e has 1 + e % most copies, whose slots are the last ones first; a choice in five is none.
Case pick_copies_case(std::int64_t T, std::int64_t E, std::int64_t k, int most) {
  std::vector<std::int32_t> first = {0}, copies, ids, positions;
  for (std::int64_t e = 0; e < E; ++e)
    first.push_back(first.back() + 1 + static_cast<std::int32_t>(e % most));
  for (std::int32_t p = first.back(); p > 0; --p) copies.push_back(p - 1);
  for (std::int64_t i = 0; i < T * k; ++i)
    ids.push_back(static_cast<std::int32_t>(i % 5 == 3 ? -1 : i * 7 % E));
  for (std::int64_t t = 0; t < T; ++t)
    positions.push_back(static_cast<std::int32_t>(t % 4 == 1 ? -1 : 1000 + t / 2));
  return {.op = "pick_copies",
          .name = str("T ", T, ", ", k, " of ", E, " experts, up to ", most, " copies"),
          .need = {.ops = {Op::kPickCopies}},
          .prepare = [=](Workspace& ws) {
            const PickCopiesArgs args = {.ids = ws.ints(ids, {T, k}),
                                         .positions = ws.ints(positions, {T}),
                                         .first = ws.ints(first, {E + 1}),
                                         .copies = ws.ints(copies, {first.back()}),
                                         .slots = ws.whole_output("slots", DType::kI32, {T, k})};
            return Call{[=, &ws] { ws.ops().pick_copies(args); }, cost(args)};
          }};
}

Case count_experts_case(std::int64_t L, std::int64_t T, std::int64_t E, std::int64_t k) {
  std::vector<std::int32_t> ids, counts;
  for (std::int64_t i = 0; i < L * T * k; ++i)
    ids.push_back(static_cast<std::int32_t>(i % 5 == 3 ? -1 : (i * 7 + i / 11) % E));
  for (std::int64_t i = 0; i < L * E; ++i)  // some wrap around
    counts.push_back(static_cast<std::int32_t>(i % 4 == 1 ? -1 : i));
  return {.op = "count_experts",
          .name = str("T ", T, ", ", k, " of ", E, " experts in ", L, " layers"),
          .need = {.ops = {Op::kCountExperts}},
          .prepare = [=](Workspace& ws) {
            const CountExpertsArgs args = {
                .ids = ws.ints(ids, {L * T, k}),
                .counts = ws.whole_updated("counts", ws.ints(counts, {L, E}))};
            return Call{[=, &ws] { ws.ops().count_experts(args); }, cost(args)};
          }};
}

// Rank s sends (s + e) % 4 rows to expert e, but none if s is 1; `spare` places are left over.
Case regroup_case(std::int64_t S, std::int64_t E, std::int64_t first, std::int64_t count,
                  std::int64_t spare) {
  std::vector<std::int32_t> offsets;
  std::int64_t R = spare;
  for (std::int64_t s = 0; s < S; ++s) {
    std::int32_t at = 0;
    for (std::int64_t e = 0; e <= E; ++e) {
      offsets.push_back(at);
      const auto rows = static_cast<std::int32_t>(s == 1 ? 0 : (s + e) % 4);
      if (e >= first && e < first + count) R += rows;
      at += rows;
    }
  }
  return {.op = "regroup",
          .name = str(S, " ranks, experts ", first, " to ", first + count, " of ", E,
                      spare ? ", padding" : ""),
          .need = {.ops = {Op::kRegroup}},
          .prepare = [=](Workspace& ws) {
            const RegroupArgs args = {.offsets = ws.ints(offsets, {S, E + 1}),
                                      .first = first,
                                      .rows = ws.whole_output("rows", DType::kI32, {R}),
                                      .groups = ws.whole_output("groups", DType::kI32, {count + 1}),
                                      .places = ws.whole_output("places", DType::kI32, {R})};
            return Call{[=, &ws] { ws.ops().regroup(args); }, cost(args)};
          }};
}

Case combine_case(DType dtype, std::int64_t T, std::int64_t k, std::int64_t D, bool shared,
                  bool padded = false) {
  return {.op = "combine",
          .name = str(short_name(dtype), ", T ", T, ", ", k, " experts, ", D,
                      shared ? ", shared" : "", padded ? ", padding" : ""),
          .need = {.ops = {Op::kCombine}, .activations = {dtype}},
          .tolerance = tolerance_of(kMoeTolerance, dtype),
          .tokens = T,
          .prepare = [=](Workspace& ws) {
            // A token's answers lie together, in reverse, so that a token can also stand alone.
            const std::int64_t here = ws.tokens(std::vector<std::int32_t>(T)).size();
            std::vector<std::int32_t> places;
            for (std::int64_t i = 0; i < here * k; ++i) {
              const auto place = static_cast<std::int32_t>(i / k * k + (k - 1 - i % k));
              places.push_back(padded && i % k == 1 ? -1 : place);
            }
            const Tensor y = ws.tokens(ws.input(dtype, {T, k * D}));
            CombineArgs args = {.y = Tensor(y.data, dtype, {here * k, D}),
                                .places = ws.ints(places, {here, k}),
                                .weights = ws.tokens(ws.input(DType::kF32, {T, k}))};
            if (shared) args.shared = ws.tokens(ws.input(dtype, {T, D}));
            args.out = ws.output("out", dtype, {T, D});
            return Call{[=, &ws] { ws.ops().combine(args); }, cost(args)};
          }};
}

}  // namespace

void add_moe_cases(std::vector<Case>& cases, bool timing) {
  for (const std::int64_t T : timing ? std::vector<std::int64_t>{1, 512}
                                     : std::vector<std::int64_t>{1, 2, 7, 16, 33, 64}) {
    cases.push_back(route_case({.T = T, .E = 256, .k = 8}));
    cases.push_back(permute_case(T, 256, 8, 3));
    if (timing) cases.push_back(count_experts_case(75, T, 256, 8));
    for (const DType dtype : kActivations) {
      if (timing && dtype == DType::kF32) continue;
      cases.push_back(combine_case(dtype, T, 8, timing ? 6144 : 272, true));
    }
  }
  if (timing) return;
  cases.push_back(route_case({.T = 7, .E = 16, .k = 4, .normed = false}));
  cases.push_back(route_case({.T = 3, .E = 16, .k = 16}));
  cases.push_back(route_case({.T = 2, .E = 1, .k = 1}));
  cases.push_back(route_case({.T = 5, .E = 13, .k = 3}));
  for (const int padding : {0, 1}) {
    cases.push_back(route_case({.T = 8, .E = 24, .k = 5, .padding = padding}));
  }
  cases.push_back(route_case({.T = 9, .E = 64, .k = 8, .ties = true}));
  cases.push_back(route_case({.T = 33, .E = 256, .k = 8, .n_group = 8, .topk_group = 4}));
  cases.push_back(route_case({.T = 9, .E = 24, .k = 5, .n_group = 4, .topk_group = 2}));
  cases.push_back(
      route_case({.T = 9, .E = 24, .k = 5, .n_group = 4, .topk_group = 2, .ties = true}));
  cases.push_back(route_case({.T = 2, .E = 24, .k = 5, .nan = true}));
  cases.push_back(
      route_case({.T = 2, .E = 24, .k = 5, .n_group = 4, .topk_group = 2, .nan = true}));
  cases.push_back(route_case({.T = 9, .E = 64, .k = 8, .given = true}));
  cases.push_back(route_case({.T = 4, .E = 24, .k = 5, .normed = false, .given = true}));
  cases.push_back(route_case(
      {.T = 8, .E = 24, .k = 5, .n_group = 4, .topk_group = 2, .padding = 1, .given = true}));
  cases.push_back(permute_case(7, 16, 4, 0));
  cases.push_back(permute_case(9, 16, 4, -3));
  cases.push_back(permute_case(1, 16, 2, -1));
  cases.push_back(permute_case(0, 16, 4, 1));
  cases.push_back(permute_case(3, 6, 1, 1));
  cases.push_back(permute_case(5, 1, 1, 0));
  cases.push_back(pick_copies_case(0, 16, 4, 2));
  cases.push_back(pick_copies_case(1, 5, 2, 3));
  cases.push_back(pick_copies_case(33, 16, 4, 1));
  cases.push_back(pick_copies_case(300, 256, 8, 4));
  cases.push_back(count_experts_case(2, 0, 16, 4));
  cases.push_back(count_experts_case(1, 1, 5, 2));
  cases.push_back(count_experts_case(3, 33, 16, 4));
  cases.push_back(count_experts_case(75, 9, 256, 8));
  cases.push_back(regroup_case(1, 16, 0, 16, 0));
  cases.push_back(regroup_case(3, 16, 4, 8, 0));
  cases.push_back(regroup_case(4, 24, 6, 6, 9));
  cases.push_back(regroup_case(8, 256, 224, 32, 300));
  cases.push_back(regroup_case(2, 5, 3, 0, 4));
  for (const DType dtype : kActivations) {
    cases.push_back(combine_case(dtype, 7, 1, 37, true));
    cases.push_back(combine_case(dtype, 3, 4, 6144, false));
    cases.push_back(combine_case(dtype, 33, 3, 5, false));
    cases.push_back(combine_case(dtype, 7, 4, 48, true, true));
    cases.push_back(combine_case(dtype, 7, 2, 48, false, true));
  }
}

}  // namespace glint::conformance
