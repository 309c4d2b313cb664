// Ranks that train against one rank: the same loss and gradients, the same steps, and each has its
// share of the optimiser.
#include "train/train_ranks.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/owned_fd.h"
#include "base/random.h"
#include "base/str.h"
#include "base/test_dir.h"
#include "model/backends_under_test.h"
#include "ops/testing/late_ops.h"
#include "runtime/rank_memory.h"
#include "train/gradient_file.h"
#include "train/packed_rows.h"
#include "train/small_checkpoint.h"
#include "train/testing.h"
#include "train/tied_checkpoint.h"
#include "train/trainer.h"

namespace glint {
namespace {

const std::string kOdd = str(GLINT_SOURCE_DIR, "/tests/golden/odd");
const std::string kSmall = str(GLINT_SOURCE_DIR, "/tests/golden/deepseek_v32");

ModelOptions options_of(const std::string& dir, const MeshShape& shape, bool with_mtp = true) {
  return {.dir = dir, .numbers = formats_in(DType::kF32), .with_mtp = with_mtp, .shape = shape};
}

std::vector<std::unique_ptr<Backend>> backends(int ranks) {
  std::vector<std::unique_ptr<Backend>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(best_backend().make(1));
  return all;
}

// Devices whose memory the host may not read, and where everything is done as late as it may be.
std::vector<std::unique_ptr<Backend>> late_backends(int ranks) {
  std::vector<std::unique_ptr<Backend>> all = backends(ranks);
  for (auto& backend : all) backend = std::make_unique<LateOps>(std::move(backend));
  return all;
}

std::unique_ptr<TrainRanks> open_ranks(const std::string& dir, const MeshShape& shape,
                                       bool with_mtp = true) {
  auto ranks =
      TrainRanks::open(options_of(dir, shape, with_mtp), backends(shape.num_ranks())).value();
  EXPECT_TRUE(ranks->make_parameters().ok());
  for (int rank = 0; rank < ranks->size(); ++rank) ranks->pass(rank).probes().checks_remains = true;
  return ranks;
}

std::unique_ptr<Trainer> open_trainer(const std::string& dir, const MeshShape& shape,
                                      bool with_mtp = true) {
  return Trainer::open({.model = options_of(dir, shape, with_mtp)}, backends(shape.num_ranks()))
      .value();
}

TokenSequences some_tokens(std::initializer_list<int> lengths, std::uint64_t seed = 5) {
  TokenSequences all;
  Random random(seed, 1);
  for (const int length : lengths) {
    for (auto& ids = all.emplace_back(); std::ssize(ids) < length;) {
      ids.push_back(static_cast<TokenId>(random.below(60)));
    }
  }
  return all;
}

double relative_difference(std::span<const float> a, std::span<const float> b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{a[i]} * a[i];
  }
  return std::sqrt(difference / size);
}

std::vector<float> gradients_of(TrainRanks& ranks, int rank = 0) {
  const std::span<const float> flat = ranks.parameters(rank).flat();
  return {flat.begin(), flat.end()};
}

TEST(TrainRanks, the_gradient_over_replicas_is_that_of_one_rank) {
  const TokenSequences ids = some_tokens({40, 1, 17, 64, 9, 33, 50});
  for (const std::string& dir : {small_checkpoint(), kOdd}) {
    const auto one = open_ranks(dir, {});
    const LossSums expected = one->run(ids, {.mtp_weight = 0.3f}, 4096).value();
    const std::vector<float> gradients = gradients_of(*one);
    for (const int dp : {3, 8}) {  // the last: more than there are sequences
      SCOPED_TRACE(str(dir, ", dp ", dp));
      const auto ranks = open_ranks(dir, {.dp = dp});
      const LossSums sums = ranks->run(ids, {.mtp_weight = 0.3f}, 4096).value();
      EXPECT_EQ(sums.tokens, expected.tokens);
      EXPECT_NEAR(sums.nll, expected.nll, 1e-5 * expected.nll);
      EXPECT_NEAR(sums.mtp_nll, expected.mtp_nll, 1e-5 * expected.mtp_nll);
      EXPECT_GT(relative_difference(gradients, gradients_of(*ranks)), 0.01);  // a part of it
      ranks->sum_gradients();
      const std::vector<float> all = gradients_of(*ranks);
      EXPECT_LT(relative_difference(gradients, all), 1e-5);
      EXPECT_EQ(gradients_of(*ranks, dp - 1), all);
      const Json use = ranks->describe(dp - 1);
      const Json* const reduced = use.find("collectives")->find("dp")->find("all_reduce");
      EXPECT_EQ(reduced->find("bytes")->as_int(), 4 * ranks->parameters().count());
    }
  }
}

// Every parameter's, in the order of the checkpoint.
std::vector<std::vector<float>> whole_gradients(TrainRanks& ranks) {
  ranks.sum_gradients();
  std::vector<std::vector<float>> all;
  for (const ModelTensor& tensor : ranks.trained()) all.push_back(whole_gradient(ranks, tensor));
  return all;
}

struct Outcome {
  LossSums sums = {};
  std::vector<std::vector<float>> gradients = {};
  double norm = 0;
};

using Lengths = std::initializer_list<int>;
// Some ranks get more batches than others.
constexpr Lengths kLengths = {40, 1, 17, 64, 9, 33, 50};

Outcome pass_over(TrainRanks& ranks, float mtp, Lengths lengths) {
  const LossSums sums = ranks.run(some_tokens(lengths), {.mtp_weight = mtp}, 70).value();
  return {sums, whole_gradients(ranks), norm_of(ranks)};
}

// Kept from call to call for the checkpoint that was asked for last.
const Outcome& pass_of_one_rank(const std::string& dir, float mtp, Lengths lengths) {
  static std::tuple<std::string, float, std::vector<int>> last;
  static Outcome outcome;
  if (const std::tuple now(dir, mtp, std::vector(lengths)); last != now) {
    outcome = pass_over(*open_ranks(dir, {}, mtp > 0), mtp, lengths);
    last = now;
  }
  return outcome;
}

void expect_gradients_of_one_rank(const std::string& dir, const MeshShape& shape, float mtp,
                                  Lengths lengths = kLengths) {
  SCOPED_TRACE(str(dir, ", ", describe(shape)));
  const Outcome& one = pass_of_one_rank(dir, mtp, lengths);
  const auto ranks = open_ranks(dir, shape, mtp > 0);
  const Outcome found = pass_over(*ranks, mtp, lengths);
  EXPECT_EQ(found.sums.tokens, one.sums.tokens);
  EXPECT_NEAR(found.sums.nll, one.sums.nll, 1e-5 * one.sums.nll);
  EXPECT_EQ(found.sums.mtp_tokens, one.sums.mtp_tokens);
  EXPECT_NEAR(found.sums.mtp_nll, one.sums.mtp_nll, 1e-5 * one.sums.mtp_nll);
  ASSERT_EQ(found.gradients.size(), one.gradients.size());
  for (std::size_t i = 0; i < found.gradients.size(); ++i) {
    const std::vector<float>&mine = found.gradients[i], &expected = one.gradients[i];
    ASSERT_EQ(mine.size(), expected.size());
    double difference = 0, size = 0;
    for (std::size_t j = 0; j < mine.size(); ++j) {
      difference += (double{mine[j]} - expected[j]) * (double{mine[j]} - expected[j]);
      size += double{expected[j]} * expected[j];
    }
    EXPECT_LE(std::sqrt(difference), std::max(1e-5 * std::sqrt(size), 1e-7 * one.norm))
        << ranks->trained()[i].name;
  }
  EXPECT_NEAR(found.norm, one.norm, 1e-5 * one.norm);
}

TEST(TrainRanks, the_gradient_of_ranks_that_divide_every_matrix_is_that_of_one) {
  for (const MeshShape& shape : {MeshShape{.tp = 2}, {.tp = 4}, {.tp = 2, .dp = 2}}) {
    expect_gradients_of_one_rank(small_checkpoint(), shape, 0.3f);
  }
}

TEST(TrainRanks, the_gradient_of_ranks_that_share_the_experts_is_that_of_one) {
  for (const int ep : {3, 8}) {  // the last: more than there are sequences
    expect_gradients_of_one_rank(small_checkpoint(), {.ep = ep, .dp = ep}, 0.3f);
  }
}

TEST(TrainRanks, the_gradient_of_ranks_that_share_each_sequence_is_that_of_one) {
  expect_gradients_of_one_rank(small_checkpoint(), {.cp = 3, .dp = 3}, 0.3f);
  expect_gradients_of_one_rank(small_checkpoint(), {.cp = 2, .ep = 2, .dp = 2}, 0.3f);
  expect_gradients_of_one_rank(small_checkpoint(), {.tp = 2, .cp = 2, .dp = 2}, 0.3f);
  // Groups of replicas, each with sequences of its own.
  expect_gradients_of_one_rank(small_checkpoint(), {.cp = 2, .dp = 4}, 0.3f);
  expect_gradients_of_one_rank(small_checkpoint(), {.cp = 2, .ep = 4, .dp = 4}, 0.3f);
}

TEST(TrainRanks, the_gradient_of_ranks_that_divide_matrices_and_share_experts_is_that_of_one) {
  expect_gradients_of_one_rank(small_checkpoint(), {.tp = 2, .ep = 2}, 0.3f);
  expect_gradients_of_one_rank(small_checkpoint(), {.tp = 2, .ep = 4, .dp = 2}, 0.3f);
  expect_gradients_of_one_rank(small_checkpoint(), {.tp = 2, .ep = 4, .dp = 2}, 0.3f,
                               {33});  // a replica has none
  // The draft layer's loss of three tokens is one replica's, and two ranks of the other have no
  // rows of their own.
  expect_gradients_of_one_rank(small_checkpoint(), {.tp = 4, .cp = 2, .ep = 8, .dp = 2}, 0.3f,
                               {69, 3, 69});
  expect_gradients_of_one_rank(small_checkpoint(), {.tp = 2, .cp = 2, .ep = 4, .pp = 2, .dp = 2},
                               0.3f);
}

TEST(TrainRanks, a_sequence_is_shared_by_more_ranks_than_it_has_tokens) {
  const TokenSequences ids = some_tokens({3});
  const auto one = open_ranks(kOdd, {}), ranks = open_ranks(kOdd, {.cp = 4, .dp = 4});
  const LossSums expected = one->run(ids, {}, 70).value(), sums = ranks->run(ids, {}, 70).value();
  EXPECT_EQ(sums.tokens, expected.tokens);
  EXPECT_NEAR(sums.nll, expected.nll, 1e-5 * expected.nll);
  const auto gradients = whole_gradients(*one), found = whole_gradients(*ranks);
  const double norm = norm_of(*one);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::size_t j = 0; j < found[i].size(); ++j) {
      EXPECT_NEAR(found[i][j], gradients[i][j], 1e-6 * norm);
    }
  }
  // A rank without a row of the draft layer plans its memory too.
  EXPECT_TRUE(ranks->reserve(batch_shape(plain(ids), {.drafts = true, .learns = true})).ok());
}

