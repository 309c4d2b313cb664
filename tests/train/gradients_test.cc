// Gradients against transformers' autograd in fp64 (tests/golden/gradients holds what
// tools/make_gradient_goldens.py wrote), and the forward pass of training against that of serving.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/str.h"
#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "checkpoint/safetensors.h"
#include "cli/id_file.h"
#include "model/backends_under_test.h"
#include "model/npy_data.h"
#include "ops/logit_rows.h"
#include "runtime/score.h"
#include "train/check_gradients.h"
#include "train/gradient_file.h"
#include "train/gradient_pass.h"
#include "train/packed_rows.h"
#include "train/parameter_file.h"
#include "train/pass_trial.h"
#include "train/small_checkpoint.h"
#include "train/testing.h"
#include "train/tied_checkpoint.h"

namespace glint {
namespace {

const std::string kGoldens = str(GLINT_SOURCE_DIR, "/tests/golden/");
const std::string kTiny = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");

// A model under a tape, with its parameters.
struct Trained {
  Trained(const std::string& dir, DType dtype, std::unique_ptr<Backend> backend) {
    DecoratedBackend taped(std::move(backend));
    tape = &TapeOps::decorate(taped);
    model = LoadedModel::load({.dir = dir,
                               .numbers = formats_in(dtype),
                               .with_mtp = true,
                               .packing = Packing::kNever},
                              std::move(taped))
                .value();
    parameters.emplace(Parameters::make(model->weights(), *tape).value());
    pass.emplace(*model, *tape);
    pass->probes().checks_remains = true;
  }

  LossSums run(const TokenSequences& ids, const LossOptions& options = {},
               std::int64_t batch_tokens = 4096) {
    parameters->set_zero();
    return pass->run(ids, options, batch_tokens).value();
  }
  // All gradients, one after another.
  std::vector<float> gradients() const {
    std::vector<float> all;
    for (const Parameter& p : parameters->all()) {
      for (const Tensor& g : {p.gradient, p.gradient_of_values}) {
        if (g) all.insert(all.end(), g.ptr<float>(), g.ptr<float>() + g.size());
      }
    }
    return all;
  }

  std::unique_ptr<LoadedModel> model;
  TapeOps* tape = nullptr;
  std::optional<Parameters> parameters;
  std::optional<GradientPass> pass;
};

double norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum);
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(sum);
}

// The elements of a parameter that the goldens have.
std::vector<float> sampled(std::span<const float> values) {
  constexpr std::size_t kSamples = 32;
  if (values.size() <= kSamples) return {values.begin(), values.end()};
  std::vector<float> some;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    some.push_back(values[(i * 0x9E3779B1u + 12345) % values.size()]);
  }
  return some;
}

struct Golden {
  std::string name, checkpoint;
  float mtp_weight = 0;
};

const Golden kCases[] = {{"tiny", kTiny},
                         {"sharing", kGoldens + "glm52_sharing", 0.25f},
                         {"real_heads", kGoldens + "real_heads"},
                         {"odd", kGoldens + "odd", 1},
                         {"groups", kGoldens + "deepseek_v32"}};

// The file's tensors by name.
std::map<std::string, std::span<const float>> tensors_of(std::span<const std::byte> file) {
  std::map<std::string, std::span<const float>> tensors;
  const std::vector<StoredTensor> all = parse_safetensors(file).value();
  for (const StoredTensor& tensor : all) {
    EXPECT_EQ(tensor.type, StoredType::kF32);
    tensors[tensor.name] = {reinterpret_cast<const float*>(tensor.bytes.data()),
                            tensor.bytes.size() / sizeof(float)};
  }
  return tensors;
}

