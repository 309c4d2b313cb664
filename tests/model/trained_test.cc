// The bundled model as it is, in FP8 and in NVFP4 (all linear layers), against transformers in fp32
// on the dequantised weights: tests/golden/trained holds what tools/make_trained_goldens.py wrote.
// Trained weights and real text are what shows how near BF16 arithmetic is to fp32; random weights
// cannot.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "base/str.h"
#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "model/backends_under_test.h"
#include "model/npy_data.h"
#include "quant/convert.h"
#include "quant/xxh128.h"
#include "runtime/score.h"

namespace glint {
namespace {

const std::string kModel = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");
const std::string kGolden = str(GLINT_SOURCE_DIR, "/tests/golden/trained/");
constexpr std::int64_t kTop = 8;  // largest logits kept of every row

// The stored part of transformers' logits [T, V].
struct Golden {
  explicit Golden(const std::string& format)
      : rows(read_npy<std::int32_t>(kGolden + "rows.npy", "<i4")),
        full(read_npy<float>(kGolden + format + ".rows.npy", "<f4")),
        top(read_npy<float>(kGolden + format + ".top.npy", "<f4")),
        top_ids(read_npy<std::int16_t>(kGolden + format + ".top_ids.npy", "<i2")),
        lse(read_npy<float>(kGolden + format + ".lse.npy", "<f4")),
        skip(read_npy<std::uint8_t>(kGolden + format + ".skip.npy", "|u1")) {}

  std::vector<std::int32_t> rows;     // of which all logits are kept:
  std::vector<float> full;            // [R, V]
  std::vector<float> top;             // [T, kTop], descending
  std::vector<std::int16_t> top_ids;  // [T, kTop]
  std::vector<float> lse;             // [T] log(sum(exp(logits)))
  std::vector<std::uint8_t> skip;     // [T] 1: a near-tie in fp32
};

Json sequences() { return read_json_file(kGolden + "sequences.json").value(); }

// The bundled model in `format`, its bytes being those that transformers was given.
std::string model_in(const std::string& format, const TestDir& dir) {
  if (format == "bf16") return kModel;
  const Recipe fp8 = {
      .format = TargetFormat::kFp8, .scope = Scope::kAllLinear, .mtp = MtpChoice::kConvert};
  const Recipe nvfp4 = {.scope = Scope::kAllLinear};
  const std::string out = dir / format;
  auto conversion =
      Conversion::prepare({.source = kModel, .out = out, .recipe = format == "fp8" ? fp8 : nvfp4});
  EXPECT_TRUE(conversion.ok()) << conversion.error().message;
  ThreadPool pool(2);
  EXPECT_TRUE(conversion.value().run(pool, [](std::int64_t) {}).ok());
  EXPECT_EQ(hash_file(out + "/model.safetensors").value(),
            sequences().find("xxh128")->find(format)->as_string())
      << "the quantiser writes other bytes: make the goldens again";
  return out;
}

struct Logits {
  std::int64_t vocab = 0;
  std::vector<float> values = {};  // [T, vocab]

  std::span<const float> row(std::size_t t) const {
    return std::span(values).subspan(t * static_cast<std::size_t>(vocab),
                                     static_cast<std::size_t>(vocab));
  }
};

Logits logits_of(const std::string& dir, DType activations, LatentFormat latent,
                 IndexFormat index) {
  const ModelOptions options = {.dir = dir, .numbers = {activations, latent, index}};
  auto model = LoadedModel::load(options, best_backend().make(2));
  EXPECT_TRUE(model.ok()) << model.error().message;
  Logits logits = {.vocab = model.value()->config().vocab_size};
  const auto ids = read_npy<std::int32_t>(kGolden + "ids.npy", "<i4");
  std::size_t begin = 0;
  const Json lengths = *sequences().find("lengths");
  for (const Json& length : lengths.as_array()) {
    const auto count = static_cast<std::size_t>(length.as_int());
    ScoreSinks sinks;
    sinks.logits = [&](std::int64_t, std::span<const float> rows) {
      logits.values.insert(logits.values.end(), rows.begin(), rows.end());
    };
    EXPECT_TRUE(score(*model.value(), std::span(ids).subspan(begin, count), {}, sinks).ok());
    begin += count;
  }
  EXPECT_EQ(begin, ids.size());
  return logits;
}

double log_sum_exp(std::span<const float> row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float value : row) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

double relative_l2(std::span<const float> x, std::span<const float> reference) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(double{x[i]} - reference[i], 2);
    norm += std::pow(double{reference[i]}, 2);
  }
  return std::sqrt(error / norm);
}

