// sample, argmax and token_log_probs by full sorting.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backends/reference/reference_ops.h"
#include "base/check.h"
#include "ops/sampling_math.h"

namespace glint {
namespace {

constexpr float kImpossible = -INFINITY;

// The row's logits after edits and mask, and whether they all were numbers.
struct Row {
  std::vector<float> x;
  bool numbers = true;
};

void penalize(const SampleArgs& args, std::int64_t r, std::vector<float>& x) {
  const std::int32_t seat = args.counts ? args.seats.ptr<std::int32_t>()[r] : -1;
  if (seat < 0) return;
  GLINT_CHECK(seat < args.counts.dim(0), "sample: a seat outside the table of counts");
  const std::int32_t* const known = args.counts.row<std::int32_t>(seat);
  std::vector<std::int32_t> counts(known, known + x.size());
  const std::int32_t* const drafts = args.drafts.ptr<std::int32_t>();
  for (std::int64_t d = r; d >= 0 && drafts[d] >= 0; --d) {
    if (drafts[d] < args.num_ids) counts[static_cast<std::size_t>(drafts[d])] += kCountOfSaid;
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (counts[i] > 0) x[i] = penalized(x[i], counts[i], args.penalties.row<std::int32_t>(r));
  }
}

Row edited(const SampleArgs& args, std::int64_t r) {
  const float* const logits = args.logits.row<float>(r);
  Row row = {.x = std::vector<float>(logits, logits + args.num_ids)};
  bool finite = false;
  for (const float z : row.x) row.numbers &= z<INFINITY, finite |= z> kImpossible;
  row.numbers &= finite;
  if (args.edit_begins) {
    const std::int32_t* const begins = args.edit_begins.ptr<std::int32_t>();
    for (std::int32_t e = begins[r]; e < begins[r + 1]; ++e) {
      row.x[static_cast<std::size_t>(args.edit_ids.ptr<std::int32_t>()[e])] +=
          args.edit_values.ptr<float>()[e];
    }
  }
  penalize(args, r, row.x);
  const std::int32_t m = args.masks ? args.mask_rows.ptr<std::int32_t>()[r] : -1;
  for (std::size_t i = 0; m >= 0 && i < row.x.size(); ++i) {
    const auto word = static_cast<std::uint32_t>(args.masks.row<std::int32_t>(m)[i / 32]);
    if (!(word >> (i % 32) & 1)) row.x[i] = kImpossible;
  }
  return row;
}

// Ids in order of falling x, then rising id.
std::vector<std::int32_t> order_of(const std::vector<float>& x) {
  std::vector<std::int32_t> ids(x.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return x[static_cast<std::size_t>(a)] > x[static_cast<std::size_t>(b)];
  });
  return ids;
}

std::int32_t sample_row(const SampleArgs& args, std::int64_t r) {
  const Row row = edited(args, r);
  if (!row.numbers) return kNotNumbers;
  std::vector<std::int32_t> ids = order_of(row.x);
  const auto x = [&](std::int32_t id) { return row.x[static_cast<std::size_t>(id)]; };
  const float max = x(ids[0]), scale = args.scales.ptr<float>()[r];
  if (max == kImpossible) return kNoToken;
  if (scale == 0) return ids[0];
  const auto s = [&](std::int32_t id) { return (x(id) - max) * scale; };
  const auto weight = [&](std::int32_t id) { return exp_weight(s(id)); };
  std::size_t kept = 0;
  const float min_p = args.min_p.ptr<float>()[r];
  while (kept < ids.size() && weight(ids[kept]) >= min_p && weight(ids[kept]) > 0) ++kept;
  const std::int32_t top_k = args.top_k.ptr<std::int32_t>()[r];
  if (top_k > 0) kept = std::min(kept, static_cast<std::size_t>(top_k));
  std::uint64_t total = 0, reached = 0;
  for (std::size_t i = 0; i < kept; ++i) total += weight_units(weight(ids[i]));
  const std::uint64_t wanted = units_of_share(args.top_p.ptr<float>()[r], total);
  for (std::size_t i = 0; i < kept; ++i) {
    reached += weight_units(weight(ids[i]));
    if (reached >= wanted) kept = i + 1;
  }
  ids.resize(kept);
  std::sort(ids.begin(), ids.end());
  const std::uint64_t seed = both_halves(args.seeds.row<std::int32_t>(r));
  const auto position = static_cast<std::uint32_t>(args.positions.ptr<std::int32_t>()[r]);
  const auto score = [&](std::int32_t id) {
    return s(id) + gumbel_of(sample_bits(seed, position, static_cast<std::uint32_t>(id)));
  };
  std::int32_t best = ids[0];
  for (const std::int32_t id : ids) {
    if (score(id) > score(best)) best = id;
  }
  return best;
}

}  // namespace

void ReferenceOps::sample(const SampleArgs& args) {
  check(args);
  for (std::int64_t r = 0; r < args.logits.dim(0); ++r) {
    args.tokens.ptr<std::int32_t>()[r] = sample_row(args, r);
  }
}

void ReferenceOps::argmax(const ArgmaxArgs& args) {
  check(args);
  for (std::int64_t r = 0; r < args.logits.dim(0); ++r) {
    const float* const x = args.logits.row<float>(r);
    std::int32_t best = 0;
    for (std::int32_t i = 1; i < args.num_ids; ++i) {
      if (x[i] > x[best] || (std::isnan(x[best]) && !std::isnan(x[i]))) best = i;
    }
    args.tokens.ptr<std::int32_t>()[r] = best;
  }
}

void ReferenceOps::token_log_probs(const TokenLogProbsArgs& args) {
  check(args);
  const std::int64_t V = args.logits.dim(1), K = args.top_ids.dim(1);
  for (std::int64_t n = 0; n < args.rows.dim(0); ++n) {
    const std::int32_t r = args.rows.ptr<std::int32_t>()[n];
    const float* const z = args.logits.row<float>(r);
    const std::int32_t own_id = args.ids.ptr<std::int32_t>()[r];
    const float own = own_id < 0 ? NAN : z[own_id];
    if (!std::all_of(z, z + V, [](float x) { return x < INFINITY; })) {
      args.log_probs.ptr<float>()[n] = NAN;
      args.ranks.ptr<std::int32_t>()[n] = 1;
      std::fill_n(args.top_ids.row<std::int32_t>(n), K, -1);
      std::fill_n(args.top_log_probs.row<float>(n), K, 0.0f);
      continue;
    }
    const double max = *std::max_element(z, z + V);
    double sum = 0;
    for (std::int64_t i = 0; i < V; ++i) sum += std::exp(double{z[i]} - max);
    const auto log_prob = [&](float logit) {
      return static_cast<float>(double{logit} - max - std::log(sum));
    };
    args.log_probs.ptr<float>()[n] = log_prob(own);
    args.ranks.ptr<std::int32_t>()[n] =
        1 + static_cast<std::int32_t>(std::count_if(z, z + V, [&](float x) { return x > own; }));
    const std::vector<std::int32_t> order = order_of(std::vector<float>(z, z + args.num_ids));
    for (std::int64_t k = 0; k < K; ++k) {
      const bool is_there = k < args.num_ids;
      const std::int32_t id = is_there ? order[static_cast<std::size_t>(k)] : -1;
      args.top_ids.row<std::int32_t>(n)[k] = id;
      args.top_log_probs.row<float>(n)[k] = is_there ? log_prob(z[id]) : 0;
    }
  }
}

}  // namespace glint
