// The executor on a device that is not the host: its memory cannot be read in place, and every op
// and copy runs as late as it may. The bits are the host's.
#include "executor/harness.h"
#include "executor/toy_grammar.h"
#include "ops/testing/late_ops.h"
#include "runtime/bench_gaps.h"

namespace glint {
namespace {

std::unique_ptr<LoadedModel> load_on(std::unique_ptr<Ops> ops) {
  auto model = LoadedModel::load({.dir = kModelDir, .with_mtp = true}, std::move(ops));
  EXPECT_TRUE(model.ok()) << model.error().message;
  return std::move(model).value();
}

void expect_same(const std::map<RequestId, Outcome>& late,
                 const std::map<RequestId, Outcome>& host) {
  for (const auto& [id, expected] : host) {
    const Outcome& found = late.at(id);
    EXPECT_EQ(found.tokens, expected.tokens) << "request " << id;
    EXPECT_EQ(found.finished, expected.finished) << "request " << id;
    ASSERT_EQ(found.logprobs.size(), expected.logprobs.size()) << "request " << id;
    for (std::size_t i = 0; i < expected.logprobs.size(); ++i) {
      EXPECT_EQ(found.logprobs[i].logprob, expected.logprobs[i].logprob) << id << ", token " << i;
    }
    EXPECT_EQ(found.extras.routed_experts, expected.extras.routed_experts) << "request " << id;
    EXPECT_EQ(found.extras.selected_keys, expected.extras.selected_keys) << "request " << id;
  }
}

TEST(LateDevice, gives_the_bits_of_the_host) {
  std::vector<Request> requests = mixed_requests(4, 40, 12);
  for (Request& request : requests) request.want.top_logprobs = 2;
  requests[0].want.routed_experts = true;
  requests[1].want.selected_keys = true;
  const auto late = load_on(std::make_unique<LateOps>(host_backend().make(2)));
  const auto host = load_on(host_backend().make(2));
  for (const HarnessOptions& options :
       {HarnessOptions{.num_pages = 20}, HarnessOptions{.num_pages = 20, .max_drafts = 3},
        HarnessOptions{.num_pages = 6, .max_drafts = 2, .max_step_tokens = 33, .depth = 2}}) {
    expect_same(Harness(*late, options).run(requests), Harness(*host, options).run(requests));
  }
}

// Requests that want tokens and log-probabilities are not waited for: the second step is launched
// while nothing of the first has run, with a token that the host does not know.
TEST(LateDevice, a_step_is_launched_while_the_one_before_it_runs) {
  const std::vector<Request> requests = mixed_requests(6, 40, 10);  // some read their answer
  auto ops = std::make_unique<LateOps>(host_backend().make(2));
  auto& device = static_cast<LateDevice&>(ops->device());
  const auto late = load_on(std::move(ops));
  const auto host = load_on(host_backend().make(2));
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
  auto ops = std::make_unique<LateOps>(host_backend().make(2));
  auto& device = static_cast<LateDevice&>(ops->device());
  const auto late = load_on(std::move(ops));
  const auto host = load_on(host_backend().make(2));
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

// Steps repeat graphs, and tell their gaps, whether the host reads answers or not.
TEST(LateDevice, gaps_are_those_of_graphs) {
  const auto late = load_on(std::make_unique<LateOps>(host_backend().make(2)));
  for (const bool reads : {false, true}) {
    const auto result =
        bench_gaps(*late, {.running = 2, .steps = 5, .prompt_len = 8, .reads_answers = reads});
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_GT(result.value().count, 1u);
  }
}

// Those that are recorded before the first step are all that there will be, and change no bit.
TEST(LateDevice, graphs_are_recorded_at_start) {
  const auto late = load_on(std::make_unique<LateOps>(host_backend().make(2)));
  const auto host = load_on(host_backend().make(2));
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

  Harness eager(*late, options);
  late->use_graphs({});
  expect_same(eager.run(requests), expected);
  EXPECT_EQ(late->num_graphs(), 0u);
}

}  // namespace
}  // namespace glint
