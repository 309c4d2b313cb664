// Layouts over ranks as threads against one rank: the same bits, of one rank that cuts its sums in
// the same slices where products are divided.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <mutex>

#include "base/json.h"
#include "base/random.h"
#include "base/str.h"
#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "model/backends_under_test.h"
#include "model/synthetic.h"
#include "ops/forwarding_ops.h"
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

// Rows whose keys were searched.
struct CountScans final : ForwardingOps {
  CountScans(std::unique_ptr<Ops> inner, std::atomic<std::int64_t>& rows)
      : ForwardingOps(std::move(inner)), rows_(rows) {}
  void select_keys(const SelectKeysArgs& args) override {
    rows_ += args.q ? args.out.dim(0) : 0;
    inner_->select_keys(args);
  }

  std::atomic<std::int64_t>& rows_;
};

std::unique_ptr<Ranks> load_ranks(const Model& model, const MeshShape& shape,
                                  std::vector<std::atomic<std::int64_t>>* scans = nullptr) {
  auto ranks = std::make_unique<Ranks>(shape);
  for (int rank = 0; rank < ranks->size(); ++rank) {
    DecoratedBackend backend = host_backend().make(1);
    if (scans) backend.decorate<CountScans>((*scans)[static_cast<std::size_t>(rank)]);
    auto loaded = LoadedModel::load({.dir = model.dir,
                                     .numbers = formats_in(model.dtype),
                                     .with_mtp = true,
                                     .shape = shape,
                                     .rank = rank,
                                     .mesh = ranks->mesh(rank)},
                                    std::move(backend));
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
  // Each rank reserved once, for the longest.
  std::int64_t longest = 0;
  for (const auto& ids : sequences) longest = std::max(longest, std::ssize(ids));
  for (int r = 0; r < ranks.size(); ++r) EXPECT_EQ(ranks.model(r).num_pages(), pages_of(longest));
  said.scores = scores.value();
  return said;
}

// Lengths that leave replicas without tokens at the end, and one without a sequence.
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

// `slices` of the one rank; 1: its sums are whole. `prepare` is called with each layout's ranks.
void expect_equal_bits(const Model& model, const std::vector<MeshShape>& shapes,
                       const std::vector<int>& lengths, int chunk, int slices = 1,
                       const std::function<void(Ranks&)>& prepare = {}) {
  const bool whole_experts = !shapes.empty() && shapes[0].ep > 1;
  const auto one = load_ranks(model, {.reduce_slices = slices, .whole_experts = whole_experts});
  const ModelConfig config = one->model(0).config();
  const Sequences sequences = make_sequences(config.vocab_size, lengths);
  const Said expected = score_all(*one, sequences, chunk);
  for (const MeshShape& shape : shapes) {
    SCOPED_TRACE(model.dir + ", " + describe(shape));
    const auto ranks = load_ranks(model, shape);
    if (prepare) prepare(*ranks);
    const Said got = score_all(*ranks, sequences, chunk);
    EXPECT_EQ(got.logits, expected.logits);
    EXPECT_EQ(got.mtp, expected.mtp);
    EXPECT_EQ(got.hidden, expected.hidden);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      EXPECT_EQ(got.scores[i].model.nll, expected.scores[i].model.nll);
      EXPECT_EQ(got.scores[i].mtp.nll, expected.scores[i].mtp.nll);
    }
    // No rank holds the whole, unless of few experts it has copies.
    const std::int64_t whole = one->model(0).load_stats().held_bytes;
    for (int rank = 0; rank < ranks->size(); ++rank) {
      const std::int64_t held = ranks->model(rank).load_stats().held_bytes;
      if (shape.tp > 1 || (shape.ep > 1 && shape.redundant_experts == 0) || shape.pp > 1) {
        EXPECT_LT(held, whole);
      }
      EXPECT_EQ(ranks->uses(rank, "tp").empty(), shape.tp == 1);
      EXPECT_EQ(ranks->uses(rank, "cp").empty(), shape.cp == 1);
      EXPECT_EQ(ranks->uses(rank, "ep").empty(), shape.ep == 1);
      EXPECT_EQ(ranks->uses(rank, "pp").empty(), shape.pp == 1);
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
      const ModelConfig config = read_config(dir + "/config.json").value();
      std::vector<MeshShape> shapes = {{.ep = 2, .dp = 2}};
      if (config.n_routed_experts >= 4) shapes.push_back({.ep = 4, .dp = 4});
      if (config.num_hidden_layers > 1) shapes.push_back({.pp = 2});
      expect_equal_bits({dir, dtype}, shapes, {40, 9, 17}, 16);
    }
  }
}