// One batch forward, one back, over more batches than stages, and fewer: no sum is another.
TEST(TrainRanks, the_gradient_of_stages_has_the_bits_of_one_rank) {
  const TokenSequences ids = some_tokens({40, 1, 17, 64, 9, 33, 50});
  // The latter has stages that begin with a layer without an indexer.
  for (const std::string& dir :
       {small_checkpoint(), str(GLINT_SOURCE_DIR, "/tests/golden/glm52_sharing")}) {
    for (const int batch_tokens : {40, 4096}) {
      SCOPED_TRACE(str(dir, ", ", batch_tokens));
      const auto one = open_ranks(dir, {}), ranks = open_ranks(dir, {.pp = 3});
      const LossSums expected = one->run(ids, {}, batch_tokens).value();
      const LossSums sums = ranks->run(ids, {}, batch_tokens).value();
      EXPECT_EQ(sums.tokens, expected.tokens);
      EXPECT_EQ(sums.nll, expected.nll);
      EXPECT_EQ(whole_gradients(*ranks), whole_gradients(*one));
    }
  }
}

TEST(TrainRanks, the_gradient_of_stages_of_several_ranks_is_that_of_one) {
  expect_gradients_of_one_rank(small_checkpoint(), {.pp = 2},
                               0.3f);  // the draft layer lends the embedding
  expect_gradients_of_one_rank(small_checkpoint(), {.tp = 2, .pp = 2}, 0.3f);
  expect_gradients_of_one_rank(small_checkpoint(), {.ep = 2, .pp = 2, .dp = 2}, 0.3f);
  expect_gradients_of_one_rank(small_checkpoint(), {.cp = 2, .pp = 2, .dp = 2}, 0.3f);
}