// The values of row `t` at the ids that are the reference's largest.
std::vector<float> at_top(const Logits& x, const Golden& golden, std::size_t t) {
  std::vector<float> values;
  for (std::size_t k = 0; k < kTop; ++k) values.push_back(x.row(t)[golden.top_ids[t * kTop + k]]);
  return values;
}

// KL(reference || x) of row `t`, everything outside the kept ids being one outcome: no more than
// the whole distribution's, and equal to it where nothing is outside.
double divergence(const Logits& x, const Golden& golden, std::size_t t) {
  const double lse = log_sum_exp(x.row(t));
  const std::vector<float> values = at_top(x, golden, t);
  double sum = 0, p_rest = 1, q_rest = 1;
  for (std::size_t k = 0; k < kTop; ++k) {
    const double log_p = double{golden.top[t * kTop + k]} - golden.lse[t], log_q = values[k] - lse;
    sum += std::exp(log_p) * (log_p - log_q);
    p_rest -= std::exp(log_p);
    q_rest -= std::exp(log_q);
  }
  // Less than the rounding of the kept sums is nothing.
  if (p_rest > 1e-6 && q_rest > 1e-6) sum += p_rest * std::log(p_rest / q_rest);
  return sum;
}

// KL(reference || x) over all ids.
double full_divergence(std::span<const float> x, std::span<const float> reference) {
  const double lse_x = log_sum_exp(x), lse = log_sum_exp(reference);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double log_p = reference[i] - lse;
    sum += std::exp(log_p) * (log_p - (x[i] - lse_x));
  }
  return sum;
}

void expect_equal_in_fp32(const Logits& x, const Golden& golden) {
  constexpr double kTolerance = 1e-4;
  for (std::size_t t = 0; t < golden.lse.size(); ++t) {
    if (golden.skip[t]) continue;
    const auto top = std::span(golden.top).subspan(t * kTop, kTop);
    EXPECT_LE(relative_l2(at_top(x, golden, t), top), kTolerance) << "row " << t;
    EXPECT_NEAR(log_sum_exp(x.row(t)), golden.lse[t], kTolerance * std::fabs(golden.lse[t])) << t;
  }
  const auto vocab = static_cast<std::size_t>(x.vocab);
  for (std::size_t r = 0; r < golden.rows.size(); ++r) {
    const auto t = static_cast<std::size_t>(golden.rows[r]);
    if (golden.skip[t]) continue;
    EXPECT_LE(relative_l2(x.row(t), std::span(golden.full).subspan(r * vocab, vocab)), kTolerance);
  }
}

// Every row counts, near-ties too. Measured in all formats: KL <= 4e-7 (over all ids as well) and
// top-1 >= 99.36 %; with an FP8 cache KL <= 2e-6 and top-1 >= 99.63 %.
void expect_near(const Logits& x, const Golden& golden) {
  double kl = 0, full_kl = 0;
  std::int64_t top1 = 0;
  const std::size_t T = golden.lse.size(), R = golden.rows.size();
  for (std::size_t t = 0; t < T; ++t) {
    kl += divergence(x, golden, t);
    const auto row = x.row(t);
    top1 += std::max_element(row.begin(), row.end()) - row.begin() == golden.top_ids[t * kTop];
  }
  const auto vocab = static_cast<std::size_t>(x.vocab);
  for (std::size_t r = 0; r < R; ++r) {
    full_kl += full_divergence(x.row(static_cast<std::size_t>(golden.rows[r])),
                               std::span(golden.full).subspan(r * vocab, vocab));
  }
  const double agreement = static_cast<double>(top1) / static_cast<double>(T);
  EXPECT_LT(kl / static_cast<double>(T), 1e-5);
  EXPECT_LT(full_kl / static_cast<double>(R), 3e-5);
  EXPECT_GE(agreement, 0.99);
}

class Trained : public testing::TestWithParam<const char*> {
 protected:
  const TestDir dir_;
  const std::string model_ = model_in(GetParam(), dir_);
  const Golden golden_{GetParam()};
};

TEST_P(Trained, fp32_equals_transformers_on_the_dequantised_weights) {
  expect_equal_in_fp32(logits_of(model_, DType::kF32, LatentFormat::kF32, IndexFormat::kF32),
                       golden_);
}

TEST_P(Trained, bf16_is_near_transformers_in_fp32) {
  expect_near(logits_of(model_, DType::kBF16, LatentFormat::kBF16, IndexFormat::kFp8), golden_);
}

TEST_P(Trained, bf16_with_an_fp8_cache_is_near_transformers_in_fp32) {
  expect_near(logits_of(model_, DType::kBF16, LatentFormat::kFp8, IndexFormat::kFp8), golden_);
}

INSTANTIATE_TEST_SUITE_P(Formats, Trained, testing::Values("bf16", "fp8", "nvfp4"));

}  // namespace
}  // namespace glint
