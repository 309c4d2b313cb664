// sample, argmax and token_log_probs, a row a thread.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/cpu_ops.h"
#include "backends/cpu/for_rows.h"
#include "base/thread_pool.h"
#include "ops/logit_rows.h"
#include "ops/sampling_math.h"

namespace glint {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The first ids in order of falling logit, then rising id: those with a larger key
// than `key`, and of those with this key the ids up to `last`.
struct Prefix {
  std::uint32_t key = 0;
  std::int32_t last = std::numeric_limits<std::int32_t>::max();

  bool has(float x, std::size_t id) const {
    const std::uint32_t k = key_of(x);
    return k > key || (k == key && static_cast<std::int32_t>(id) <= last);
  }
};

// The shortest prefix in which measure(id) adds up to `target`; all of them if none does. Ids whose
// measure is 0 are not looked at.
template <class Measure>
Prefix prefix_of(std::span<const float> x, std::uint64_t target, const Measure& measure) {
  constexpr int kShift = 20;  // sign, exponent, and the first bits of the mantissa
  std::vector<std::uint64_t> bins(std::size_t{1} << (32 - kShift));
  for (std::size_t i = 0; i < x.size(); ++i) bins[key_of(x[i]) >> kShift] += measure(i);
  std::uint64_t reached = 0;
  std::size_t bin = bins.size() - 1;
  for (; reached + bins[bin] < target; --bin) {
    reached += bins[bin];
    if (bin == 0) return {};
  }
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (key_of(x[i]) >> kShift == bin && measure(i) > 0)
      ids.push_back(static_cast<std::int32_t>(i));
  }
  const auto logit = [&](std::int32_t id) { return x[static_cast<std::size_t>(id)]; };
  std::sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  });
  std::size_t n = 0;
  while ((reached += measure(static_cast<std::size_t>(ids[n]))) < target) ++n;
  return {key_of(logit(ids[n])), ids[n]};
}

// One row on its way to a token.
class RowSampler {
 public:
  RowSampler(const SampleArgs& args, std::int64_t r, std::vector<float>& weights)
      : args_(args), r_(r), weights_(weights) {}

  std::int32_t run() {
    const auto count = static_cast<std::size_t>(args_.num_ids);
    const std::span<const float> raw(args_.logits.row<float>(r_), count);
    const Extent extent = extent_of(raw);
    if (!extent.numbers || extent.max == -kInfinity) return kNotNumbers;
    x_ = edited(raw);
    max_ = x_.data() == raw.data() ? extent.max : extent_of(x_).max;
    if (max_ == -kInfinity) return kNoToken;
    scale_ = args_.scales.ptr<float>()[r_];
    if (scale_ == 0) return glint::argmax(x_);
    weigh();
    return draw();
  }

 private:
  std::span<const float> edited(std::span<const float> raw) {
    const std::int32_t* const begins =
        args_.edit_begins ? args_.edit_begins.ptr<std::int32_t>() : nullptr;
    const std::int32_t mask = args_.masks ? args_.mask_rows.ptr<std::int32_t>()[r_] : -1;
    const std::int32_t seat = args_.counts ? args_.seats.ptr<std::int32_t>()[r_] : -1;
    if ((!begins || begins[r_] == begins[r_ + 1]) && mask < 0 && seat < 0) return raw;
    const std::span<float> x(args_.work.row<float>(r_), raw.size());
    std::copy(raw.begin(), raw.end(), x.begin());
    for (std::int32_t e = begins ? begins[r_] : 0; e < (begins ? begins[r_ + 1] : 0); ++e) {
      x[static_cast<std::size_t>(args_.edit_ids.ptr<std::int32_t>()[e])] +=
          args_.edit_values.ptr<float>()[e];
    }
    if (seat >= 0) penalize(args_.counts.row<std::int32_t>(seat), x);
    if (mask >= 0) apply(args_.masks.row<std::int32_t>(mask), x);
    return x;
  }