// The last stage's gradient goes to the first, which steps.
TEST(TrainRanks, the_gradient_of_stages_that_share_embedding_and_head_is_that_of_one) {
  const TiedCheckpoint tied(kSmall), tiny(small_checkpoint());
  for (const float mtp : {0.0f, 0.3f}) {
    expect_gradients_of_one_rank(tied.dir(), {.pp = 2}, mtp);
    expect_gradients_of_one_rank(tied.dir(), {.tp = 2, .pp = 2}, mtp);
    expect_gradients_of_one_rank(tied.dir(), {.ep = 2, .pp = 2, .dp = 2}, mtp);
    expect_gradients_of_one_rank(tied.dir(), {.cp = 2, .pp = 2, .dp = 2}, mtp);
  }
  expect_gradients_of_one_rank(tiny.dir(), {.pp = 3}, 0);
}

TEST(TrainRanks, log_probabilities_over_ranks_have_the_bits_of_one_rank) {
  const std::vector<TrainSequence> sequences = plain(some_tokens({40, 17, 64, 9, 33}));
  const auto expected =
      open_ranks(small_checkpoint(), {})->score(sequences, {.temperature = 0.7f}, 100).value();
  for (const MeshShape& shape :
       {MeshShape{.dp = 2}, {.pp = 2}, {.cp = 2, .dp = 2}, {.cp = 2, .dp = 4}}) {
    SCOPED_TRACE(describe(shape));
    const auto scores =
        open_ranks(small_checkpoint(), shape)->score(sequences, {.temperature = 0.7f}, 100).value();
    ASSERT_EQ(scores.size(), expected.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      EXPECT_EQ(scores[i].served, expected[i].served) << i;
      EXPECT_EQ(scores[i].entropies, expected[i].entropies) << i;
    }
  }
}