// Every parameter is within `relative` of itself, or within `absolute` of the norm of all.
void expect_golden(const Golden& golden, Trained& trained, double relative, double absolute) {
  SCOPED_TRACE(golden.name);
  const std::string dir = str(kGoldens, "gradients/", golden.name);
  const TokenSequences ids = read_ids(dir + "/ids.txt").value();
  const LossSums sums = trained.run(ids, {.mtp_weight = golden.mtp_weight});
  const auto losses = read_npy<double>(dir + "/loss.npy", "<f8");
  EXPECT_NEAR(sums.mean(), losses[0], relative / 10);
  if (golden.mtp_weight > 0) {
    EXPECT_NEAR(sums.mtp_mean(), losses[1], relative / 10);
  }

  const TestDir temporary;
  const std::string path = temporary / "gradients.safetensors";
  std::vector<float> numbers;
  trained.parameters->fetch();
  const auto gradient = [&](std::size_t i) {
    const Parameter& p = trained.parameters->all()[i];
    numbers = gradient_of(p, trained.parameters->values_of(p));
    return std::span<const float>(numbers);
  };
  std::vector<ModelTensor> trained_tensors;
  for (const Parameter& p : trained.parameters->all()) trained_tensors.push_back(p.tensor);
  ASSERT_TRUE(write_parameter_file(trained_tensors, gradient, path).ok());
  const MappedFile file = MappedFile::open(path).value();
  const auto norms = read_npy<double>(dir + "/norms.npy", "<f8");
  const auto values = read_npy<float>(dir + "/values.npy", "<f4");
  const auto tensors = tensors_of(file.bytes());
  double all = 0;
  for (const double one : norms) all += one * one;
  all = std::sqrt(all);
  std::size_t parameter = 0, at = 0;
  for (const auto& [name, gradient] : tensors) {
    // The draft layer's parameters are there in any case; the goldens have them if it is trained.
    const bool is_mtp =
        name.starts_with(str("model.layers.", trained.model->config().num_hidden_layers, "."));
    if (is_mtp && golden.mtp_weight == 0) {
      EXPECT_EQ(norm(gradient), 0) << name;
      continue;
    }
    ASSERT_LT(parameter, norms.size());
    const double expected = norms[parameter++];
    const std::vector<float> some = sampled(gradient);
    ASSERT_LE(at + some.size(), values.size());
    const double share =
        std::sqrt(static_cast<double>(gradient.size()) / static_cast<double>(some.size()));
    const double error = std::max(distance(some, std::span(values).subspan(at)) * share,
                                  std::fabs(norm(gradient) - expected));
    at += some.size();
    EXPECT_LE(error, std::max(relative * expected, absolute * all))
        << name << ", whose norm is " << expected << " of " << all;
  }
  EXPECT_EQ(parameter, norms.size());
}

TEST(TrainingGolden, gradients_equal_transformers_in_fp64) {
  for (const Golden& golden : kCases) {
    Trained trained(golden.checkpoint, DType::kF32, best_backend().make(1));
    expect_golden(golden, trained, 1e-4, 1e-7);
  }
}

TEST(TrainingGolden, the_reference_equals_transformers_in_fp64) {
  for (const Golden& golden : {kCases[1], kCases[3]}) {
    Trained trained(golden.checkpoint, DType::kF32, backends_under_test()[0].make(1));
    expect_golden(golden, trained, 1e-4, 1e-7);
  }
}

TEST(TrainingGolden, every_instruction_set_equals_transformers_in_fp64) {
  for (const BackendUnderTest& backend : backends_under_test()) {
    if (backend.name == "reference") continue;
    SCOPED_TRACE(backend.name);
    Trained trained(kCases[3].checkpoint, DType::kF32, backend.make(1));
    expect_golden(kCases[3], trained, 1e-4, 1e-7);
  }
}

TEST(TrainingGolden, a_head_that_is_the_embedding_adds_to_its_gradient) {
  const TiedCheckpoint tied(kGoldens + "odd");
  Trained trained(tied.dir(), DType::kF32, best_backend().make(1));
  expect_golden({"tied", tied.dir(), 0.5f}, trained, 1e-4, 1e-7);
}

// On a trained model: random weights turn a rounding into other experts.
TEST(TrainingGolden, bf16_is_near_transformers_in_fp64) {
  Trained trained(kTiny, DType::kBF16, best_backend().make(1));
  expect_golden(kCases[0], trained, 0.05, 1e-3);
}

TokenSequences record_rows(std::initializer_list<std::size_t> lengths) {
  const TokenSequences rows =
      read_ids(str(GLINT_SOURCE_DIR, "/models/record/heldout.ids.txt")).value();
  TokenSequences cut;
  for (const std::size_t length : lengths) {
    cut.emplace_back(rows[cut.size()].begin(), rows[cut.size()].begin() + length);
  }
  return cut;
}

// Two ways to the same gradient, which round differently.
void expect_same_gradient(std::span<const float> a, std::span<const float> b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_LE(distance(a, b), tolerance * norm(a));
}