TEST(Layouts, say_what_one_rank_says_on_the_bundled_model) {
  const std::string dir = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");
  const std::vector<MeshShape> shapes = {
      {.dp = 2}, {.ep = 4, .dp = 4}, {.pp = 4}, {.ep = 3, .dp = 3}, {.ep = 2, .pp = 2, .dp = 2}};
  // Beyond index_topk, so that keys are selected; of four replicas one has no sequence.
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_equal_bits({dir, dtype}, shapes, {330, 70, 1}, 128);
  }
}

TEST(Layouts, members_of_a_replica_share_whole_experts) {
  const std::string dir = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");
  const std::vector<MeshShape> shapes = {{.tp = 4, .ep = 4},
                                         {.ep = 2, .dp = 2, .reduce_slices = 4},
                                         {.tp = 2, .ep = 4, .dp = 2, .reduce_slices = 4},
                                         {.tp = 2, .ep = 2, .pp = 2, .reduce_slices = 4}};
  // Chunks of 1 and 2 rows leave ranks without any of their own.
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_equal_bits({dir, dtype}, shapes, {386, 70, 1}, 128, 4);
  }
  for (const std::string& golden : goldens()) {
    if (!plan_partition(read_config(golden + "/config.json").value(), {.tp = 2, .ep = 2}, 0).ok())
      continue;
    expect_equal_bits({golden}, {{.tp = 2, .ep = 2}}, {40, 9, 17}, 16, 2);
  }
}

// Other experts into the slots of every layer: any that leave none out.
void shuffle_experts(Ranks& ranks) {
  const ModelConfig& config = ranks.model(0).config();
  const int slots = ranks.model(0).partition().num_expert_slots;
  Random random(5, 0);
  for (int layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (config.layers[layer].is_dense()) continue;
    ExpertSlots to = first_slots(config.n_routed_experts, slots);
    for (std::size_t p = to.size() - 1; p > 0; --p)
      std::swap(to[p], to[random.below(static_cast<std::uint32_t>(p + 1))]);
    ranks.run([&](int rank) { ranks.model(rank).move_experts(layer, to); });
  }
}

TEST(Layouts, say_the_same_wherever_the_experts_have_moved) {
  for (const std::string& dir : goldens()) {
    const MeshShape two = {.ep = 2, .dp = 2, .moves_experts = true, .redundant_experts = 3};
    expect_equal_bits({dir}, {two}, {40, 9, 17}, 16);
    expect_equal_bits({dir, DType::kBF16}, {two}, {40, 9, 17}, 16, 1, shuffle_experts);
  }
  const std::vector<MeshShape> shapes = {
      {.ep = 3, .dp = 3, .moves_experts = true, .redundant_experts = 11},
      {.ep = 2, .pp = 2, .dp = 2, .moves_experts = true}};
  const std::string dir = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");
  expect_equal_bits({dir}, shapes, {130, 70, 1}, 64, 1, shuffle_experts);
  expect_equal_bits({dir}, {{.tp = 2, .ep = 2, .moves_experts = true, .redundant_experts = 2}},
                    {130, 70, 1}, 64, 2, shuffle_experts);
}

// The relative L2 error of `got`.
double error_of(const std::vector<std::vector<float>>& got,
                const std::vector<std::vector<float>>& expected) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(got[i].size(), expected[i].size());
    for (std::size_t j = 0; j < expected[i].size(); ++j) {
      error += std::pow(double{got[i][j]} - expected[i][j], 2);
      norm += std::pow(double{expected[i][j]}, 2);
    }
  }
  return std::sqrt(error / norm);
}

// Without slices: of whole sums only the order of additions differs.
void expect_near(const std::string& dir, int tp, const std::vector<int>& lengths, int chunk) {
  SCOPED_TRACE(str(dir, ", tp ", tp));
  const auto one = load_ranks({dir, DType::kF32}, {}), ranks = load_ranks({dir}, {.tp = tp});
  const Sequences sequences = make_sequences(one->model(0).config().vocab_size, lengths);
  const Said expected = score_all(*one, sequences, chunk),
             got = score_all(*ranks, sequences, chunk);
  EXPECT_LT(error_of(got.logits, expected.logits), 1e-5);
  EXPECT_LT(error_of(got.mtp, expected.mtp), 1e-5);
  EXPECT_LT(error_of(got.hidden, expected.hidden), 1e-5);
}

// The numbers of 2 and 4 that divide the model.
std::vector<int> divisors_of(const std::string& dir) {
  const ModelConfig config = read_config(dir + "/config.json").value();
  std::vector<int> divisors;
  for (const int tp : {2, 4}) {
    if (plan_partition(config, {.tp = tp}, 0).ok()) divisors.push_back(tp);
  }
  return divisors;
}