TEST(TrainRanks, a_rank_that_fails_ends_the_pass_of_all) {
  const auto ranks = open_ranks(kOdd, {.dp = 2});
  std::vector<TrainSequence> sequences = plain(some_tokens({8, 8, 8}));
  sequences[2].ids[3] = 1 << 30;
  const auto failed = ranks->add(sequences, {}, 100);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("sequence 3"), std::string::npos);
  sequences[2].ids[3] = 1;
  int parts = 0;
  const auto stopped = ranks->add(sequences, {}, 4, [&] { return ++parts < 3; });
  EXPECT_EQ(stopped.error().message, "interrupted");
  EXPECT_EQ(parts, 3);
  // Ranks that meet in each layer stop at the same one.
  for (const MeshShape& shape :
       {MeshShape{.tp = 2}, {.ep = 2, .dp = 2}, {.cp = 2, .dp = 2}, {.tp = 2, .ep = 2}}) {
    parts = 0;
    const auto divided = open_ranks(small_checkpoint(), shape);
    const auto ended = divided->add(sequences, {}, 4, [&] { return ++parts < 6; });
    EXPECT_EQ(ended.error().message, "interrupted");
    EXPECT_EQ(parts, 6);
    EXPECT_TRUE(divided->add(sequences, {}, 4).ok());
  }
  // Stages finish what was begun.
  for (const int before : {0, 1}) {
    parts = 0;
    const auto stages = open_ranks(small_checkpoint(), {.pp = 3});
    EXPECT_EQ(stages->add(sequences, {}, 4, [&] { return ++parts <= before; }).error().message,
              "interrupted");
    EXPECT_EQ(stages->score(sequences, {}, 4, [] { return false; }).error().message, "interrupted");
    for (int rank = 0; rank < 3; ++rank) stages->parameters(rank).set_zero();
    EXPECT_TRUE(stages->add(sequences, {}, 4).ok());
  }
}

