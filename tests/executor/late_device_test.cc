// The executor on a device that is not the host: its memory cannot be read in place, and every op
// and copy runs as late as it may. The bits are the host's.
#include "executor/harness.h"
#include "executor/toy_grammar.h"
#include "ops/testing/late_ops.h"
#include "runtime/bench_gaps.h"

namespace glint {
namespace {

std::unique_ptr<LoadedModel> load_host() { return load_model(kModelDir, host_backend().make(1)); }
std::unique_ptr<LoadedModel> load_late() {
  return load_model(kModelDir, std::make_unique<LateOps>(host_backend().make(1)));
}

TEST(LateDevice, gives_the_bits_of_the_host) {
  std::vector<Request> requests = mixed_requests(4, 40, 12);
  for (Request& request : requests) request.want.top_logprobs = 2;
  requests[0].want.routed_experts = true;
  requests[1].want.selected_keys = true;
  const auto late = load_late(), host = load_host();
  for (const HarnessOptions& options :
       {HarnessOptions{.num_pages = 20}, HarnessOptions{.num_pages = 20, .max_drafts = 3},
        HarnessOptions{.num_pages = 6, .max_drafts = 2, .max_step_tokens = 33, .depth = 2}}) {
    const auto found = Harness(*late, options).run(requests);
    expect_same(found, Harness(*host, options).run(requests));
    EXPECT_FALSE(found.at(2).extras.selected_keys.empty());
  }
}

// Requests that want tokens and log-probabilities are not waited for: the second step is launched
// while nothing of the first has run, with a token that the host does not know.
TEST(LateDevice, a_step_is_launched_while_the_one_before_it_runs) {
  const std::vector<Request> requests = mixed_requests(6, 40, 10);  // some read their answer
  const auto late = load_late(), host = load_host();
  auto& device = static_cast<LateDevice&>(late->ops().device());
  const HarnessOptions options = {.num_pages = 40, .depth = 3};
  expect_same(Harness(*late, options).run(requests), Harness(*host, options).run(requests));
  EXPECT_GT(late->num_graphs(), 0u);  // decode steps were recorded and repeated
  EXPECT_EQ(host->num_graphs(), 0u);

  ASSERT_TRUE(late->reserve_pages(1).ok());
  ModelExecutor executor(*late, {});
  EXPECT_EQ(executor.info().depth, 2);
  const Request wishes[] = {
      {},
      {.want = {.top_logprobs = 2, .prompt_logprobs = 1}},
      {.sampling = {.temperature = 0, .repetition_penalty = 1.8, .presence_penalty = 2}},
  };
  std::vector<RequestId> ended;
  for (const Request& wish : wishes) {
    Request request = wish;
    request.id = ended.empty() ? 1 : ended[0] + 1;
    request.prompt = prompt_of(0, 8);
    request.max_tokens = 4;
    const auto shared = std::make_shared<Request>(request);
    const std::vector<PageId> pages = {0};
    StepPlan first = {.step = 1, .started = {shared}, .ended = ended}, second = {.step = 2};
    first.add({.id = request.id, .sample = true, .max_new = 1, .seat = 300}, *request.prompt,
              pages);
    second.add({.id = request.id, .first = 8, .sample = true, .max_new = 1, .seat = 300},
               std::vector<TokenId>{kPendingToken}, pages);
    device.synchronize();
    executor.launch(std::make_shared<const StepPlan>(first));
    const std::size_t of_one = device.num_queued();
    EXPECT_GT(of_one, 0u);
    executor.launch(std::make_shared<const StepPlan>(second));
    EXPECT_GT(device.num_queued(), of_one);  // nothing has run in between
    const Outcome expected = Harness(*host, {.num_pages = 1}).run({request}).at(request.id);
    for (std::size_t step = 0; step < 2; ++step) {
      const StepResult result = executor.collect().value();
      const StepResult::Sampled& sampled = result.sampled[0];
      EXPECT_EQ(sampled.tokens, std::vector<TokenId>{expected.tokens[step]});
      ASSERT_EQ(sampled.logprobs.size(), request.want.top_logprobs < 0 ? 0u : 1u);
      if (sampled.logprobs.empty()) continue;
      EXPECT_EQ(sampled.logprobs[0].logprob, expected.logprobs[step].logprob);
      EXPECT_EQ(sampled.logprobs[0].top[1].id, expected.logprobs[step].top[1].id);
      EXPECT_EQ(sampled.extras.prompt_logprobs.size(), step == 0 ? 7u : 0u);
    }
    ended = {request.id};
  }
}

// Where the host must know a request's tokens to say what comes next, the forward pass does not
// wait for it: it is there, behind the step that the host waits for.
TEST(LateDevice, a_pass_is_launched_before_the_answer_is_read) {
  const auto late = load_late(), host = load_host();
  auto& device = static_cast<LateDevice&>(late->ops().device());
  const auto requests = [] {
    std::vector<Request> made = mixed_requests(6, 40, 10);
    for (Request& request : made) request.sampling.bad_words = {{13}, {264, 11}};
    const auto slow = std::make_shared<ToyGrammar>(8, 7);  // masks of its that are late
    slow->work_ = [](int position) { return position % 4 == 1 ? kMaxMaskWork : 1; };
    slow->slowly_ = true;
    made[0].constraint = slow;
    made[3].constraint = std::make_shared<ToyGrammar>(12, 7);  // with penalties, to its limit
    made[4].constraint = std::make_shared<ToyGrammar>(4, 7);
    made[4].stop_ids = {7};
    return made;
  };
  const HarnessOptions options = {.num_pages = 40, .depth = 2};
  const auto expected = Harness(*host, {.num_pages = 40}).run(requests());
  Harness harness(*late, options);
  for (const Request& request : requests()) harness.submit(request);
  std::size_t passes = 0;
  while (harness.step()) passes += device.num_behind_wait() > 0;
  EXPECT_GT(passes, 4u);
  for (const auto& [id, outcome] : expected) {
    EXPECT_EQ(harness.outcome(id).tokens, outcome.tokens) << "request " << id;
    EXPECT_EQ(harness.outcome(id).finished, outcome.finished) << "request " << id;
  }
}

// A step with drafts follows one with drafts before the host knows how many of those were right,
// and so where it begins.
TEST(LateDevice, a_step_with_drafts_is_launched_while_the_one_before_it_runs) {
  const auto late = load_late(), host = load_host();
  auto& device = static_cast<LateDevice&>(late->ops().device());
  const Request wishes[] = {
      {.sampling = {.temperature = 0}},
      {.sampling = {.temperature = 0.9, .seed = 7}, .want = {.top_logprobs = 2}},
      {.sampling = {.temperature = 0, .repetition_penalty = 1.1}, .want = {.routed_experts = true}},
  };
  constexpr int kDrafts = 2, kSteps = 5, kPrompt = 40;
  ASSERT_TRUE(late->reserve_pages(2).ok());
  ModelExecutor executor(*late, {.max_drafts = kDrafts});
  std::vector<RequestId> ended;
  int accepted = 0;
  for (const Request& wish : wishes) {
    Request request = wish;
    request.id = ended.empty() ? 1 : ended[0] + 1;
    request.prompt = prompt_of(static_cast<int>(request.id), kPrompt);
    request.max_tokens = 1 + kSteps * (1 + kDrafts);
    const Outcome expected = Harness(*host, {.num_pages = 2}).run({request}).at(request.id);
    StepPlan first = {.step = 1, .started = {std::make_shared<Request>(request)}, .ended = ended};
    const std::vector<PageId> pages = {1, 0};
    first.add({.id = request.id, .sample = true, .max_new = 1, .seat = 3}, *request.prompt, pages);
    device.synchronize();
    executor.launch(std::make_shared<const StepPlan>(first));
    Outcome got;
    const auto collect = [&] {
      StepResult::Sampled sampled = std::move(executor.collect().value().sampled[0]);
      got.tokens.insert(got.tokens.end(), sampled.tokens.begin(), sampled.tokens.end());
      for (const TokenLogprob& one : sampled.logprobs) got.logprobs.push_back(one);
      const std::vector<std::uint16_t>& routed = sampled.extras.routed_experts;
      got.extras.routed_experts.insert(got.extras.routed_experts.end(), routed.begin(),
                                       routed.end());
      accepted += sampled.drafted > 0 ? static_cast<int>(sampled.tokens.size()) - 1 : 0;
    };
    for (int step = 0; step < kSteps; ++step) {
      // As if all drafts of the steps before were right.
      StepPlan next = {.step = static_cast<std::uint64_t>(step + 2)};
      next.add({.id = request.id,
                .first = kPrompt + step * (1 + kDrafts),
                .num_drafts = kDrafts,
                .sample = true,
                .max_new = 1 + kDrafts,
                .seat = 3},
               std::vector<TokenId>(1 + kDrafts, kPendingToken), pages);
      const std::size_t before = device.num_queued();
      EXPECT_GT(before, 0u);
      executor.launch(std::make_shared<const StepPlan>(next));
      EXPECT_GT(device.num_queued(), before);  // nothing has run in between
      collect();
    }
    collect();
    ASSERT_GE(got.tokens.size(), std::size_t{kSteps + 1});
    for (std::size_t i = 0; i < got.tokens.size(); ++i) {
      EXPECT_EQ(got.tokens[i], expected.tokens[i]) << "request " << request.id << ", token " << i;
    }
    for (std::size_t i = 0; i < got.logprobs.size(); ++i) {
      EXPECT_EQ(got.logprobs[i].logprob, expected.logprobs[i].logprob) << i;
    }
    EXPECT_EQ(got.logprobs.size(), request.want.top_logprobs < 0 ? 0u : got.tokens.size());
    const std::vector<std::uint16_t>& all = expected.extras.routed_experts;
    ASSERT_LE(got.extras.routed_experts.size(), all.size());
    EXPECT_TRUE(std::equal(got.extras.routed_experts.begin(), got.extras.routed_experts.end(),
                           all.begin()));
    ended = {request.id};
  }
  EXPECT_GT(accepted, 3);
  EXPECT_LT(accepted, 3 * kSteps * kDrafts);
}

// Texts with drafts are those without, whoever waits: for a grammar or min_tokens, for pages, after
// failures.
TEST(LateDevice, drafts_change_no_text) {
  const auto late = load_late(), host = load_host();
  const auto requests = [] {
    std::vector<Request> made = mixed_requests(6, 50, 16);
    made[1].constraint = std::make_shared<ToyGrammar>(12, 7);
    made[1].stop_ids = {7};
    const auto slow = std::make_shared<ToyGrammar>(20, 7);  // masks of its that are late
    slow->work_ = [](int position) { return position % 8 == 1 ? kMaxMaskWork : 1; };
    slow->slowly_ = true;
    made[2].constraint = slow;
    made[3].min_tokens = 9;
    made[3].stop_ids = {13, 11, 264, 29};
    made[0].stop_ids = {13, 11};
    made[5].want.routed_experts = true;
    return made;
  };
  const auto expected = Harness(*host, {}).run(requests());
  for (const HarnessOptions& options :
       {HarnessOptions{.max_drafts = 3, .depth = 2},
        HarnessOptions{.num_pages = 5, .max_drafts = 2, .max_step_tokens = 120, .depth = 3}}) {
    Harness harness(*late, options);
    std::vector<Request> all = requests();
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].priority = i < 3;  // those that come later take their pages, if there are few
      for (int step = 0; i == 3 && step < 5; ++step) harness.step();
      harness.submit(all[i]);
    }
    expect_same(harness.run({}), expected);
    int preemptions = 0, accepted = 0;
    for (const auto& [id, outcome] : expected) {
      preemptions += harness.outcome(id).usage.preemptions;
      accepted += harness.outcome(id).usage.accepted;
    }
    EXPECT_EQ(preemptions > 0, options.num_pages == 5);
    EXPECT_GT(accepted, 5);
  }
  Harness harness(*late, {.max_drafts = 2});
  for (const Request& request : requests()) harness.submit(request);
  for (int step = 1; harness.step(); ++step) {
    if (step % 3) continue;
    ASSERT_TRUE(harness.executor().recover().ok());
  }
  for (const auto& [id, outcome] : expected) {
    EXPECT_EQ(harness.outcome(id).tokens, outcome.tokens) << "request " << id;
  }
}

