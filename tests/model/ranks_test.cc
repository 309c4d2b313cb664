// Layouts over ranks as threads against one rank: the same bits.
#include <gtest/gtest.h>

#include <mutex>

#include "base/random.h"
#include "base/str.h"
#include "model/backends_under_test.h"
#include "runtime/score_ranks.h"

namespace glint {
namespace {

using Sequences = std::vector<std::vector<TokenId>>;

// All that scoring says of each sequence.
struct Said {
  std::vector<std::vector<float>> logits, mtp, hidden;
  std::vector<Score> scores;
};

struct Model {
  std::string dir;
  DType dtype = DType::kF32;
};

std::unique_ptr<Ranks> load_ranks(const Model& model, const MeshShape& shape) {
  auto ranks = std::make_unique<Ranks>(shape);
  const bool f32 = model.dtype == DType::kF32;
  for (int rank = 0; rank < ranks->size(); ++rank) {
    auto loaded = LoadedModel::load({.dir = model.dir,
                                     .activations = model.dtype,
                                     .latent = f32 ? LatentFormat::kF32 : LatentFormat::kBF16,
                                     .index = f32 ? IndexFormat::kF32 : IndexFormat::kFp8,
                                     .with_mtp = true,
                                     .shape = shape,
                                     .rank = rank,
                                     .mesh = ranks->mesh(rank)},
                                    host_backend().make(1));
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    ranks->add(std::move(loaded).value());
  }
  return ranks;
}

Said score_all(Ranks& ranks, const Sequences& sequences, int chunk) {
  const LoadedModel& last = ranks.model(ranks.size() - 1);
  const ModelConfig& config = last.config();
  const std::size_t n = sequences.size();
  Said said = {std::vector<std::vector<float>>(n),
               std::vector<std::vector<float>>(n),
               std::vector<std::vector<float>>(n),
               {}};
  std::mutex mutex;
  const auto put = [&mutex](std::vector<float>& to, std::int64_t at, std::span<const float> rows) {
    const std::lock_guard lock(mutex);
    to.resize(std::max(to.size(), at + rows.size()));
    std::copy(rows.begin(), rows.end(), to.begin() + at);
  };
  const auto sinks = [&](std::size_t i) {
    ScoreSinks sinks;
    const std::int64_t T = std::ssize(sequences[i]), V = config.vocab_size, D = config.hidden_size;
    sinks.logits = [&, i, V](auto first, auto rows) { put(said.logits[i], first * V, rows); };
    sinks.mtp = [&, i, V](auto first, auto rows) { put(said.mtp[i], first * V, rows); };
    sinks.hidden = [&, i, T, D](int layer, auto first, auto rows) {
      put(said.hidden[i], (layer * T + first) * D, rows);
    };
    return sinks;
  };
  auto scores = score(ranks, sequences, {.chunk = chunk, .mtp = last.has_mtp()}, sinks);
  EXPECT_TRUE(scores.ok()) << scores.error().message;
  said.scores = scores.value();
  return said;
}

// Lengths that leave shards without tokens at the end, and one without a sequence.
Sequences make_sequences(std::int64_t vocab, const std::vector<int>& lengths) {
  Sequences sequences;
  Random random(3, 0);
  for (const int length : lengths) {
    std::vector<TokenId> ids;
    for (int i = 0; i < length; ++i) {
      ids.push_back(static_cast<TokenId>(random.uniform() * static_cast<double>(vocab)));
    }
    sequences.push_back(ids);
  }
  return sequences;
}

void expect_equal_bits(const Model& model, const std::vector<MeshShape>& shapes,
                       const std::vector<int>& lengths, int chunk) {
  const auto one = load_ranks(model, {});
  const ModelConfig config = one->model(0).config();
  const Sequences sequences = make_sequences(config.vocab_size, lengths);
  const Said expected = score_all(*one, sequences, chunk);
  for (const MeshShape& shape : shapes) {
    SCOPED_TRACE(model.dir + ", " + describe(shape));
    const auto ranks = load_ranks(model, shape);
    const Said got = score_all(*ranks, sequences, chunk);
    EXPECT_EQ(got.logits, expected.logits);
    EXPECT_EQ(got.mtp, expected.mtp);
    EXPECT_EQ(got.hidden, expected.hidden);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_EQ(got.scores[i].model.nll, expected.scores[i].model.nll);
      EXPECT_EQ(got.scores[i].mtp.nll, expected.scores[i].mtp.nll);
    }
    // No rank holds the whole, and together they hold each expert once.
    const std::int64_t whole = one->model(0).load_stats().held_bytes;
    for (int rank = 0; rank < ranks->size(); ++rank) {
      const std::int64_t held = ranks->model(rank).load_stats().held_bytes;
      if (shape.ep > 1 || shape.pp > 1) {
        EXPECT_LT(held, whole);
      }
      EXPECT_EQ(ranks->ep(rank).uses().empty(), shape.ep == 1);
      EXPECT_EQ(ranks->pp(rank).uses().empty(), shape.pp == 1);
    }
  }
}

std::vector<std::string> goldens() {
  std::vector<std::string> dirs;
  for (const char* name : {"real_heads", "odd", "glm52_sharing", "deepseek_v32", "fp8_block",
                           "nvfp4_modelopt", "nvfp4_ct_mixed", "stacked", "tied_f16"}) {
    dirs.push_back(str(GLINT_SOURCE_DIR, "/tests/golden/", name));
  }
  return dirs;
}

TEST(Layouts, say_what_one_rank_says_on_every_golden) {
  for (const std::string& dir : goldens()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      std::vector<MeshShape> shapes = {{.ep = 2, .dp = 2}};
      if (read_config(dir + "/config.json").value().num_hidden_layers > 1)
        shapes.push_back({.pp = 2});
      expect_equal_bits({dir, dtype}, shapes, {40, 9, 17}, 16);
    }
  }
}

TEST(Layouts, say_what_one_rank_says_on_the_bundled_model) {
  const std::string dir = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");
  const std::vector<MeshShape> shapes = {
      {.dp = 2}, {.ep = 4, .dp = 4}, {.pp = 4}, {.ep = 3, .dp = 3}, {.ep = 2, .pp = 2, .dp = 2}};
  // Beyond index_topk, so that keys are selected; of four shards one has no sequence.
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_equal_bits({dir, dtype}, shapes, {330, 70, 1}, 128);
  }
}

TEST(Layouts, stop_together_when_one_is_asked_to) {
  const auto ranks = load_ranks({str(GLINT_SOURCE_DIR, "/models/glm5-tiny")}, {.ep = 2, .dp = 2});
  std::atomic<int> calls = 0;
  const auto result = score(*ranks, make_sequences(1000, {300, 300, 300}),
                            {.chunk = 64, .done = [&](std::int64_t) { return ++calls != 3; }},
                            [](std::size_t) { return ScoreSinks(); });
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().message, "interrupted");
  EXPECT_EQ(calls, 4);  // two steps of two ranks
}

}  // namespace
}  // namespace glint