// Steps on other tokens each. Where a gradient is near 0, AdamW makes of its rounding as long a
// step as of any other: it is kept short.
void learn(Trainer& trainer, int steps) {
  for (int i = 0; i < steps; ++i) {
    const auto sequences = plain(
        some_tokens({12, 30, 21, 18}, static_cast<std::uint64_t>(100 + trainer.steps_done())));
    const double draft = trainer.ranks().model().has_mtp() ? 0.3 / 73 : 0;
    ASSERT_TRUE(trainer.pass().add(sequences, {.scale = 1.0 / 77, .mtp_scale = draft}, 64).ok());
    ASSERT_TRUE(trainer.step(1e-4).ok());
  }
}

// All files of a checkpoint.
std::map<std::string, std::string> files_of(const std::string& dir) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    all[std::filesystem::relative(entry.path(), dir).string()] = read_file(entry.path()).value();
  }
  return all;
}

// Ranks that have nothing in common but their groups, as processes have them, on `make`'s backends:
// the bits of threads.
void expect_bits_of_threads(const MeshShape& shape, const std::string& dir = kSmall,
                            bool with_mtp = true, decltype(&backends) make = &backends) {
  SCOPED_TRACE(str(dir, ", ", describe(shape)));
  const TestDir base;
  const auto sequences = plain(some_tokens({12, 30, 21, 18}));
  const auto threads = open_trainer(dir, shape, with_mtp);
  learn(*threads, 2);
  const auto scores = threads->pass().score(sequences, {.temperature = 0.7f}, 64).value();
  ASSERT_TRUE(threads->save(base / "threads", Json::Object{}).ok());
  ThreadPool pool(1);
  const ModelTensor embedding = model_tensors(threads->ranks().model().config())[0];
  const std::vector<float> embedded = threads->weights().read(embedding, pool);
  const LossSums sums = threads->pass().add(sequences, {.scale = 1.0 / 77}, 64).value();
  learn(*threads, 1);
  const std::vector<float> weights = weights_of(*threads);
  const OwnedFd file(::memfd_create("groups", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(RankMemory::bytes_for(shape))), 0);
  const auto rank_of_processes = [&](int rank) {
    const RankMemory::Comms comms(RankMemory::map(shape, file.get()).value(), rank);
    const TrainPeers peers(comms.mesh(), comms.all(), shape.num_ranks());
    const auto trainer =
        Trainer::open({.model = options_of(dir, shape, with_mtp), .peers = peers}, make(1)).value();
    EXPECT_EQ(trainer->ranks().num_trained(), threads->ranks().num_trained());
    learn(*trainer, 2);
    const auto found = trainer->pass().score(sequences, {.temperature = 0.7f}, 64).value();
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].log_probs, scores[i].log_probs);
      EXPECT_EQ(found[i].served, scores[i].served);
    }
    // Each has its part alone, and the last stage the first one's embedding, if it has any.
    const ModelPartition& partition = trainer->ranks().model().partition();
    if (shape.tp * shape.ep * shape.pp > 1) {
      EXPECT_LT(trainer->weights().bytes(), threads->weights().bytes());
    }
    trainer->give_embedding();
    if (partition.is_first() || partition.is_last()) {
      ThreadPool own(1);
      EXPECT_EQ(trainer->weights().read(embedding, own),
                take_part(embedding, box_of(embedding, partition), embedded));
    }
    ASSERT_TRUE(trainer->save(base / "processes", Json::Object{}).ok());
    ASSERT_TRUE(trainer->save(base / "processes", Json::Object{}).ok());  // it is there
    // The first stops: all do, and go on.
    const auto stopped = trainer->pass().add(sequences, {}, 8, [&] { return !peers.is_first(); });
    EXPECT_EQ(stopped.error().message, "interrupted");
    trainer->parameters().set_zero();
    EXPECT_EQ(trainer->pass().add(sequences, {.scale = 1.0 / 77}, 64).value().nll, sums.nll);
    // A folder that cannot be written to fails on all.
    const Status failed = trainer->save("/proc/none", Json::Object{});
    EXPECT_FALSE(failed.ok());
    EXPECT_EQ(trainer->describe_ranks().as_array().size(), static_cast<std::size_t>(peers.size()));
    // The checkpoint is taken up.
    const std::string saved = base / "processes/step-2";
    const auto again =
        Trainer::open(
            {.model = options_of(saved, shape, with_mtp), .peers = peers, .gathers = true}, make(1))
            .value();
    ASSERT_TRUE(again->restore(saved).ok());
    EXPECT_EQ(again->steps_done(), 2);
    EXPECT_EQ(again->pass().add(sequences, {.scale = 1.0 / 77}, 64).value().nll, sums.nll);
    learn(*again, 1);
    again->gather_weights();
    if (peers.is_first()) {
      EXPECT_EQ(weights_of(*again), weights);
    }
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < shape.num_ranks(); ++rank) {
    ranks.emplace_back([&, rank] { rank_of_processes(rank); });
  }
  for (std::thread& rank : ranks) rank.join();
  const auto expected = files_of(base / "threads"), found = files_of(base / "processes");
  EXPECT_GT(expected.size(), 5u);
  EXPECT_TRUE(found == expected);
}