// Every gradient is what the loss does, and one that is not is found.
TEST(Training, differences_of_the_loss_find_a_wrong_gradient) {
  Trained trained(kGoldens + "odd", DType::kF32, best_backend().make(1));
  TrainedWeights weights = TrainedWeights::make(*trained.model).value();
  trained.parameters.emplace(Parameters::make(trained.model->weights(), *trained.tape).value());
  const auto ids = read_ids(kGoldens + "gradients/odd/ids.txt").value();
  std::vector<TrainSequence> sequences = with_routes(*trained.model, ids).value();
  ASSERT_TRUE(add_draft_routes(*trained.pass, sequences, 4096).ok());
  std::int64_t tokens = 0, draft_tokens = 0;
  for (const TrainSequence& sequence : sequences) {
    tokens += sequence.size() - 1;
    draft_tokens += sequence.size() - 2;
  }
  constexpr double kDrafts = 0.5;
  const LossTerms terms = {.scale = 1.0 / static_cast<double>(tokens),
                           .mtp_scale = kDrafts / static_cast<double>(draft_tokens)};
  ASSERT_TRUE(trained.pass->add(sequences, terms, 4096).ok());
  const Parameter& wrong = trained.parameters->all()[7];
  for (float& g : trained.parameters->values_of(wrong)) g *= 1.05f;
  ThreadPool pool(2);
  const auto weights_now = [&] {
    std::vector<std::vector<float>> all;
    for (const Parameter& p : trained.parameters->all())
      all.push_back(weights.read(p.tensor, pool));
    return all;
  };
  const auto before = weights_now();
  const auto checks = check_gradients({*trained.pass, *trained.model, weights, *trained.parameters,
                                       pool, 4096, kDrafts},
                                      sequences, [] { return true; })
                          .value();
  EXPECT_EQ(checks.size(), trained.parameters->all().size());
  EXPECT_TRUE(trained.model->config().is_mtp(trained.parameters->all().back().tensor.layer));
  for (const ParameterCheck& check : checks) {
    EXPECT_FALSE(check.is_small()) << check.name;
    EXPECT_EQ(check.agrees(), check.name != wrong.tensor.name)
        << check.name << " " << check.predicted << " " << check.measured;
  }
  EXPECT_EQ(before, weights_now());
}

// Alone, the draft layer has the same gradient, and the rest of the model that without it.
TEST(Training, a_draft_layer_that_learns_alone_moves_nothing_else) {
  for (const bool keeps_layers : {false, true}) {
    Trained trained(small_checkpoint(), DType::kF32, best_backend().make(1));
    const std::vector<TrainSequence> sequences = plain(record_rows({70, 33, 64}));
    if (keeps_layers) {
      ASSERT_TRUE(trained.pass->reserve(shape_of(200, 4, 70, true)).ok());
      ASSERT_TRUE(trained.pass->keeps_layers());
    }
    const auto run = [&](const LossTerms& terms) {
      trained.parameters->set_zero();
      const LossSums sums = trained.pass->add(sequences, terms, 100).value();
      return std::pair(sums, trained.gradients());
    };
    const LossTerms without = {.scale = 0.01}, beside = {.scale = 0.01, .mtp_scale = 0.003},
                    alone = {.scale = 0.01, .mtp_scale = 0.003, .mtp_alone = true};
    const auto [plain_sums, model] = run(without);
    const auto [both_sums, both] = run(beside);
    const auto [sums, found] = run(alone);
    EXPECT_EQ(sums.nll, plain_sums.nll);
    EXPECT_EQ(sums.mtp_nll, both_sums.mtp_nll);
    std::size_t at = 0;
    for (const Parameter& p : trained.parameters->all()) {
      const auto count = static_cast<std::size_t>(p.count());
      const auto part = [&](const std::vector<float>& all) {
        return std::vector(all.begin() + static_cast<std::ptrdiff_t>(at),
                           all.begin() + static_cast<std::ptrdiff_t>(at + count));
      };
      const bool is_draft = trained.model->config().is_mtp(p.tensor.layer);
      EXPECT_EQ(part(found), part(is_draft ? both : model)) << p.tensor.name;
      at += count;
    }
    EXPECT_NE(both, found);
    EXPECT_EQ(run(beside).second, both);  // what was frozen learns again
  }
}