// Steps repeat graphs, and tell their gaps, whether the host reads answers or not.
TEST(LateDevice, gaps_are_those_of_graphs) {
  const auto late = load_late();
  for (const bool reads : {false, true}) {
    const auto result =
        bench_gaps(*late, {.running = 2, .steps = 5, .prompt_len = 8, .reads_answers = reads});
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_GT(result.value().count, 1u);
  }
}

// Graphs that are recorded before the first step are all that there will be, and change no bit.
TEST(LateDevice, a_graph_is_of_all_the_tables_that_it_reads) {
  const auto late = load_late();
  Device& device = late->ops().device();
  ASSERT_TRUE(late->reserve_pages(1).ok());
  SeatTable seats(device, seat_sizes(late->config(), DType::kBF16, 0));
  seats.reserve(1);
  StepOptions options = {.seats = seats.tensors(), .graphs = true};
  options.seats.rejected = {};
  const auto set = [&](const Tensor& table, std::int32_t value) {
    device.copy_in(table.data, &value, sizeof value);
  };
  set(options.seats.last, 5);
  set(options.seats.lengths, 3);
  StepRows rows;
  rows.add(8, std::vector<TokenId>{kPendingToken}, std::vector<PageId>{0}, 1);
  rows.slices[0].seat = 0;
  rows.slices[0].from_length = -1;
  const auto logits = [&] {
    const StepOutput out = late->step(rows, options);
    return std::vector<float>(out.logits.begin(), out.logits.end());
  };
  for (int time = 0; time < 3; ++time) logits();
  EXPECT_EQ(late->num_graphs(), 1u);
  const Buffer other = device.allocate(4);
  options.seats.lengths = Tensor(other.data(), DType::kI32, {1});
  set(options.seats.lengths, 7);
  const std::vector<float> found = logits();
  options.graphs = false;
  EXPECT_EQ(found, logits());
}