TEST(Trainer, ranks_that_are_processes_have_the_bits_of_threads) {
  expect_bits_of_threads({.dp = 2});
  expect_bits_of_threads({.tp = 2});
  expect_bits_of_threads({.pp = 2});
  expect_bits_of_threads({.ep = 2, .dp = 2});
  expect_bits_of_threads({.cp = 2, .dp = 2});
  expect_bits_of_threads({.tp = 2, .pp = 2});
  expect_bits_of_threads({.tp = 2, .ep = 2});
  expect_bits_of_threads({.pp = 2}, kSmall, false);
  const TiedCheckpoint tied(kSmall);
  expect_bits_of_threads({.pp = 2}, tied.dir(), false);
  expect_bits_of_threads({.tp = 2, .pp = 2}, tied.dir(), false);
}

TEST(Trainer, ranks_on_other_devices_have_the_bits_of_the_host) {
  for (const MeshShape& shape : {MeshShape{.dp = 2},
                                 {.tp = 2},
                                 {.pp = 2},
                                 {.ep = 2, .dp = 2},
                                 {.cp = 2, .dp = 2},
                                 {.tp = 2, .cp = 2, .ep = 4, .pp = 2, .dp = 2}}) {
    expect_bits_of_threads(shape, kSmall, true, &late_backends);
  }
  // As threads.
  const TokenSequences ids = some_tokens(kLengths);
  for (const MeshShape& shape :
       {MeshShape{.tp = 2, .ep = 4, .dp = 2}, {.cp = 2, .pp = 2, .dp = 2}}) {
    SCOPED_TRACE(describe(shape));
    const auto expected = open_ranks(small_checkpoint(), shape);
    const auto late =
        TrainRanks::open(options_of(small_checkpoint(), shape), late_backends(shape.num_ranks()))
            .value();
    ASSERT_TRUE(late->make_parameters().ok());
    EXPECT_EQ(late->run(ids, {.mtp_weight = 0.3f}, 70).value().nll,
              expected->run(ids, {.mtp_weight = 0.3f}, 70).value().nll);
    EXPECT_EQ(whole_gradients(*late), whole_gradients(*expected));
    EXPECT_EQ(late->describe(1).find("way")->as_string(), "through the host");
  }
}

