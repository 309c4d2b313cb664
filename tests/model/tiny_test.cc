// The bundled model against models/record: what Hugging Face transformers says of it.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <sstream>

#include "base/contains.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "base/test_dir.h"
#include "model/backends_under_test.h"
#include "runtime/generator.h"
#include "runtime/score.h"

namespace glint {
namespace {

const std::string kModel = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");
const std::string kRecord = str(GLINT_SOURCE_DIR, "/models/record");

ModelOptions f32_options() {
  return {.dir = kModel, .numbers = formats_in(DType::kF32), .with_mtp = true};
}

std::unique_ptr<LoadedModel> load(const ModelOptions& options, int threads = 2) {
  auto model = LoadedModel::load(options, best_backend().make(threads));
  EXPECT_TRUE(model.ok()) << model.error().message;
  return std::move(model).value();
}

std::vector<std::vector<TokenId>> read_rows(const std::string& file, std::size_t at_most = 1000) {
  const std::string text = read_file(kRecord + "/" + file).value();
  std::vector<std::vector<TokenId>> rows;
  for (const std::string_view line : split(text, '\n')) {
    std::istringstream in{std::string(line)};
    std::vector<TokenId> ids;
    for (TokenId id; in >> id;) ids.push_back(id);
    if (!ids.empty() && rows.size() < at_most) rows.push_back(ids);
  }
  return rows;
}

Score score_rows(const ModelOptions& options, const std::vector<std::vector<TokenId>>& rows,
                 bool mtp) {
  const std::unique_ptr<LoadedModel> model = load(options);
  Score total;
  for (const std::vector<TokenId>& ids : rows) total.add(score(*model, ids, {.mtp = mtp}).value());
  return total;
}

double record(const char* file, const char* field) {
  static const Json reference = parse_json(read_file(kRecord + "/reference.json").value()).value();
  return reference.find(file)->find(field)->as_double();
}

TEST(Tiny, fp32_perplexity_and_mtp_equal_the_record) {
  const Score score = score_rows(f32_options(), read_rows("heldout.ids.txt"), true);
  const double expected = record("heldout.ids.txt", "perplexity_fp32");
  EXPECT_NEAR(score.model.perplexity(), expected, 1e-4 * expected);
  EXPECT_NEAR(score.mtp.top1_share(), record("heldout.ids.txt", "mtp_top1_fp32"), 0.002);
}

TEST(Tiny, fp32_perplexity_of_long_sparse_rows_equals_the_record) {
  const Score score = score_rows(f32_options(), read_rows("heldout-4k.ids.txt"), false);
  const double expected = record("heldout-4k.ids.txt", "perplexity_fp32");
  EXPECT_NEAR(score.model.perplexity(), expected, 1e-4 * expected);
}

struct Greedy {
  std::vector<TokenId> prompt, output;
};

std::vector<Greedy> recorded_greedy() {
  const Json entries = parse_json(read_file(kRecord + "/greedy.json").value()).value();
  std::vector<Greedy> list;
  for (const Json& entry : entries.as_array()) {
    Greedy greedy;
    for (const Json& id : entry.find("prompt_ids")->as_array())
      greedy.prompt.push_back(static_cast<TokenId>(id.as_int()));
    for (const Json& id : entry.find("output_ids")->as_array())
      greedy.output.push_back(static_cast<TokenId>(id.as_int()));
    list.push_back(greedy);
  }
  return list;
}

struct Answered {
  std::vector<TokenId> answer;
  GenerateStats stats;
};

Answered answer(LoadedModel& model, std::vector<TokenId> tokens, const GenerateOptions& options) {
  EXPECT_TRUE(model
                  .reserve_pages(static_cast<int>(
                      pages_of(std::ssize(tokens) + options.max_tokens + options.num_drafts)))
                  .ok());
  int cached = 0;
  Answered run;
  const auto keep = [&](TokenId token, float) {
    run.answer.push_back(token);
    return true;
  };
  run.stats = generate(model, tokens, &cached, options, keep).value();
  return run;
}

// The record shows the stop token that ended a continuation; an answer never holds it.
std::vector<TokenId> without_stop(std::vector<TokenId> ids, const std::vector<TokenId>& stops) {
  if (!ids.empty() && contains(stops, ids.back())) ids.pop_back();
  return ids;
}

TEST(Tiny, an_answer_ends_at_the_last_position_with_and_without_mtp) {
  const TestDir dir;  // of fewer positions
  Json config = read_json_file(kModel + "/config.json").value();
  config.set("max_position_embeddings", 512);
  dir.write("config.json", dump_json(config));
  std::filesystem::create_symlink(std::filesystem::absolute(kModel + "/model.safetensors"),
                                  dir / "model.safetensors");
  const std::unique_ptr<LoadedModel> model = load({.dir = dir.path(), .with_mtp = true});
  std::vector<TokenId> prompt = read_rows("heldout.ids.txt", 1)[0];
  prompt.resize(static_cast<std::size_t>(model->config().max_position_embeddings) - 6);
  const Answered plain = answer(*model, prompt, {.max_tokens = 50, .sampling = {.temperature = 0}});
  EXPECT_EQ(plain.answer.size(), 6u);
  EXPECT_EQ(plain.stats.reason, FinishReason::kLength);
  for (const int drafts : {1, 5}) {
    const Answered drafted = answer(
        *model, prompt, {.max_tokens = 50, .sampling = {.temperature = 0}, .num_drafts = drafts});
    EXPECT_EQ(drafted.answer, plain.answer) << drafts << " drafts";
  }
}

TEST(Tiny, a_prompt_can_be_ended_between_its_steps) {
  const std::unique_ptr<LoadedModel> model = load({.dir = kModel});
  const std::vector<TokenId> prompt = read_rows("heldout.ids.txt", 1)[0];
  GenerateOptions options = {.max_tokens = 8, .sampling = {.temperature = 0}, .chunk = 100};
  const Answered whole = answer(*model, prompt, options);
  int asked = 0, cached = 0;
  options.goes_on = [&] { return ++asked < 2; };
  std::vector<TokenId> tokens = prompt;
  const auto nothing = [](TokenId, float) { return ADD_FAILURE() << "a token", true; };
  const GenerateStats stats = generate(*model, tokens, &cached, options, nothing).value();
  EXPECT_EQ(stats.reason, FinishReason::kCancelled);
  EXPECT_EQ(stats.prompt_tokens, 200);
  EXPECT_EQ(cached, 200);
  EXPECT_EQ(tokens, prompt);
  // It goes on from there.
  std::vector<TokenId> rest;
  const auto keep = [&](TokenId token, float) { return rest.push_back(token), true; };
  options.goes_on = {};
  ASSERT_TRUE(generate(*model, tokens, &cached, options, keep).ok());
  EXPECT_EQ(rest, whole.answer);
}

TEST(Tiny, greedy_continuations_are_the_record_token_for_token_with_and_without_mtp) {
  const std::unique_ptr<LoadedModel> model = load(f32_options());
  const std::vector<TokenId> stops = stop_ids(model->config(), model->generation());
  int drafted = 0, accepted = 0;
  for (const Greedy& greedy : recorded_greedy()) {
    for (const int drafts : {0, 1, 3}) {
      const Answered run = answer(*model, greedy.prompt,
                                  {.max_tokens = static_cast<int>(greedy.output.size()),
                                   .sampling = {.temperature = 0},
                                   .stop_ids = stops,
                                   .num_drafts = drafts,
                                   .chunk = drafts ? 64 : 512});
      EXPECT_EQ(run.answer, without_stop(greedy.output, stops)) << drafts << " drafts";
      if (drafts == 1) drafted += run.stats.drafted, accepted += run.stats.accepted;
    }
  }
  // A trained draft layer guesses most tokens of these texts.
  EXPECT_GT(accepted, drafted / 2);
}

TEST(Tiny, what_is_said_depends_on_the_seed_and_not_on_threads_or_chunks) {
  const std::vector<TokenId> prompt = recorded_greedy()[2].prompt;
  const auto say = [&](int threads, int chunk, std::uint64_t seed) {
    const std::unique_ptr<LoadedModel> model = load({.dir = kModel}, threads);
    return answer(*model, prompt, {.max_tokens = 40, .sampling = {.seed = seed}, .chunk = chunk})
        .answer;
  };
  const std::vector<TokenId> first = say(1, 512, 5);
  EXPECT_EQ(say(2, 512, 5), first);
  EXPECT_EQ(say(3, 1, 5), first);
  EXPECT_NE(say(2, 512, 6), first);
}

TEST(Tiny, logits_do_not_depend_on_the_batch) {
  const std::unique_ptr<LoadedModel> model = load({.dir = kModel});
  const std::vector<std::vector<TokenId>> rows = read_rows("heldout.ids.txt", 4);
  constexpr int kLength = 400, kPages = (kLength + 63) / 64;
  const auto pages_of = [&](int i) {
    // Pages in descending order: their place in memory must not matter.
    std::vector<PageId> pages;
    for (int p = 0; p < kPages; ++p) pages.push_back((i + 1) * kPages - 1 - p);
    return pages;
  };
  ASSERT_TRUE(model->reserve_pages(kPages * static_cast<int>(rows.size())).ok());
  std::vector<std::vector<float>> alone;
  for (const std::vector<TokenId>& row : rows) {
    StepRows plan;
    plan.add(0, std::span(row).first(kLength), pages_of(0), 1);
    const StepOutput out = model->step(plan);
    alone.emplace_back(out.logits.begin(), out.logits.end());
  }
  // Together: the sequences reach their last token in steps of different sizes.
  const int cuts[] = {kLength - 1, 300, 64, 1};
  StepRows first, rest;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    first.add(0, std::span(rows[i]).first(cuts[i]), pages_of(static_cast<int>(i)), 0);
    rest.add(cuts[i], std::span(rows[i]).subspan(cuts[i], kLength - cuts[i]),
             pages_of(static_cast<int>(i)), 1);
  }
  model->step(first);
  const StepOutput out = model->step(rest);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(
        std::equal(alone[i].begin(), alone[i].end(), out.row(static_cast<std::int64_t>(i)).begin()))
        << "sequence " << i;
  }
}

