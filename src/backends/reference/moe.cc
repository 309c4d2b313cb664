// The reference of route, pick_copies, count_experts, permute, regroup and combine (ops/moe.h).
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_ops.h"
#include "base/str.h"

namespace glint {

using namespace reference;

namespace {

// NaN counts as the worst, so that the order stays an order.
float orderable(float value) { return std::isnan(value) ? -INFINITY : value; }

// The `k` of `candidates` with the largest values, best first; ties to the smaller index.
std::vector<std::int32_t> best(std::vector<std::int32_t> candidates, std::int64_t k,
                               const std::vector<float>& values) {
  std::partial_sort(
      candidates.begin(), candidates.begin() + k, candidates.end(),
      [&](int a, int b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  candidates.resize(k);
  return candidates;
}

std::vector<std::int32_t> first_integers(std::int64_t n) {
  std::vector<std::int32_t> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The experts of the topk_group best groups.
std::vector<std::int32_t> candidates(const RouteArgs& args, const std::vector<float>& biased) {
  const std::int64_t E = static_cast<std::int64_t>(biased.size()), size = E / args.n_group;
  if (args.n_group == 1) return first_integers(E);
  std::vector<float> group_score(args.n_group);
  for (int g = 0; g < args.n_group; ++g) {
    std::vector<float> members(biased.begin() + g * size, biased.begin() + (g + 1) * size);
    std::sort(members.begin(), members.end(), std::greater<>());
    for (std::int64_t i = 0; i < std::min<std::int64_t>(2, size); ++i) group_score[g] += members[i];
    group_score[g] = orderable(group_score[g]);
  }
  std::vector<std::int32_t> experts;
  for (const int g : best(first_integers(args.n_group), args.topk_group, group_score)) {
    for (std::int64_t i = 0; i < size; ++i) {
      experts.push_back(static_cast<std::int32_t>(g * size + i));
    }
  }
  return experts;
}

// Ids of an earlier pass.
std::vector<std::int32_t> checked(const std::int32_t* ids, std::int64_t k, std::int64_t E) {
  for (std::int64_t j = 0; j < k; ++j) {
    GLINT_CHECK(ids[j] >= 0 && ids[j] < E, str("expert ", ids[j], " was given; there are ", E));
  }
  return {ids, ids + k};
}

}  // namespace

void ReferenceOps::route(const RouteArgs& args) {
  check(args);
  const std::int64_t E = args.logits.dim(1), k = args.ids.dim(1);
  for (std::int64_t t = 0; t < args.logits.dim(0); ++t) {
    if (args.positions && args.positions.ptr<std::int32_t>()[t] < 0) {
      std::fill_n(args.ids.row<std::int32_t>(t), k, -1);
      std::fill_n(args.weights.row<float>(t), k, 0.0f);
      continue;
    }
    std::vector<float> scores(E), biased(E);
    for (std::int64_t e = 0; e < E; ++e) {
      scores[e] = static_cast<float>(1 / (1 + std::exp(-double{args.logits.row<float>(t)[e]})));
      biased[e] = orderable(scores[e] + args.bias.ptr<float>()[e]);
    }
    const std::int32_t* const given = args.ids.row<std::int32_t>(t);
    const std::vector<std::int32_t> ids =
        args.given ? checked(given, k, E) : best(candidates(args, biased), k, biased);
    double sum = 1e-20;
    for (const int e : ids) sum += scores[e];
    for (std::int64_t j = 0; j < k; ++j) {
      const double share = args.norm_topk_prob ? scores[ids[j]] / sum : scores[ids[j]];
      args.ids.row<std::int32_t>(t)[j] = ids[j];
      args.weights.row<float>(t)[j] = static_cast<float>(share * args.routed_scaling_factor);
    }
  }
}

void ReferenceOps::pick_copies(const PickCopiesArgs& args) {
  check(args);
  const std::int64_t T = args.ids.dim(0), k = args.ids.dim(1), E = args.first.dim(0) - 1;
  const std::int32_t* const first = args.first.ptr<std::int32_t>();
  for (std::int64_t e = 0; e < E; ++e) {
    GLINT_CHECK(first[e] < first[e + 1] && first[e + 1] <= args.copies.dim(0),
                str("expert ", e, " has no copy"));
  }
  for (std::int64_t t = 0; t < T; ++t) {
    for (std::int64_t j = 0; j < k; ++j) {
      std::int32_t& slot = args.slots.row<std::int32_t>(t)[j];
      const std::int32_t id = args.ids.row<std::int32_t>(t)[j];
      GLINT_CHECK(id >= -1 && id < E, str("there is no expert ", id));
      slot = id;
      if (id < 0) continue;
      const std::int32_t copy =
          copy_of_row(t, args.positions.ptr<std::int32_t>()[t], first[id + 1] - first[id]);
      slot = args.copies.ptr<std::int32_t>()[first[id] + copy];
    }
  }
}

void ReferenceOps::count_experts(const CountExpertsArgs& args) {
  check(args);
  const std::int64_t L = args.counts.dim(0), E = args.counts.dim(1);
  const std::int64_t T = args.ids.dim(0) / L, k = args.ids.dim(1);
  for (std::int64_t row = 0; row < L * T; ++row) {
    for (std::int64_t j = 0; j < k; ++j) {
      const std::int32_t id = args.ids.row<std::int32_t>(row)[j];
      GLINT_CHECK(id >= -1 && id < E, str("there is no expert ", id));
      if (id < 0) continue;
      std::int32_t& count = args.counts.row<std::int32_t>(row / T)[id];
      count = static_cast<std::int32_t>(static_cast<std::uint32_t>(count) + 1);
    }
  }
}

void ReferenceOps::permute(const PermuteArgs& args) {
  check(args);
  const std::int64_t k = args.ids.dim(1), pairs = args.ids.size(), E = args.offsets.dim(0) - 1;
  std::int32_t* offsets = args.offsets.ptr<std::int32_t>();
  std::fill(offsets, offsets + E + 1, 0);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int64_t expert = index_or_padding(args.ids, i, E, "expert");
    if (expert >= 0) ++offsets[expert + 1];
  }
  std::partial_sum(offsets, offsets + E + 1, offsets);
  std::vector<std::int32_t> next(offsets, offsets + E);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const std::int32_t expert = args.ids.ptr<std::int32_t>()[i];
    if (expert < 0) {
      args.places.ptr<std::int32_t>()[i] = -1;
      continue;
    }
    const std::int32_t place = next[expert]++;
    args.rows.ptr<std::int32_t>()[place] = static_cast<std::int32_t>(i / k);
    args.places.ptr<std::int32_t>()[i] = place;
  }
}

void ReferenceOps::regroup(const RegroupArgs& args) {
  check(args);
  const std::int64_t S = args.offsets.dim(0), R = args.rows.dim(0);
  const std::int64_t count = args.groups.dim(0) - 1;
  // Where the next row of each rank was received.
  std::vector<std::int32_t> next;
  std::int32_t received = 0;
  for (std::int64_t s = 0; s < S; ++s) {
    const std::int32_t* const offsets = args.offsets.row<std::int32_t>(s) + args.first;
    for (std::int64_t g = 0; g < count; ++g) {
      GLINT_CHECK(offsets[g] <= offsets[g + 1], "the offsets do not ascend");
    }
    next.push_back(received);
    received += offsets[count] - offsets[0];
  }
  GLINT_CHECK(received <= R, str(received, " rows were received; there is room for ", R));
  std::fill_n(args.places.ptr<std::int32_t>(), R, -1);
  std::int32_t place = 0;
  for (std::int64_t g = 0; g < count; ++g) {
    args.groups.ptr<std::int32_t>()[g] = place;
    for (std::int64_t s = 0; s < S; ++s) {
      const std::int32_t* const offsets = args.offsets.row<std::int32_t>(s) + args.first;
      for (std::int32_t i = offsets[g]; i < offsets[g + 1]; ++i) {
        args.rows.ptr<std::int32_t>()[place] = next[s];
        args.places.ptr<std::int32_t>()[next[s]++] = place++;
      }
    }
  }
  args.groups.ptr<std::int32_t>()[count] = place;
}

void ReferenceOps::combine(const CombineArgs& args) {
  check(args);
  const std::int64_t k = args.places.dim(1), D = args.y.dim(1);
  with_float_type(args.y.dtype, [&](auto type) {
    using T = decltype(type);
    std::vector<double> sum(D);
    for (std::int64_t t = 0; t < args.places.dim(0); ++t) {
      std::fill(sum.begin(), sum.end(), 0);
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t place = index_or_padding(args.places, t * k + j, args.y.dim(0), "place");
        if (place < 0) continue;
        const T* y = args.y.row<T>(place);
        const double weight = args.weights.row<float>(t)[j];
        for (std::int64_t d = 0; d < D; ++d) sum[d] += weight * to_float(y[d]);
      }
      for (std::int64_t d = 0; d < D; ++d) {
        if (args.shared) sum[d] += to_float(args.shared.row<T>(t)[d]);
        args.out.row<T>(t)[d] = from_float<T>(static_cast<float>(sum[d]));
      }
    }
  });
}

}  // namespace glint
