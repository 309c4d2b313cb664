// Evaluation of small checkpoints against formulas written out, on the reference backend.
#include "eval/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/reference/reference_ops.h"
#include "base/random.h"
#include "base/str.h"
#include "runtime/score.h"

namespace glint {
namespace {

Ranks load(const std::string& golden, DType dtype) {
  Ranks ranks(MeshShape{});
  ranks.add(LoadedModel::load({.dir = str(GLINT_SOURCE_DIR, "/tests/golden/", golden),
                               .numbers = {dtype, LatentFormat::kF32, IndexFormat::kF32}},
                              std::make_unique<ReferenceOps>())
                .value());
  return ranks;
}

TokenSequences random_text(std::initializer_list<int> lengths) {
  Random random(5);
  TokenSequences text;
  for (const int length : lengths) {
    std::vector<TokenId>& ids = text.emplace_back();
    for (int i = 0; i < length; ++i) ids.push_back(static_cast<TokenId>(random.below(90)));
  }
  return text;
}

Evaluation evaluate(Ranks& reference, Ranks& model, const TokenSequences& text,
                    EvalOptions options = {}) {
  options.tmp_dir = testing::TempDir();
  Recording recording = record_reference(reference, text, options).value();
  return compare_with(recording, model, text, options).value();
}

// ln softmax of each row, in long double.
std::vector<std::vector<long double>> log_probabilities(LoadedModel& model,
                                                        const std::vector<TokenId>& ids) {
  const std::int64_t vocab = model.config().vocab_size;
  std::vector<std::vector<long double>> out;
  ScoreSinks sinks;
  sinks.logits = [&](std::int64_t, std::span<const float> rows) {
    for (std::size_t at = 0; at < rows.size(); at += vocab) {
      long double sum = 0;
      for (std::int64_t i = 0; i < vocab; ++i)
        sum += std::exp(static_cast<long double>(rows[at + i]));
      std::vector<long double>& row = out.emplace_back();
      for (std::int64_t i = 0; i < vocab; ++i) row.push_back(rows[at + i] - std::log(sum));
    }
  };
  EXPECT_TRUE(score(model, ids, {}, sinks).ok());
  return out;
}

TEST(Evaluate, equals_the_formulas_over_whole_logits) {
  auto reference = load("odd", DType::kF32), model = load("odd", DType::kBF16);
  const TokenSequences text = random_text({60, 1, 33});
  const Evaluation result = evaluate(reference, model, text, {.chunk = 16});
  long double ref_nll = 0, nll = 0, kl = 0;
  std::vector<double> kls;
  int same = 0, hits = 0, rows = 0;
  for (const std::vector<TokenId>& ids : text) {
    const auto p = log_probabilities(reference.model(0), ids),
               q = log_probabilities(model.model(0), ids);
    for (std::size_t t = 0; t + 1 < ids.size(); ++t, ++rows) {
      ref_nll -= p[t][ids[t + 1]];
      nll -= q[t][ids[t + 1]];
      long double row = 0;
      for (std::size_t i = 0; i < p[t].size(); ++i) row += std::exp(p[t][i]) * (p[t][i] - q[t][i]);
      kl += row;
      kls.push_back(static_cast<double>(row));
      const auto top = [](const auto& v) {
        return std::max_element(v.begin(), v.end()) - v.begin();
      };
      same += top(p[t]) == top(q[t]);
      hits += top(q[t]) == ids[t + 1];
    }
  }
  std::sort(kls.begin(), kls.end());
  ASSERT_EQ(rows, 91);
  EXPECT_EQ(result.rows, 91);
  EXPECT_EQ(result.sequences, 3);
  EXPECT_NEAR(result.ref_perplexity, static_cast<double>(std::exp(ref_nll / rows)), 1e-6);
  EXPECT_NEAR(result.perplexity, static_cast<double>(std::exp(nll / rows)), 1e-6);
  EXPECT_NEAR(result.nll_difference, static_cast<double>((nll - ref_nll) / rows), 1e-9);
  EXPECT_NEAR(result.mean_kl, static_cast<double>(kl / rows), 1e-9);
  EXPECT_GT(result.mean_kl, 1e-8);
  EXPECT_NEAR(result.median_kl, kls[45], 1e-8);
  EXPECT_NEAR(result.p99_kl, kls[90], 1e-6 * kls[90] + 1e-8);
  EXPECT_NEAR(result.max_kl, kls[90], 1e-6 * kls[90] + 1e-8);
  EXPECT_DOUBLE_EQ(result.same_top1, same / 91.0);
  EXPECT_DOUBLE_EQ(result.top1, hits / 91.0);
  ASSERT_EQ(result.position.size(), 91u);
  EXPECT_EQ(result.position[58], 58);
  EXPECT_EQ(result.position[59], 0);
}

TEST(Evaluate, a_model_is_exactly_itself) {
  auto model = load("nvfp4_modelopt", DType::kBF16);
  const Evaluation result = evaluate(model, model, random_text({40, 20}));
  EXPECT_EQ(result.max_kl, 0);
  EXPECT_EQ(result.nll_difference, 0);
  EXPECT_EQ(result.same_top1, 1);
  EXPECT_EQ(result.layer_error, std::vector<double>(3, 0.0));
  EXPECT_EQ(result.layer_rows, 60);
}

TEST(Evaluate, chunks_change_nothing) {
  auto reference = load("odd", DType::kF32), model = load("odd", DType::kBF16);
  const TokenSequences text = random_text({90, 40});
  const Evaluation whole = evaluate(reference, model, text, {.chunk = 256, .layer_rows = 13});
  const Evaluation pieces = evaluate(reference, model, text, {.chunk = 7, .layer_rows = 13});
  EXPECT_EQ(whole.kl, pieces.kl);
  EXPECT_EQ(whole.perplexity, pieces.perplexity);
  EXPECT_EQ(whole.layer_rows, 13);
  ASSERT_EQ(whole.layer_error.size(), pieces.layer_error.size());
  for (std::size_t i = 0; i < whole.layer_error.size(); ++i)
    EXPECT_NEAR(whole.layer_error[i], pieces.layer_error[i], 1e-12) << i;
}

TEST(Evaluate, layer_errors_are_those_of_the_residual_stream) {
  auto reference = load("odd", DType::kF32), model = load("odd", DType::kBF16);
  const TokenSequences text = random_text({30});
  const Evaluation result = evaluate(reference, model, text);
  const auto streams = [&](LoadedModel& m) {
    std::vector<std::vector<float>> layers(3);
    ScoreSinks sinks;
    sinks.hidden = [&](int layer, std::int64_t, std::span<const float> rows) {
      layers[layer].insert(layers[layer].end(), rows.begin(), rows.end());
    };
    EXPECT_TRUE(score(m, text[0], {}, sinks).ok());
    return layers;
  };
  const auto want = streams(reference.model(0)), got = streams(model.model(0));
  ASSERT_EQ(result.layer_error.size(), 3u);
  for (std::size_t layer = 0; layer < 3; ++layer) {
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < want[layer].size(); ++i) {
      error += std::pow(static_cast<double>(got[layer][i]) - want[layer][i], 2);
      norm += std::pow(want[layer][i], 2);
    }
    EXPECT_NEAR(result.layer_error[layer], std::sqrt(error / norm), 1e-12) << layer;
  }
  EXPECT_EQ(result.layer_error[0], 0);  // the embedding is stored in bf16
  EXPECT_GT(result.layer_error[2], 1e-4);
}

TEST(Evaluate, refuses_what_cannot_be_compared) {
  auto odd = load("odd", DType::kF32), other = load("stacked", DType::kF32);
  const EvalOptions options = {.tmp_dir = testing::TempDir()};
  const auto nothing = record_reference(odd, {{1}, {2}}, options);
  ASSERT_FALSE(nothing.ok());
  EXPECT_NE(nothing.error().message.find("two tokens"), std::string::npos);
  Recording recording = record_reference(odd, {{1, 2, 3}}, options).value();
  const auto compared = compare_with(recording, other, {{1, 2, 3}}, options);
  ASSERT_FALSE(compared.ok());
  EXPECT_NE(compared.error().message.find("vocab_size 101"), std::string::npos)
      << compared.error().message;
  EXPECT_FALSE(record_reference(odd, {{1, 101}}, options).ok());
  // All of it is known before a model is loaded.
  const auto refusal = [&](const LoadedModel& model, const TokenSequences& text) {
    const Status status = check_evaluation(odd.model(0).config(), "a", model.config(), "b", text);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(refusal(odd.model(0), {{1, 2, 3}}), "");
  EXPECT_NE(refusal(other.model(0), {{1, 2, 3}}).find("a has vocab_size 101 and b has"),
            std::string::npos);
  EXPECT_NE(refusal(odd.model(0), {{1}, {2}}).find("two tokens"), std::string::npos);
  EXPECT_NE(refusal(odd.model(0), {{1, 2}, {1, 101}})
                .find("sequence 2 of the text, for a: a sequence holds token 101"),
            std::string::npos);
}

TEST(Evaluate, reserves_once_for_the_longest_text) {
  auto model = load("odd", DType::kF32);
  const TokenSequences text = random_text({70, 130, 5});
  ASSERT_TRUE(record_reference(model, text, {.tmp_dir = testing::TempDir()}).ok());
  EXPECT_EQ(model.model(0).num_pages(), 3);
}

}  // namespace
}  // namespace glint
