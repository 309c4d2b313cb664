// Cases of select_keys.
#include <algorithm>
#include <cmath>

#include "ops/conformance/cases.h"
#include "ops/kv_rows.h"
#include "tensor/fp8.h"

namespace glint::conformance {
namespace {

// The kind of scores in a case.
enum class Scores {
  kNoise,
  kTies,   // only three different keys
  kZeros,  // all weights are zeros of both signs
  kNan,    // one of token 0's weights is NaN
};

struct SelectShape {
  std::vector<Sequence> sequences;
  int Hi, D, k;
  Scores scores = Scores::kNoise;
};

// I of every visible key of token `t`, by the contract's formula in f64; then padding of zeros.
std::vector<float> scores_of(const IndexCache& cache, const TestBatch& batch, std::int64_t t,
                             std::vector<float> q, const float* weights, int Hi) {
  const int D = cache.dim;
  std::vector<double> w(Hi);
  for (int h = 0; h < Hi; ++h) {
    w[h] = weights[h] / std::sqrt(double{1} * Hi * D);
    if (cache.format != IndexFormat::kFp8) continue;
    float amax = 0;
    for (int d = 0; d < D; ++d) amax = std::max(amax, std::fabs(q[h * D + d]));
    const float scale = index_scale(amax);
    for (int d = 0; d < D; ++d) {
      q[h * D + d] = e4m3_to_float(float_to_e4m3(q[h * D + d] / scale));
    }
    w[h] *= scale;
  }
  std::vector<float> scores(batch.max_pages * kPageSize), key(D);
  for (std::int64_t i = 0; i <= batch.positions[t]; ++i) {
    const std::int64_t page = batch.page_table[batch.seqs[t] * batch.max_pages + i / kPageSize];
    const float scale = read_index_key(cache, page * kPageSize + i % kPageSize, key.data());
    double sum = 0;
    for (int h = 0; h < Hi; ++h) {
      double dot = 0;
      for (int d = 0; d < D; ++d) dot += double{q[h * D + d]} * key[d];
      sum += w[h] * std::max(dot, 0.0);
    }
    scores[i] = static_cast<float>(sum * scale);
  }
  return scores;
}

// The positions that a row of slots stands for; empty if a slot is none of the sequence's visible
// ones, if they do not ascend, or if there are not min(k, visible) of them before the -1.
std::vector<std::int64_t> positions_of(const std::int32_t* slots, std::int64_t k,
                                       const TestBatch& batch, std::int64_t t) {
  const std::int32_t* pages = &batch.page_table[batch.seqs[t] * batch.max_pages];
  const std::int64_t visible = batch.positions[t] + 1, count = std::min(k, visible);
  std::vector<std::int64_t> positions;
  for (std::int64_t j = 0; j < k; ++j) {
    if (j >= count) {
      if (slots[j] != -1) return {};
      continue;
    }
    const std::int32_t* page = std::find(pages, pages + batch.max_pages, slots[j] / kPageSize);
    const std::int64_t i = (page - pages) * kPageSize + slots[j] % kPageSize;
    if (slots[j] < 0 || i >= visible || (j > 0 && i <= positions.back())) return {};
    positions.push_back(i);
  }
  return positions;
}

std::vector<std::int64_t> only_in(const std::vector<std::int64_t>& a,
                                  const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

// Why the keys `got` are not an acceptable answer where the reference chose `want`; empty if they
// are.
std::string judge_row(const std::vector<std::int64_t>& want, const std::vector<std::int64_t>& got,
                      const float* scores, std::int64_t visible) {
  constexpr SelectKeysTolerance kTolerance;
  const std::vector<std::int64_t> missing = only_in(want, got), extra = only_in(got, want);
  if (missing.empty() || std::isnan(scores[0])) return "";
  double threshold = INFINITY, largest = 0;
  for (const std::int64_t i : want) threshold = std::min<double>(threshold, scores[i]);
  for (std::int64_t i = 0; i < visible; ++i) {
    largest = std::max<double>(largest, std::fabs(scores[i]));
  }
  for (const auto* keys : {&missing, &extra}) {
    for (const std::int64_t i : *keys) {
      if (std::fabs(scores[i] - threshold) <= kTolerance.slack * largest) continue;
      return str("key ", i, " scores ", scores[i], " against a threshold of ", threshold);
    }
  }
  for (const std::int64_t i : missing) {
    for (const std::int64_t j : extra) {
      if (scores[i] == scores[j] && i < j) {
        return str("keys ", i, " and ", j, " tie, and the later one was taken");
      }
    }
  }
  const double share = 1 - static_cast<double>(missing.size()) / static_cast<double>(want.size());
  const bool one_only = missing.size() == 1;
  return share >= kTolerance.overlap || one_only ? "" : str("only ", share, " of the keys agree");
}

Verdict judge_keys(const TestBatch& batch, const Outputs& want, const Outputs& got) {
  if (want.size() != got.size()) return {1, "a stray write beside the outputs"};
  const Output &a = want[0], &b = got[0], &scores = want[1];
  double differing = 0;
  for (std::int64_t t = 0; t < a.rows(); ++t) {
    const std::int32_t *expected = &a.ids[t * a.width], *found = &b.ids[t * a.width];
    if (batch.positions[t] < 0) {
      const auto is_none = [](std::int32_t slot) { return slot == -1; };
      if (std::all_of(found, found + a.width, is_none)) continue;
      return {1, str("token ", t, " is padding, and selects a key")};
    }
    const auto keys = positions_of(expected, a.width, batch, t);
    const auto mine = positions_of(found, a.width, batch, t);
    if (mine.empty()) return {1, str("row ", t, " holds no ascending visible keys, then -1")};
    const std::string failure =
        judge_row(keys, mine, &scores.values[t * scores.width], batch.positions[t] + 1);
    if (!failure.empty()) return {1, str("token ", t, ": ", failure)};
    differing += static_cast<double>(only_in(keys, mine).size());
  }
  return {differing / static_cast<double>(a.ids.size())};
}

std::vector<float> keys_of(Workspace& ws, const SelectShape& s, std::int64_t slots) {
  const std::int64_t fresh = s.scores == Scores::kTies ? 3 : slots;
  std::vector<float> keys = ws.noise(fresh * s.D);
  keys.resize(slots * s.D);
  for (std::size_t i = fresh * s.D; i < keys.size(); ++i) keys[i] = keys[i - fresh * s.D];
  return keys;
}

Case select_case(DType dtype, IndexFormat format, SelectShape s, const char* what,
                 bool timing = false) {
  const TestBatch batch = make_batch(s.sequences);
  const std::int64_t T = static_cast<std::int64_t>(batch.positions.size());
  return {.op = "select_keys",
          .name = str(short_name(dtype), ", ", name_of(format), " keys, T ", T, ", ", s.Hi, " x ",
                      s.D, ", k ", s.k, ", ", what),
          .need = {.ops = {Op::kSelectKeys}, .activations = {dtype}, .indexes = {format}},
          .tolerance = 1 - SelectKeysTolerance().overlap,
          .tokens = T,
          .prepare =
              [=](Workspace& ws) {
                const std::vector<float> q = ws.noise(T * s.Hi * s.D, 1, dtype);
                std::vector<float> weights = ws.noise(T * s.Hi);
                if (s.scores == Scores::kZeros) {
                  for (float& weight : weights) weight = std::copysign(0.f, weight);
                }
                if (s.scores == Scores::kNan) weights[0] = NAN;
                SelectKeysArgs args = {
                    .q = ws.tokens(ws.input(dtype, {T, s.Hi, s.D}, q)),
                    .weights = ws.tokens(ws.input(DType::kF32, {T, s.Hi}, weights)),
                    .batch = view_of(ws, batch, 2),
                    .cache = ws.index_cache(format, batch.num_pages, s.D,
                                            keys_of(ws, s, batch.num_pages * kPageSize)),
                    .out = ws.output("selected", DType::kI32, {T, s.k})};
                std::vector<float> scores;
                for (std::int64_t t = 0; t < T && !timing && !ws.is_alone(); ++t) {
                  const auto begin = q.begin() + t * s.Hi * s.D;
                  const std::vector<float> row =
                      scores_of(ws.on_host(args.cache), batch, t, {begin, begin + s.Hi * s.D},
                                &weights[t * s.Hi], s.Hi);
                  scores.insert(scores.end(), row.begin(), row.end());
                }
                ws.note("scores", scores, batch.max_pages * kPageSize);
                SelectKeysArgs on_host = args;
                TestBatch copy = batch;
                on_host.batch.positions = Tensor(copy.positions.data(), DType::kI32, {T});
                on_host.batch.seqs = Tensor(copy.seqs.data(), DType::kI32, {T});
                return Call{[=, &ws] { ws.ops().select_keys(args); },
                            timing ? cost(on_host) : OpCost{}};
              },
          .judge = [batch](const Outputs& want, const Outputs& got,
                           double) { return judge_keys(batch, want, got); }};
}

void add_timed(std::vector<Case>& cases) {
  for (const IndexFormat format : {IndexFormat::kBF16, IndexFormat::kFp8}) {
    for (const int T : {1, 16}) {
      const std::vector<Sequence> long_one = {{.first = 16384 - T, .count = T}};
      cases.push_back(
          select_case(DType::kBF16, format, {long_one, 32, 128, 2048}, "16384 keys", true));
    }
  }
}

}  // namespace

void add_select_keys_cases(std::vector<Case>& cases, bool timing) {
  if (timing) return add_timed(cases);
  const std::vector<Sequence> mixed = {{0, 1}, {70, 3}, {300, 1}, {0, 9}, {129, 5}};
  const std::pair<DType, IndexFormat> kinds[] = {{DType::kF32, IndexFormat::kF32},
                                                 {DType::kF32, IndexFormat::kFp8},
                                                 {DType::kBF16, IndexFormat::kBF16},
                                                 {DType::kBF16, IndexFormat::kFp8}};
  for (const auto& [dtype, format] : kinds) {
    const auto add = [&, dtype = dtype, format = format](SelectShape shape, const char* what) {
      cases.push_back(select_case(dtype, format, std::move(shape), what));
    };
    add({{{0, 1}}, 4, 32, 8}, "position 0");
    add({{{-1, 2}, {70, 3}, {-1, 1}, {71, 1}, {4, 1}, {-1, 1}}, 4, 32, 16}, "padding");
    add({{{0, 7}}, 32, 128, 2048}, "all visible");
    add({{{14, 5}}, 4, 32, 16}, "from below k to above");
    add({mixed, 4, 32, 16}, "many sequences");
    add({mixed, 3, 13, 37}, "many sequences");
    add({mixed, 8, 128, 64}, "many sequences");
    add({{{100, 33}}, 32, 128, 64}, "a chunk of a prompt");
    add({{{200, 70}, {-1, 3}, {20, 75}}, 24, 128, 64}, "prompts");
    add({{{2300, 2}}, 32, 128, 2048}, "a long context");
    add({mixed, 4, 32, 16, Scores::kTies}, "ties");
    add({mixed, 1, 32, 16}, "ties at zero");
    add({mixed, 4, 32, 16, Scores::kZeros}, "zeros of both signs");
    add({{{200, 1}}, 4, 32, 1}, "one key");
    add({{{200, 2}}, 4, 32, 16, Scores::kNan}, "NaN");
  }
}

}  // namespace glint::conformance