TEST(TensorParallelism, has_the_bits_of_one_rank_with_as_many_slices_on_every_golden) {
  for (const std::string& dir : goldens()) {
    // Two and four ranks cut each matrix of this one inside of blocks.
    if (dir.ends_with("fp8_block")) {
      EXPECT_EQ(divisors_of(dir), (std::vector<int>{2, 4}));
    }
    for (const int tp : divisors_of(dir)) expect_near(dir, tp, {40, 9}, 16);
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      std::vector<MeshShape> shapes;
      for (const int tp : divisors_of(dir)) shapes.push_back({.tp = tp, .reduce_slices = 4});
      expect_equal_bits({dir, dtype}, shapes, {40, 9, 17}, 16, 4);
    }
  }
}

TEST(TensorParallelism, has_the_bits_of_one_rank_with_as_many_slices_on_the_bundled_model) {
  const std::string dir = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");
  for (const int tp : {2, 4}) expect_near(dir, tp, {330, 70}, 128);
  const std::vector<MeshShape> shapes = {{.tp = 2, .reduce_slices = 4},
                                         {.tp = 4},
                                         {.tp = 2, .pp = 2, .dp = 2, .reduce_slices = 4},
                                         {.pp = 2, .reduce_slices = 4}};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_equal_bits({dir, dtype}, shapes, {330, 70, 1}, 128, 4);
  }
}

// The last of three chunks sees more keys than are selected: each rank searches for a half of it.
TEST(TensorParallelism, divides_the_search_for_keys) {
  const std::string dir = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");
  std::vector<std::atomic<std::int64_t>> alone(1), two(2);
  const auto one = load_ranks({dir}, {.reduce_slices = 2}, &alone);
  const auto ranks = load_ranks({dir}, {.tp = 2}, &two);
  const Sequences sequences = make_sequences(one->model(0).config().vocab_size, {330});
  const Said expected = score_all(*one, sequences, 127), got = score_all(*ranks, sequences, 127);
  EXPECT_EQ(got.logits, expected.logits);
  EXPECT_EQ(got.mtp, expected.mtp);
  EXPECT_GT(alone[0], 330);
  for (const auto& rows : two) {
    EXPECT_LT(rows, alone[0] * 6 / 10);
    EXPECT_GE(rows, alone[0] / 2);
  }
}

// Four ranks cut the dense MLP at columns 96, 192, .. and the experts at 34, 68, ..: inside blocks.
TEST(TensorParallelism, may_cut_inside_of_a_block) {
  Json json =
      read_json_file(str(GLINT_SOURCE_DIR, "/tests/golden/deepseek_v32/config.json")).value();
  json.set("intermediate_size", 384);
  json.set("moe_intermediate_size", 136);
  const TestDir temp;
  const std::string dir = temp / "fp8";
  ThreadPool pool(2);
  const SyntheticModel model =
      SyntheticModel::plan(parse_config(json).value(), Release::kFp8, 1).value();
  ASSERT_TRUE(
      write_synthetic_checkpoint(model, json, dir, pool, [](std::int64_t) { return true; }).ok());
  for (const int tp : {2, 4}) expect_near(dir, tp, {40, 9}, 16);
  const std::vector<MeshShape> shapes = {{.tp = 2, .reduce_slices = 4}, {.tp = 4}};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_equal_bits({dir, dtype}, shapes, {40, 9, 17}, 16, 4);
  }
}

TEST(ContextParallelism, says_what_one_rank_says_on_every_golden) {
  for (const std::string& dir : goldens()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      expect_equal_bits({dir, dtype}, {{.cp = 2, .dp = 2}, {.cp = 3, .ep = 3, .dp = 3}}, {70, 9},
                        16);
      if (dtype == DType::kBF16) expect_equal_bits({dir, dtype}, {{.cp = 2, .dp = 4}}, {70, 9}, 16);
    }
  }
}

TEST(ContextParallelism, says_what_one_rank_says_on_the_bundled_model) {
  const std::string dir = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");
  const std::vector<MeshShape> shapes = {{.cp = 4, .dp = 4},
                                         {.cp = 2, .ep = 2, .dp = 2},
                                         {.cp = 2, .ep = 4, .dp = 4},
                                         {.cp = 2, .pp = 2, .dp = 2}};
  // Beyond index_topk, so that each rank selects among all ranks' keys; a chunk of 2 rows and one
  // of 1 leave ranks without any.
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    expect_equal_bits({dir, dtype}, shapes, {386, 70, 1}, 128);
  }
  expect_equal_bits({dir}, {{.tp = 2, .cp = 2, .dp = 2, .reduce_slices = 4}}, {330}, 128, 4);
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