  // Most ids of a vocabulary were never said: whole blocks of them are passed over.
  void penalize(const std::int32_t* counts, std::span<float> x) const {
    constexpr std::size_t kBlock = 64;
    const std::int32_t* const penalties = args_.penalties.row<std::int32_t>(r_);
    const std::int32_t* const drafts = args_.drafts.ptr<std::int32_t>();
    std::vector<std::pair<std::size_t, float>> drafted;  // which count more than the table says
    for (std::int64_t d = r_; d >= 0 && drafts[d] >= 0; --d) {
      const auto id = static_cast<std::size_t>(drafts[d]);
      if (id >= x.size()) continue;
      std::int32_t count = counts[id];
      for (std::int64_t e = r_; e >= 0 && drafts[e] >= 0; --e) {
        count += drafts[e] == drafts[d] ? kCountOfSaid : 0;
      }
      drafted.emplace_back(id, penalized(x[id], count, penalties));
    }
    for (std::size_t first = 0; first < x.size(); first += kBlock) {
      const std::size_t end = std::min(first + kBlock, x.size());
      std::int32_t any = 0;
      for (std::size_t i = first; i < end; ++i) any |= counts[i];
      for (std::size_t i = first; any != 0 && i < end; ++i) {
        if (counts[i] != 0) x[i] = penalized(x[i], counts[i], penalties);
      }
    }
    for (const auto& [id, logit] : drafted) x[id] = logit;
  }

  static void apply(const std::int32_t* mask, std::span<float> x) {
    for (std::size_t first = 0; first < x.size(); first += 32) {
      const auto word = static_cast<std::uint32_t>(mask[first / 32]);
      if (word == ~std::uint32_t{0}) continue;
      for (std::size_t i = first; i < std::min(first + 32, x.size()); ++i) {
        if (!(word >> (i % 32) & 1)) x[i] = -kInfinity;
      }
    }
  }

  // The weights of what may come, and 0 elsewhere.
  void weigh() {
    weights_.resize(x_.size());
    const float min_p = args_.min_p.ptr<float>()[r_];
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const float weight = exp_weight((x_[i] - max_) * scale_);
      weights_[i] = float_of(bits_of(weight) & (weight >= min_p ? ~0u : 0u));
    }
    const std::int32_t top_k = args_.top_k.ptr<std::int32_t>()[r_];
    if (top_k > 0) {
      keep(prefix_of(x_, static_cast<std::uint64_t>(top_k),
                     [&](std::size_t i) -> std::uint64_t { return weights_[i] > 0 ? 1 : 0; }));
    }
    const float top_p = args_.top_p.ptr<float>()[r_];
    if (top_p >= 1) return;
    const auto units = [&](std::size_t i) { return weight_units(weights_[i]); };
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) total += units(i);
    keep(prefix_of(x_, units_of_share(top_p, total), units));
  }
  void keep(const Prefix& prefix) {
    for (std::size_t i = 0; i < x_.size(); ++i) {
      if (!prefix.has(x_[i], i)) weights_[i] = 0;
    }
  }

  // -ln(1 - d) is at least d, so a Gumbel number is at most -ln d, and only an id whose d is at
  // most e^(s - best) can be better than the best so far: few ids cost two logarithms, and those
  // whose weight is far below it not even their random bits.
  std::int32_t draw() const {
    const std::uint64_t seed = both_halves(args_.seeds.row<std::int32_t>(r_));
    const auto position = static_cast<std::uint32_t>(args_.positions.ptr<std::int32_t>()[r_]);
    const float least = distance_to_one(0);
    float best = -kInfinity, reach = kInfinity;
    std::size_t token = 0;
    for (std::size_t first = 0; first < x_.size(); first += 4) {
      const std::size_t end = std::min(first + 4, x_.size());
      float most = 0;
      for (std::size_t i = first; i < end; ++i) most = std::max(most, weights_[i]);
      if (most == 0 || most * reach < least) continue;
      const auto bits = philox(seed, position, first / 4);
      for (std::size_t i = first; i < end; ++i) {
        const std::uint32_t own = bits[i - first];
        if (weights_[i] == 0 || distance_to_one(own) > weights_[i] * reach) continue;
        const float score = (x_[i] - max_) * scale_ + gumbel_of(own);
        if (!(score > best)) continue;
        best = score;
        token = i;
        reach = std::exp(-best) * 1.001f;  // beyond all rounding
      }
    }
    return static_cast<std::int32_t>(token);
  }

  const SampleArgs& args_;
  const std::int64_t r_;
  std::vector<float>& weights_;
  std::span<const float> x_ = {};
  float max_ = 0, scale_ = 0;
};

}  // namespace