// Bytes of the optimiser that each rank has.
std::vector<std::int64_t> optimizer_bytes(Trainer& trainer) {
  std::vector<std::int64_t> all;
  const Json ranks = trainer.describe_ranks();
  for (const Json& rank : ranks.as_array()) {
    all.push_back(rank.find("optimizer_bytes")->as_int());
  }
  return all;
}

TEST(Trainer, steps_over_ranks_are_those_of_one_and_divide_the_state) {
  const auto one = open_trainer(small_checkpoint(), {});
  learn(*one, 3);
  const std::vector<float> expected = weights_of(*one);
  const std::int64_t whole = optimizer_bytes(*one)[0];
  EXPECT_EQ(whole, 12 * one->ranks().num_trained());
  for (const MeshShape& shape :
       {MeshShape{.dp = 3}, {.tp = 2, .dp = 2}, {.ep = 3, .dp = 3}, {.tp = 2, .ep = 4, .dp = 2}}) {
    SCOPED_TRACE(describe(shape));
    const auto several = open_trainer(small_checkpoint(), shape);
    EXPECT_EQ(several->ranks().num_trained(), one->ranks().num_trained());
    learn(*several, 3);
    EXPECT_LT(relative_difference(expected, weights_of(*several)), 1e-5);
    std::int64_t sum = 0;
    for (const std::int64_t bytes : optimizer_bytes(*several)) {
      sum += bytes;
      // Experts do not divide evenly by 3, nor layers by 2.
      const std::int64_t most = whole / shape.num_ranks() * 5 / 4;
      EXPECT_LE(bytes, most + 24 * kNormBlock);
    }
    EXPECT_EQ(sum, whole);
    if (shape != MeshShape{.dp = shape.dp}) continue;
    const Json ranks = several->describe_ranks();
    for (const Json& rank : ranks.as_array()) {
      const Json& calls = *rank.find("collectives")->find("dp");
      EXPECT_EQ(calls.find("reduce_scatter")->find("calls")->as_int(), 3);
      EXPECT_EQ(calls.find("all_gather")->find("calls")->as_int(), 6);  // norms, and masters
    }
  }
}

TEST(Trainer, stages_that_share_embedding_and_head_step_as_one_rank) {
  const TiedCheckpoint tied(kSmall);
  const auto one = open_trainer(tied.dir(), {}, false);
  learn(*one, 3);
  for (const MeshShape& shape : {MeshShape{.pp = 2}, {.tp = 2, .pp = 2, .dp = 2}}) {
    SCOPED_TRACE(describe(shape));
    const auto several = open_trainer(tied.dir(), shape, false);
    learn(*several, 3);
    EXPECT_LT(relative_difference(weights_of(*one), weights_of(*several)), 1e-5);
    std::int64_t sum = 0;  // the state of what both have is there once
    for (const std::int64_t bytes : optimizer_bytes(*several)) sum += bytes;
    EXPECT_EQ(sum, optimizer_bytes(*one)[0]);
  }
}

// As the ranks of a trainer hold them: each reads what it has in memory.
TEST(Trainer, ranks_compute_with_the_weights_that_are_written) {
  const auto tokens = plain(some_tokens({30, 21}));
  for (const MeshShape& shape : {MeshShape{.tp = 2}, {.ep = 2, .dp = 2}, {.tp = 2, .ep = 2}}) {
    SCOPED_TRACE(describe(shape));
    const TestDir out;
    const auto trainer = open_trainer(small_checkpoint(), shape);
    learn(*trainer, 1);
    ASSERT_TRUE(trainer->save(out.path(), Json::Object{}).ok());
    const auto read =
        Trainer::open({.model = options_of(out / "step-1", shape)}, backends(shape.num_ranks()))
            .value();
    const auto expected = trainer->pass().score(tokens, {}, 64).value();
    const auto scores = read->pass().score(tokens, {}, 64).value();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(scores[i].served, expected[i].served);
    }
  }
}

