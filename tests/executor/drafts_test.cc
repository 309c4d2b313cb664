// Drafts: what the MTP layer's caches hold, that guesses are the layer's, and where answers end.
#include <filesystem>

#include "base/file.h"
#include "base/test_dir.h"
#include "executor/harness.h"
#include "ops/logit_rows.h"
#include "runtime/score.h"

namespace glint {
namespace {

constexpr int kPrompt = 90, kAnswer = 40;

Request greedy_request(RequestId id) {
  return {.id = id,
          .prompt = prompt_of(static_cast<int>(id), kPrompt),
          .sampling = {.temperature = 0},
          .max_tokens = kAnswer};
}

// The rows of positions [0, count) in every cache, of the sequence that has `pages`.
std::vector<std::vector<std::byte>> cache_rows(LoadedModel& model, std::span<const PageId> pages,
                                               int count) {
  std::vector<std::vector<std::byte>> rows;
  const auto read = [&](const std::byte* on_device, std::int64_t bytes) {
    std::vector<std::byte> row(static_cast<std::size_t>(bytes));
    model.ops().device().copy_out(row.data(), on_device, row.size());
    rows.push_back(std::move(row));
  };
  for (int layer = 0; layer < model.config().num_layers_with_mtp(); ++layer) {
    const LayerCache& cache = model.kv().layer(layer);
    for (int p = 0; p < count; ++p) {
      const std::int64_t slot = pages[p / kPageSize] * kPageSize + p % kPageSize;
      read(cache.latent.row(slot), cache.latent.row_bytes());
      if (!cache.index) continue;
      read(cache.index.key(slot), cache.index.dim);
      read(cache.index.scale(slot), 4);
    }
  }
  return rows;
}

std::vector<PageId> pages_of_last_slice(const StepPlan& plan) {
  const SeqSlice& slice = plan.slices.back();
  const auto begin = plan.pages.begin() + slice.page_begin;
  return {begin, begin + slice.num_pages};
}

TEST(Drafts, caches_are_those_of_one_pass_over_the_verified_tokens) {
  LoadedModel& model = tiny();
  for (const int drafts : {1, 3}) {
    const Request request = greedy_request(3);
    Scheduler scheduler(
        {.max_step_tokens = 33, .max_seq_len = 4096, .max_drafts = drafts, .adapt_drafts = false},
        {.num_pages = 16, .match_next_token = true});
    ASSERT_TRUE(model.reserve_pages(16).ok());
    ModelExecutor executor(model, {.max_drafts = drafts});
    ASSERT_TRUE(scheduler.add(request).ok());
    std::vector<TokenId> tokens = request.prompt;
    std::vector<PageId> pages;
    while (!scheduler.idle()) {
      const StepPlan plan = scheduler.schedule(1 << 20);
      if (!plan.slices.empty()) pages = pages_of_last_slice(plan);
      for (const TokenEvent& event : scheduler.commit(plan, execute(executor, plan).value())) {
        tokens.insert(tokens.end(), event.tokens.begin(), event.tokens.end());
      }
    }
    ASSERT_EQ(tokens.size(), std::size_t{kPrompt + kAnswer});
    const int computed = static_cast<int>(tokens.size()) - 1;
    const auto stepwise = cache_rows(model, pages, computed);
    // One pass of the model and of the layer over all of it.
    ASSERT_TRUE(score(model, tokens, {.chunk = 1000, .mtp = true}).ok());
    std::vector<PageId> in_order;
    for (int i = 0; i < 16; ++i) in_order.push_back(i);
    EXPECT_EQ(stepwise, cache_rows(model, in_order, computed)) << drafts << " drafts";
  }
}

TEST(Drafts, first_guesses_are_what_the_layer_says_of_the_text) {
  const Request request = greedy_request(5);
  const Outcome one = run_all({request}, {.max_drafts = 1}).at(5);
  const std::vector<TokenId> tokens = whole(request, one);
  std::vector<TokenId> guesses;  // of the layer's row p: token p + 2
  ScoreSinks sinks;
  const std::size_t vocab = static_cast<std::size_t>(tiny().config().vocab_size);
  sinks.mtp = [&](std::int64_t, std::span<const float> logits) {
    for (std::size_t r = 0; r < logits.size() / vocab; ++r) {
      guesses.push_back(argmax(logits.subspan(r * vocab, vocab)));
    }
  };
  ASSERT_TRUE(score(tiny(), tokens, {.mtp = true}, sinks).ok());
  int drafted = 0, accepted = 0;
  std::size_t known = kPrompt + 1;
  while (known < tokens.size()) {
    if (known + 1 == tokens.size()) break;  // one token is left: nothing to guess
    const bool right = guesses[known - 2] == tokens[known];
    ++drafted;
    accepted += right;
    known += right ? 2 : 1;
  }
  EXPECT_EQ(one.usage.drafted, drafted);
  EXPECT_EQ(one.usage.accepted, accepted);
}

// The layer's guesses after `tokens`, step by step on empty caches.
std::vector<TokenId> guesses_by_hand(LoadedModel& model, std::span<const TokenId> tokens,
                                     int count) {
  const int last = static_cast<int>(tokens.size()) - 1;
  std::vector<PageId> pages;
  for (int i = 0; i <= (last + count) / kPageSize; ++i) pages.push_back(i);
  EXPECT_TRUE(model.reserve_pages(static_cast<int>(pages.size())).ok());
  StepRows text, next;
  text.add(0, tokens.first(last), pages, 0);
  next.add(0, tokens.subspan(1), pages, 1);
  StepOutput out = model.draft(next, {.on_device = model.step(text).hidden});
  std::vector<std::int32_t> keys;
  if (model.config().index_share_for_mtp_iteration) {
    keys.resize(static_cast<std::size_t>(model.config().index_topk));
    model.read_row(out.selected, 0, std::as_writable_bytes(std::span(keys)));
  }
  std::vector<TokenId> guesses = {argmax(out.logits)};
  std::vector<std::byte> hidden(model.hidden_row_bytes());
  for (int i = 1; i < count; ++i) {
    model.read_row(out.hidden, 0, hidden);
    StepRows plan;
    plan.add(last - 1 + i, std::span(&guesses.back(), 1), pages, 1);
    out = model.draft(plan, {.on_host = hidden}, keys);
    guesses.push_back(argmax(out.logits));
  }
  return guesses;
}

// That drafted and accepted are what guessing by hand gives along the answer.
void expect_guesses_by_hand(LoadedModel& model, const Request& request, const Outcome& outcome,
                            int max_drafts) {
  const std::vector<TokenId> tokens = whole(request, outcome);
  int drafted = 0, accepted = 0;
  std::size_t known = request.prompt.size() + 1;
  while (known < tokens.size()) {
    const int count = std::min(max_drafts, static_cast<int>(tokens.size() - known) - 1);
    const std::vector<TokenId> guesses =
        count > 0 ? guesses_by_hand(model, std::span(tokens).first(known), count)
                  : std::vector<TokenId>();
    std::size_t right = 0;
    while (right < guesses.size() && guesses[right] == tokens[known + right]) ++right;
    drafted += static_cast<int>(guesses.size());
    accepted += static_cast<int>(right);
    known += right + 1;
  }
  EXPECT_EQ(outcome.usage.drafted, drafted);
  EXPECT_EQ(outcome.usage.accepted, accepted);
}

TEST(Drafts, later_guesses_go_on_from_the_layers_own_hidden_states) {
  for (const RequestId id : {4, 8}) {
    Request request = greedy_request(id);
    request.sampling.temperature = 1.2;  // texts whose next token is less clear
    if (kSanitized) request.max_tokens = 12;
    const Outcome outcome = run_all({request}, {.max_drafts = 3}).at(id);
    expect_guesses_by_hand(tiny(), request, outcome, 3);
  }
}

// A model whose later drafts reuse the first one's keys.
TEST(Drafts, shared_keys_leave_answers_alone_and_do_not_depend_on_the_batch) {
  const TestDir dir;
  std::filesystem::copy_file(kModelDir + "/model.safetensors", dir / "model.safetensors");
  std::string config = read_file(kModelDir + "/config.json").value();
  config.insert(config.find('{') + 1, "\"index_share_for_mtp_iteration\": true,");
  dir.write("config.json", config);
  const std::unique_ptr<LoadedModel> model = load_model(dir.path());
  ASSERT_TRUE(model->config().index_share_for_mtp_iteration);

  std::vector<Request> requests;
  for (RequestId id = 1; id <= 5; ++id) requests.push_back(greedy_request(id));
  const auto plain = run_all(requests);
  const auto together = Harness(*model, {.max_drafts = 3}).run(requests);
  int accepted = 0;
  for (const Request& request : requests) {
    const Outcome& outcome = together.at(request.id);
    const Outcome alone = Harness(*model, {.max_drafts = 3}).run({request}).at(request.id);
    EXPECT_EQ(outcome.tokens, plain.at(request.id).tokens);
    EXPECT_EQ(outcome.usage.drafted, alone.usage.drafted);
    EXPECT_EQ(outcome.usage.accepted, alone.usage.accepted);
    accepted += outcome.usage.accepted;
  }
  EXPECT_GT(accepted, 40);
  if (!kSanitized) expect_guesses_by_hand(*model, requests[2], together.at(3), 3);
}

TEST(Drafts, a_stop_id_inside_the_accepted_run_ends_the_answer_there) {
  for (RequestId id = 1; id <= 2; ++id) {
    Request request = greedy_request(id);
    const std::vector<TokenId> full = run_all({request}).at(id).tokens;
    for (const int at : {3, 10, 21}) {
      request.stop_ids = {full[at]};
      const auto first = std::find(full.begin(), full.end(), full[at]);
      const Outcome stopped = run_all({request}, {.max_drafts = 3}).at(id);
      EXPECT_EQ(stopped.tokens, std::vector<TokenId>(full.begin(), first + 1));
      EXPECT_EQ(stopped.finished, FinishReason::kStop);
    }
  }
}

TEST(Drafts, no_stop_id_comes_before_min_tokens) {
  for (RequestId id = 1; id <= 2; ++id) {
    Request request = greedy_request(id);
    const std::vector<TokenId> full = run_all({request}).at(id).tokens;
    request.stop_ids = {full[2], full[5]};
    request.min_tokens = 15;
    const Outcome plain = run_all({request}).at(id);
    const Outcome drafted = run_all({request}, {.max_drafts = 3}).at(id);
    EXPECT_EQ(plain.tokens, drafted.tokens);
    for (int i = 0; i < 15; ++i) {
      EXPECT_TRUE(plain.tokens[i] != full[2] && plain.tokens[i] != full[5]) << i;
    }
  }
}

TEST(Drafts, answers_have_their_length_to_the_token) {
  for (const int length : {1, 2, 3, 4, 5, 17}) {
    Request request = greedy_request(2);
    request.max_tokens = length;
    const Outcome outcome = run_all({request}, {.max_drafts = 3}).at(2);
    EXPECT_EQ(static_cast<int>(outcome.tokens.size()), length);
    EXPECT_EQ(outcome.finished, FinishReason::kLength);
  }
}

}  // namespace
}  // namespace glint