TEST(Training, packed_sequences_do_not_see_each_other) {
  Trained trained(small_checkpoint(), DType::kF32, best_backend().make(1));
  const TokenSequences sequences = record_rows({70, 1, 33, 64});
  const LossSums packed = trained.run(sequences, {.mtp_weight = 0.5f});
  const std::vector<float> together = trained.gradients();
  const LossSums one_by_one = trained.run(sequences, {.mtp_weight = 0.5f}, 1);
  EXPECT_EQ(packed.tokens, 69 + 32 + 63);
  EXPECT_EQ(packed.mtp_tokens, 68 + 31 + 62);
  EXPECT_NEAR(packed.nll, one_by_one.nll, 1e-9);
  EXPECT_NEAR(packed.mtp_nll, one_by_one.mtp_nll, 1e-9);
  expect_same_gradient(together, trained.gradients(), 2e-6);
}

// Sequences that begin alike: within a page, after one, all of it, and again after another one.
TokenSequences sharing_rows() {
  const TokenSequences rows = record_rows({150, 150});
  TokenSequences all;
  for (const auto& [first, second] : {std::pair{90, 40},
                                      {90, 12},
                                      {30, 50},
                                      {30, 0},
                                      {30, 70},
                                      {0, 150},
                                      {128, 9},
                                      {130, 20},
                                      {130, 20}}) {
    all.emplace_back(rows[0].begin(), rows[0].begin() + first);
    all.back().insert(all.back().end(), rows[1].begin(), rows[1].begin() + second);
  }
  return all;
}

TEST(Training, what_sequences_share_is_computed_once_with_the_same_bits_and_gradient) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(name_of(dtype));
    Trained trained(small_checkpoint(), dtype, best_backend().make(1));
    const TokenSequences sequences = sharing_rows();
    const LossOptions options = {.mtp_weight = 0.5f};
    const LossSums together = trained.run(sequences, options);
    const std::vector<float> gradients = trained.gradients();
    const LossSums apart = trained.run(sequences, options, 1);
    EXPECT_EQ(together.tokens, apart.tokens);
    EXPECT_NEAR(together.nll, apart.nll, 1e-9 * apart.nll);
    EXPECT_NEAR(together.mtp_nll, apart.mtp_nll, 1e-9 * apart.mtp_nll);
    // In bf16 the gradients of rows are rounded before products, after they were added up or
    // before.
    expect_same_gradient(gradients, trained.gradients(), dtype == DType::kF32 ? 2e-6 : 5e-3);
    const std::vector<TrainSequence> each = plain(sequences);
    const auto once = trained.pass->score(each, {}, 4096).value();
    const auto alone = trained.pass->score(each, {}, 1).value();
    for (std::size_t i = 0; i < each.size(); ++i) {
      EXPECT_TRUE(same_bits(once[i].served, alone[i].served)) << "sequence " << i;
    }
    EXPECT_EQ(trained.pass->num_batches(each, 700, false), 1);  // of 960 tokens
  }
}

TEST(Training, the_bits_of_gradients_do_not_depend_on_threads) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::vector<float> first;
    for (const int threads : {1, 3}) {
      Trained trained(kTiny, dtype, best_backend().make(threads));
      trained.run(record_rows({150}), {.mtp_weight = 0.5f});
      const std::vector<float> gradients = trained.gradients();
      if (first.empty()) first = gradients;
      EXPECT_TRUE(same_bits(first, gradients));
    }
  }
}