TEST(Trainer, a_checkpoint_goes_on_over_other_ranks) {
  const TestDir out;
  const auto whole = open_trainer(small_checkpoint(), {});
  learn(*whole, 4);
  const MeshShape shape = {.tp = 2};
  const auto first = open_trainer(small_checkpoint(), shape);
  learn(*first, 2);
  ASSERT_TRUE(first->save(out.path(), Json::Object{}).ok());
  learn(*first, 2);
  for (const MeshShape& other : {MeshShape{}, shape, {.ep = 2, .pp = 2, .dp = 2}}) {
    SCOPED_TRACE(describe(other));
    const auto next =
        Trainer::open({.model = options_of(out / "step-2", other)}, backends(other.num_ranks()))
            .value();
    ASSERT_TRUE(next->restore(out / "step-2").ok());
    learn(*next, 2);
    EXPECT_LT(relative_difference(weights_of(*whole), weights_of(*next)), 1e-5);
    if (other == shape) {
      EXPECT_EQ(weights_of(*next), weights_of(*first));
    }
  }
}

TEST(Trainer, a_gradient_that_is_no_number_on_one_rank_changes_no_weight_of_any) {
  const auto trainer = open_trainer(kOdd, {.dp = 2});
  const std::vector<float> before = weights_of(*trainer);
  trainer->parameters().flat()[0] = std::nanf("");
  EXPECT_NE(trainer->step(1e-3).error().message.find("not a number"), std::string::npos);
  EXPECT_EQ(weights_of(*trainer), before);
  learn(*trainer, 1);
  EXPECT_NE(weights_of(*trainer), before);
}

// Where ranks share each sequence, all its rows are computed, also those in common.
TEST(TrainRanks, that_share_sequences_count_what_these_have_in_common) {
  const TokenId answers[] = {1, 2, 3, 4, 5, 6};
  TokenSequences sequences;
  for (const TokenId answer : answers) {
    sequences.push_back(some_tokens({60})[0]);
    sequences.back().resize(70, answer);
  }
  const auto pair = open_ranks(small_checkpoint(), {.cp = 2, .dp = 2});
  EXPECT_EQ(pair->num_batches(plain(sequences), 210, false), 2 * 2);
  const BatchShape most = shape_of(210, 3, 70, false);
  const auto trial = PassTrial::make(pair->model(0), pair->tape(0)).value();
  ASSERT_TRUE(pair->add(plain(sequences), {}, 210).ok());
  EXPECT_LE(pair->pass(0).used_memory().total(), trial->run(most, false).value().total());
  // Both pairs get as many.
  EXPECT_EQ(
      open_ranks(small_checkpoint(), {.cp = 2, .dp = 4})->num_batches(plain(sequences), 210, false),
      2 * 2);
}

TEST(TrainRanks, take_the_memory_that_they_planned) {
  const std::vector<TrainSequence> sequences =
      plain(some_tokens({120, 130, 121, 118, 100, 90, 110, 128}));
  for (const MeshShape& shape : {MeshShape{.tp = 2}, MeshShape{.ep = 2, .dp = 2},
                                 MeshShape{.cp = 2, .dp = 2}, MeshShape{.pp = 2}}) {
    SCOPED_TRACE(describe(shape));
    const BatchShape batch = batch_shape(sequences, {.learns = true, .shares = shape.cp == 1});
    for (const bool reserves : {false, true}) {
      const auto ranks = open_ranks(small_checkpoint(), shape);
      if (reserves) {
        ASSERT_TRUE(ranks->reserve(batch).ok());
      }
      ASSERT_TRUE(ranks->add(sequences, {}, 4096).ok());
      for (int rank = 0; rank < ranks->size(); ++rank) {
        const auto trial = PassTrial::make(ranks->model(rank), ranks->tape(rank)).value();
        const PassMemory planned = trial->run(batch, ranks->pass(rank).keeps_layers()).value();
        const PassMemory used = ranks->pass(rank).used_memory();
        for (const auto part : {&PassMemory::pass, &PassMemory::saved, &PassMemory::gradients}) {
          EXPECT_LE(used.*part, planned.*part);
        }
      }
    }
  }
}

}  // namespace
}  // namespace glint