TEST(LateDevice, graphs_are_recorded_at_start) {
  const auto late = load_late(), host = load_host();
  const std::vector<Request> requests = {{.id = 1, .prompt = prompt_of(0, 70), .max_tokens = 6},
                                         {.id = 2, .prompt = prompt_of(1, 300), .max_tokens = 6},
                                         {.id = 3, .prompt = prompt_of(2, 9), .max_tokens = 3}};
  const HarnessOptions options = {.num_pages = 20, .depth = 2};
  const auto expected = Harness(*host, options).run(requests);
  Harness harness(*late, options);
  late->use_graphs({.rows = {1, 4}});
  const GraphStats recorded = harness.executor().record_graphs(20 * kPageSize);
  EXPECT_EQ(recorded.count, 2u * 3u);  // up to 4, 16 and 20 pages
  expect_same(harness.run(requests), expected);
  EXPECT_EQ(late->num_graphs(), recorded.count);

  // With drafts: one row a sequence, or all that there may be.
  const HarnessOptions drafting = {.num_pages = 20, .max_drafts = 2, .depth = 2};
  Harness drafted(*late, drafting);
  late->use_graphs({.rows = {1, 4}});
  const GraphStats both = drafted.executor().record_graphs(20 * kPageSize);
  EXPECT_EQ(both.count, 2u * 2u * 3u);
  expect_same(drafted.run(requests), expected);
  EXPECT_EQ(late->num_graphs(), both.count);
  std::vector<std::size_t> counts;
  for (const GraphSizes& sizes : {GraphSizes{.rows = {1, 4}, .most = 1}, GraphSizes{.rows = {1, 4}},
                                  GraphSizes{.rows = {1, 4, 16}, .most = 1}}) {
    late->use_graphs(sizes);
    expect_same(Harness(*late, drafting).run(requests), expected);
    counts.push_back(late->num_graphs());
  }
  EXPECT_GT(counts[1], counts[0]);  // steps with drafts were recorded
  EXPECT_GT(counts[2], counts[0]);  // also as if they were of more sequences

  Harness eager(*late, options);
  late->use_graphs({});
  expect_same(eager.run(requests), expected);
  EXPECT_EQ(late->num_graphs(), 0u);
}

}  // namespace
}  // namespace glint