TEST(Training, layers_that_are_kept_have_the_bits_of_layers_computed_again) {
  struct Case {
    std::string checkpoint;
    DType dtype;
    TokenSequences sequences;
  };
  for (const auto& [checkpoint, dtype, sequences] :
       {Case{small_checkpoint(), DType::kF32, sharing_rows()},
        Case{small_checkpoint(), DType::kBF16, sharing_rows()},
        Case{kGoldens + "glm52_sharing", DType::kBF16,
             read_ids(kGoldens + "gradients/sharing/ids.txt").value()}}) {
    SCOPED_TRACE(str(checkpoint, " in ", name_of(dtype)));
    const LossOptions options = {.mtp_weight = 0.5f};
    Trained computing(checkpoint, dtype, best_backend().make(1));
    const LossSums expected = computing.run(sequences, options);
    const std::vector<float> gradients = computing.gradients();
    Trained keeping(checkpoint, dtype, best_backend().make(1));
    const std::vector<TrainSequence> all = plain(sequences);
    ASSERT_TRUE(
        keeping.pass->reserve(batch_shape(all, {.drafts = true, .learns = true, .shares = true}))
            .ok());
    for (int i = 0; i < 2; ++i) {
      const LossSums sums = keeping.run(sequences, options);
      EXPECT_EQ(sums.nll, expected.nll);
      EXPECT_EQ(sums.mtp_nll, expected.mtp_nll);
      EXPECT_EQ(keeping.gradients(), gradients);
    }
    EXPECT_GT(keeping.pass->used_memory().pass, computing.pass->used_memory().pass * 3 / 2);
    // The record of a pass that ended halfway is forgotten.
    int parts = 3;
    EXPECT_FALSE(keeping.pass->add(all, {}, 4096, [&] { return --parts > 0; }).ok());
    EXPECT_EQ(keeping.pass->score(all, {}, 4096).value().size(), all.size());
  }
}

// -scale * log p, as a loss of the caller's own; and it remembers the values it was shown.
struct OwnCrossEntropy : TokenLoss {
  explicit OwnCrossEntropy(double scale) : scale(scale) {}
  void weigh(std::size_t sequence, std::int64_t first, std::span<const float> log_probs,
             std::span<const float> entropies, std::span<float> d_log_probs,
             std::span<float> d_entropies) override {
    auto& mine = seen[sequence];
    EXPECT_EQ(first, static_cast<std::int64_t>(mine.log_probs.size()) + 1);
    mine.log_probs.insert(mine.log_probs.end(), log_probs.begin(), log_probs.end());
    mine.entropies.insert(mine.entropies.end(), entropies.begin(), entropies.end());
    for (const float d : d_entropies) EXPECT_EQ(d, 0);
    for (float& d : d_log_probs) d = -static_cast<float>(scale);
  }
  const double scale;
  std::map<std::size_t, TokenScores> seen = {};
};

TEST(Training, a_loss_of_the_callers_own_that_is_the_cross_entropy_has_its_gradient) {
  Trained trained(small_checkpoint(), DType::kF32, best_backend().make(1));
  const TokenSequences sequences = record_rows({70, 1, 33, 64});
  const LossSums expected = trained.run(sequences, {.temperature = 0.8f}, 100);
  const std::vector<float> gradients = trained.gradients();
  trained.parameters->set_zero();
  OwnCrossEntropy loss(1.0 / static_cast<double>(expected.tokens));
  const auto sums = trained.pass->add(plain(sequences), {.temperature = 0.8f, .loss = &loss}, 100);
  EXPECT_EQ(sums.value().nll, expected.nll);
  EXPECT_TRUE(same_bits(trained.gradients(), gradients));
  // And it saw what a forward pass alone tells.
  const auto scores = trained.pass->score(plain(sequences), {.temperature = 0.8f}, 4096).value();
  EXPECT_EQ(loss.seen.size(), 3u);
  for (const auto& [sequence, seen] : loss.seen) {
    EXPECT_TRUE(same_bits(std::span(scores[sequence].log_probs).subspan(1), seen.log_probs));
    EXPECT_TRUE(same_bits(std::span(scores[sequence].entropies).subspan(1), seen.entropies));
  }
}

TEST(Training, weights_and_calls_add_up) {
  Trained trained(small_checkpoint(), DType::kF32, best_backend().make(1));
  TrainSequence whole = {.ids = record_rows({60})[0], .weights = std::vector<float>(60, 1)};
  for (std::size_t t = 0; t < 60; ++t) whole.weights[t] = t < 20 ? 2 : t < 40 ? 0 : 1;
  const LossTerms terms = {.scale = 0.5, .mtp_scale = 0.25};
  const LossSums sums = trained.pass->add(std::span(&whole, 1), terms, 100).value();
  EXPECT_EQ(sums.tokens, 39);
  EXPECT_EQ(sums.mtp_tokens, 38);
  const std::vector<float> together = trained.gradients();
  trained.parameters->set_zero();
  struct Part {
    int first, last;
    double scale;
  };
  for (const auto& [first, last, scale] : {Part{0, 20, 1}, {40, 60, 0.5}}) {
    TrainSequence part = {.ids = whole.ids, .weights = std::vector<float>(60, 0)};
    std::fill(part.weights.begin() + first, part.weights.begin() + last, 1.0f);
    const LossTerms one = {.scale = scale, .mtp_scale = scale / 2};
    ASSERT_TRUE(trained.pass->add(std::span(&part, 1), one, 100).ok());
  }
  expect_same_gradient(together, trained.gradients(), 2e-6);
}