void CpuOps::sample(const SampleArgs& args) {
  check(args);
  sample_weights_.resize(static_cast<std::size_t>(pool_.num_threads()));
  cpu::for_rows(pool_, args.logits.dim(0), args.num_ids, [&](std::int64_t r, int thread) {
    args.tokens.ptr<std::int32_t>()[r] =
        RowSampler(args, r, sample_weights_[static_cast<std::size_t>(thread)]).run();
  });
}

void CpuOps::argmax(const ArgmaxArgs& args) {
  check(args);
  cpu::for_rows(pool_, args.logits.dim(0), args.num_ids, [&](std::int64_t r, int) {
    const std::span<const float> row(args.logits.row<float>(r),
                                     static_cast<std::size_t>(args.num_ids));
    args.tokens.ptr<std::int32_t>()[r] = glint::argmax(row);
  });
}

void CpuOps::token_log_probs(const TokenLogProbsArgs& args) {
  check(args);
  const auto V = static_cast<std::size_t>(args.logits.dim(1));
  const std::int64_t K = args.top_ids.dim(1);
  cpu::for_rows(pool_, args.rows.dim(0), args.logits.dim(1), [&](std::int64_t n, int) {
    const std::int32_t r = args.rows.ptr<std::int32_t>()[n];
    const std::span<const float> row(args.logits.row<float>(r), V);
    const Extent extent = extent_of(row);
    const double sum = extent.numbers ? log_sum(row, extent.max) : NAN;
    const auto log_prob = [&](float logit) {
      return static_cast<float>(static_cast<double>(logit - extent.max) - sum);
    };
    const std::int32_t own_id = args.ids.ptr<std::int32_t>()[r];
    const float own = own_id < 0 ? NAN : row[static_cast<std::size_t>(own_id)];
    std::int32_t above = 0;
    for (const float logit : row) above += logit > own ? 1 : 0;
    args.log_probs.ptr<float>()[n] = extent.numbers ? log_prob(own) : NAN;
    args.ranks.ptr<std::int32_t>()[n] = extent.numbers ? above + 1 : 1;
    std::vector<std::int32_t> ids;
    if (K > 0 && extent.numbers) {
      const std::span<const float> known = row.first(static_cast<std::size_t>(args.num_ids));
      const Prefix prefix = prefix_of(known, static_cast<std::uint64_t>(K),
                                      [](std::size_t) { return std::uint64_t{1}; });
      for (std::size_t i = 0; i < known.size(); ++i) {
        if (prefix.has(known[i], i)) ids.push_back(static_cast<std::int32_t>(i));
      }
      std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
        return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
      });
    }
    ids.resize(static_cast<std::size_t>(K), -1);
    for (std::int64_t k = 0; k < K; ++k) {
      const std::int32_t id = ids[static_cast<std::size_t>(k)];
      args.top_ids.row<std::int32_t>(n)[k] = id;
      args.top_log_probs.row<float>(n)[k] =
          id < 0 ? 0 : log_prob(row[static_cast<std::size_t>(id)]);
    }
  });
}

}  // namespace glint
