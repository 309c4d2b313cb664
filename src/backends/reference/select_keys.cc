// The reference of select_keys (ops/select_keys.h).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/reference/numeric.h"
#include "backends/reference/reference_ops.h"
#include "ops/kv_rows.h"
#include "tensor/fp8.h"

namespace glint {

using namespace reference;

namespace {

// Query row t, ready to score keys: for an fp8 cache the query is quantised too, and its scales
// are in the weights.
struct IndexQuery {
  std::vector<float> q;         // [Hi, D]
  std::vector<double> weights;  // [Hi]
};

IndexQuery index_query(const SelectKeysArgs& args, std::int64_t t) {
  const std::int64_t Hi = args.q.dim(1), D = args.q.dim(2);
  IndexQuery query = {floats_of(args.q.slice(0, t, 1)), std::vector<double>(Hi)};
  for (std::int64_t h = 0; h < Hi; ++h) {
    query.weights[h] = args.weights.row<float>(t)[h] / std::sqrt(static_cast<double>(Hi * D));
    if (args.cache.format != IndexFormat::kFp8) continue;
    float* q = &query.q[h * D];
    float amax = 0;
    for (std::int64_t d = 0; d < D; ++d) amax = std::max(amax, std::fabs(q[d]));
    const float scale = index_scale(amax);
    for (std::int64_t d = 0; d < D; ++d) q[d] = e4m3_to_float(float_to_e4m3(q[d] / scale));
    query.weights[h] *= scale;
  }
  return query;
}

// I of the key in `slot`. NaN counts as the worst, so that the order stays an order.
float score(const IndexQuery& query, const IndexCache& cache, std::int64_t slot) {
  const std::int64_t D = cache.dim;
  std::vector<float> key(D);
  const float scale = read_index_key(cache, slot, key.data());
  double sum = 0;
  for (std::size_t h = 0; h < query.weights.size(); ++h) {
    sum += query.weights[h] * std::max(0.0, dot(&query.q[h * D], key.data(), D));
  }
  sum *= scale;
  return std::isnan(sum) ? -INFINITY : static_cast<float>(sum);
}

// The slot of key i of token t's sequence.
std::int64_t slot_of(const SelectKeysArgs& args, std::int64_t t, std::int64_t i) {
  const Tensor& table = args.batch.page_table;
  const std::int64_t seq = index_at(args.batch.seqs, t, table.dim(0), "sequence");
  GLINT_CHECK(i / kPageSize < table.dim(1), "the position lies beyond the page table");
  const std::int64_t page =
      index_at(table, seq * table.dim(1) + i / kPageSize, args.cache.num_slots / kPageSize, "page");
  return page * kPageSize + i % kPageSize;
}

// The `k` keys with the best scores, ascending; ties to the smaller key. -0.0 equals 0.0 here.
std::vector<std::int32_t> best(const std::vector<float>& scores, std::int64_t k) {
  std::vector<std::int32_t> keys(scores.size());
  std::iota(keys.begin(), keys.end(), 0);
  std::nth_element(keys.begin(), keys.begin() + k, keys.end(), [&](int a, int b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  keys.resize(k);
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

void ReferenceOps::select_keys(const SelectKeysArgs& args) {
  check(args);
  const std::int64_t k = args.out.dim(1);
  for (std::int64_t t = 0; t < args.out.dim(0); ++t) {
    std::int32_t* out = args.out.row<std::int32_t>(t);
    const std::int64_t visible = std::int64_t{args.batch.positions.ptr<std::int32_t>()[t]} + 1;
    GLINT_CHECK(visible >= 0, "a token has a position below -1");
    std::vector<std::int32_t> keys(visible);
    std::iota(keys.begin(), keys.end(), 0);
    if (visible > k) {
      GLINT_CHECK(args.q, "keys are to be scored without a query");
      const IndexQuery query = index_query(args, t);
      std::vector<float> scores(visible);
      for (std::int64_t i = 0; i < visible; ++i) {
        scores[i] = score(query, args.cache, slot_of(args, t, i));
      }
      keys = best(scores, k);
    }
    std::fill(out, out + k, -1);
    for (std::size_t j = 0; j < keys.size(); ++j) {
      out[j] = static_cast<std::int32_t>(slot_of(args, t, keys[j]));
    }
  }
}

}  // namespace glint