TEST(Training, experts_of_a_rollout_are_used_again) {
  Trained trained(small_checkpoint(), DType::kF32, best_backend().make(1));
  const TokenSequences sequences = record_rows({60, 33});
  std::vector<TrainSequence> given = with_routes(*trained.model, sequences).value();
  const LossTerms terms = {.scale = 1.0 / 91};
  ASSERT_TRUE(trained.pass->add(plain(sequences), terms, 4096).ok());
  const std::vector<float> chosen = trained.gradients();
  trained.parameters->set_zero();
  ASSERT_TRUE(trained.pass->add(given, terms, 4096).ok());
  EXPECT_TRUE(same_bits(chosen, trained.gradients()));
  // The last token of a rollout never went through the model. Its place among an expert's rows
  // changes the order of sums only.
  given[0].routes.resize(given[0].routes.size() / 60 * 59);
  trained.parameters->set_zero();
  ASSERT_TRUE(trained.pass->add(given, terms, 4096).ok());
  expect_same_gradient(chosen, trained.gradients(), 2e-6);
  // Others than the router's have another loss.
  const double before = trained.pass->score(given, {}, 4096).value()[0].log_probs[5];
  std::reverse(given[0].routes.begin(), given[0].routes.end());
  EXPECT_NE(trained.pass->score(given, {}, 4096).value()[0].log_probs[5], before);
}

TEST(Training, scores_are_those_of_serving_bit_for_bit) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Trained trained(kTiny, dtype, best_backend().make(1));
    const TokenSequences sequences = record_rows({300, 40});
    const auto scores = trained.pass->score(plain(sequences), {}, 4096).value();
    ModelOptions options = trained.model->options();
    options.packing = Packing::kAlways;
    const auto serving = LoadedModel::load(options, best_backend().make(1)).value();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      std::vector<float> expected = {0};
      ScoreSinks sinks;
      sinks.logits = [&](std::int64_t first, std::span<const float> rows) {
        const auto vocab = static_cast<std::size_t>(serving->config().vocab_size);
        for (std::size_t r = 0; r * vocab < rows.size(); ++r) {
          const std::size_t next = static_cast<std::size_t>(first) + r + 1;
          if (next == sequences[i].size()) break;
          expected.push_back(logprob(rows.subspan(r * vocab, vocab), sequences[i][next]));
        }
      };
      ASSERT_TRUE(score(*serving, sequences[i], {.chunk = 37}, sinks).ok());
      EXPECT_TRUE(same_bits(scores[i].served, expected));
      for (std::size_t t = 1; t < expected.size(); ++t) {
        EXPECT_NEAR(scores[i].log_probs[t], expected[t], 1e-5);
        EXPECT_GT(scores[i].entropies[t], 0);
      }
    }
  }
}

// Serving packs weights, fuses blocks and cuts prompts into chunks; training does none of it.
TEST(Training, logits_are_those_of_serving_bit_for_bit) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Trained trained(kTiny, dtype, best_backend().make(1));
    const TokenSequences sequences = record_rows({300, 40});  // more than index_topk
    std::vector<float> logits;
    trained.pass->probes().on_logits = [&](const Tensor& rows) {
      logits.insert(logits.end(), rows.ptr<float>(), rows.ptr<float>() + rows.size());
    };
    trained.run(sequences);
    ModelOptions served = trained.model->options();
    served.packing = Packing::kAlways;
    const auto serving = LoadedModel::load(served, best_backend().make(1)).value();
    std::vector<float> expected;
    ScoreSinks sinks;
    sinks.logits = [&](std::int64_t, std::span<const float> rows) {
      expected.insert(expected.end(), rows.begin(), rows.end());
    };
    for (const auto& ids : sequences) {
      ASSERT_TRUE(score(*serving, ids, {.chunk = 37}, sinks).ok());
      // The last token of a sequence predicts nothing.
      expected.resize(expected.size() - static_cast<std::size_t>(serving->config().vocab_size));
    }
    EXPECT_TRUE(same_bits(logits, expected));
  }
}