TEST(Tiny, logits_are_the_same_with_weights_packed_and_where_the_file_is_mapped) {
  const std::vector<TokenId> row = read_rows("heldout.ids.txt", 1).front();
  std::vector<std::vector<float>> logits;
  for (const Packing packing : {Packing::kAlways, Packing::kNever}) {
    const std::unique_ptr<LoadedModel> model = load({.dir = kModel, .packing = packing});
    if (!model->ops().device().is_host()) GTEST_SKIP() << "a device has copies of its own";
    EXPECT_EQ(model->load_stats().placement.is_packed, packing == Packing::kAlways);
    EXPECT_GT(model->load_stats().placement.packed_bytes, 0);
    EXPECT_EQ(model->load_stats().files.size(), 1u);
    const auto num_pages = static_cast<int>(pages_of(std::ssize(row)));
    ASSERT_TRUE(model->reserve_pages(num_pages).ok());
    std::vector<PageId> pages(static_cast<std::size_t>(num_pages));
    std::iota(pages.begin(), pages.end(), 0);
    StepRows plan;
    plan.add(0, row, pages, 5);
    const StepOutput out = model->step(plan);
    logits.emplace_back(out.logits.begin(), out.logits.end());
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(Tiny, sampling_with_drafts_ends_and_counts) {
  const std::unique_ptr<LoadedModel> model = load({.dir = kModel, .with_mtp = true});
  const Answered run = answer(*model, recorded_greedy()[2].prompt,
                              {.max_tokens = 50, .sampling = {.seed = 1}, .num_drafts = 4});
  EXPECT_EQ(run.answer.size(), 50u);
  EXPECT_EQ(run.stats.completion_tokens, 50);
  EXPECT_EQ(run.stats.reason, FinishReason::kLength);
  EXPECT_GE(run.stats.drafted, run.stats.accepted);
}

}  // namespace
}  // namespace glint