TEST(Training, what_cannot_be_trained_is_refused) {
  DecoratedBackend taped(best_backend().make(1));
  TapeOps& tape = TapeOps::decorate(taped);
  const auto fp8 = LoadedModel::load({.dir = kGoldens + "fp8_block", .packing = Packing::kNever},
                                     std::move(taped));
  const Result<Parameters> parameters = Parameters::make(fp8.value()->weights(), tape);
  ASSERT_FALSE(parameters.ok());
  EXPECT_NE(parameters.error().message.find("gradients need a checkpoint in bf16 or f32"),
            std::string::npos)
      << parameters.error().message;

  Trained trained(kGoldens + "odd", DType::kF32, best_backend().make(1));
  const auto message = [&](const TokenSequences& ids, float mtp_weight) {
    return trained.pass->run(ids, {.mtp_weight = mtp_weight}, 100).error().message;
  };
  EXPECT_NE(message({{1, 2}, {3, 100000}}, 0).find("sequence 2: a sequence holds token 100000"),
            std::string::npos);
  EXPECT_NE(message({{1}, {2}}, 0).find("nothing to predict"), std::string::npos);
  EXPECT_NE(message({{1, 2}}, 1).find("nothing for the MTP layer"), std::string::npos);
  const auto refusal = [&](TrainSequence sequence) {
    return trained.pass->add(std::span(&sequence, 1), {}, 100).error().message;
  };
  EXPECT_NE(refusal({.ids = {1, 2}, .weights = {1}}).find("1 weights for 2 tokens"),
            std::string::npos);
  EXPECT_NE(refusal({.ids = {1, 2}, .routes = {1}}).find("numbers of experts"), std::string::npos);
}

TEST(Training, a_batch_takes_the_memory_that_was_planned) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    SCOPED_TRACE(name_of(dtype));
    Trained trained(small_checkpoint(), dtype, best_backend().make(1));
    const TokenSequences sequences = sharing_rows();
    const std::unique_ptr<PassTrial> trial = PassTrial::make(*trained.model, *trained.tape).value();
    const PassMemory planned =
        trial
            ->run(batch_shape(plain(sequences), {.drafts = true, .learns = true, .shares = true}),
                  false)
            .value();
    trained.run(sequences, {.mtp_weight = 0.5f});
    const PassMemory used = trained.pass->used_memory();
    for (const auto& [part, most] :
         {std::pair(&PassMemory::pass, 1.01), std::pair(&PassMemory::saved, 1.01),
          std::pair(&PassMemory::scratch, 1.01), std::pair(&PassMemory::gradients, 1.5)}) {
      EXPECT_LE(used.*part, planned.*part);
      EXPECT_LE(static_cast<double>(planned.*part), most * static_cast<double>(used.*part));
    }
  }
}

// The draft layer computes what sequences share once for each.
TEST(Training, a_batch_with_drafts_takes_no_more_memory_than_one_of_so_many_tokens) {
  Trained trained(small_checkpoint(), DType::kF32, best_backend().make(1));
  const TokenSequences sequences = sharing_rows();
  const std::unique_ptr<PassTrial> trial = PassTrial::make(*trained.model, *trained.tape).value();
  const PassMemory planned = trial->run(shape_of(300, 9, 150, true), false).value();
  trained.run(sequences, {.mtp_weight = 0.5f}, 300);
  EXPECT_LE(trained.pass->used_memory().total(), planned.total());
  EXPECT_EQ(trained.pass->num_batches(plain(sequences), 300, true), 4);
}

TEST(Training, batches_that_memory_does_not_hold_are_refused_before_they_run) {
  Trained trained(small_checkpoint(), DType::kF32, best_backend().make(1));
  const std::string why = trained.pass->reserve(shape_of(8'000'000, 1, 60, false)).error().message;
  EXPECT_TRUE(why.starts_with("batches of 8,000,000 tokens in sequences of up to 60 need ")) << why;
  EXPECT_TRUE(why.ends_with("are free; a smaller --batch-tokens and shorter sequences need less"))
      << why;
  EXPECT_TRUE(trained.pass->reserve(shape_of(700, 1, 60, true)).ok());  // others are not
}

}  // namespace
}  // namespace glint
