#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <unordered_map>

#include "base/queue.h"
#include "base/random.h"
#include "base/str.h"
#include "engine/bench_engine.h"
#include "engine/fake_executor.h"

namespace glint {
namespace {

// An engine over a fake executor, and what its clients got.
struct Rig {
  explicit Rig(EngineOptions options = {}, FakeExecutorOptions fake = {})
      : executor(with_sizes(options, std::move(fake))) {
    options.cache.num_pages = executor_pages;
    options.cache.page_size = 4;
    engine.emplace(options, executor, [this](std::vector<TokenEvent> batch) {
      for (TokenEvent& event : batch) events.push(std::move(event));
    });
  }

  static FakeExecutorOptions with_sizes(const EngineOptions& options, FakeExecutorOptions fake) {
    fake.num_pages = executor_pages;
    fake.page_size = 4;
    fake.info.max_drafts = options.scheduler.max_drafts;
    return fake;
  }

  static Request request(RequestId id, int prompt_size = 10, int max_tokens = 8) {
    Request r;
    r.id = id;
    for (int i = 0; i < prompt_size; ++i)
      r.prompt.own().push_back(static_cast<TokenId>((id * 7 + static_cast<RequestId>(i)) % 100));
    r.max_tokens = max_tokens;
    return r;
  }

  // Gathers events until `id` has ended.
  TokenEvent wait_for_end(RequestId id) {
    while (ends.count(id) == 0) {
      TokenEvent event = *events.pop();
      std::vector<TokenId>& all = tokens[event.id];
      all.insert(all.end(), event.tokens.begin(), event.tokens.end());
      if (event.finished) {
        EXPECT_EQ(ends.count(event.id), 0u) << "two ends of " << event.id;
        ends[event.id] = event;
      }
    }
    return ends[id];
  }

  // Requests 1 to `count` at once get what each would alone.
  void expect_answers(RequestId count) {
    for (RequestId id = 1; id <= count; ++id) ASSERT_TRUE(engine->submit(request(id)).ok());
    for (RequestId id = 1; id <= count; ++id) {
      EXPECT_EQ(wait_for_end(id).finished, FinishReason::kLength);
      EXPECT_EQ(tokens[id], executor.answer_alone(request(id)));
    }
  }

  // Waits until a snapshot is as wanted.
  template <class Wanted>
  void wait_until(const Wanted& wanted) {
    while (!wanted(engine->stats())) std::this_thread::yield();
  }

  static constexpr int executor_pages = 64;
  FakeExecutor executor;
  Queue<TokenEvent> events;
  std::unordered_map<RequestId, std::vector<TokenId>> tokens;
  std::unordered_map<RequestId, TokenEvent> ends;
  std::optional<Engine> engine;  // the last member: it ends first
};

TEST(Engine, a_request_gets_its_answer_and_its_times) {
  Rig rig;
  const Request request = Rig::request(1);
  ASSERT_TRUE(rig.engine->submit(request).ok());
  const TokenEvent end = rig.wait_for_end(1);
  EXPECT_EQ(end.finished, FinishReason::kLength);
  EXPECT_EQ(rig.tokens[1], rig.executor.answer_alone(request));
  EXPECT_EQ(end.usage.prompt_tokens, 10);
  EXPECT_EQ(end.usage.completion_tokens, 8);
  EXPECT_GT(end.usage.started_s, 0);
  EXPECT_GE(end.usage.first_token_s, end.usage.started_s);
  EXPECT_GE(end.usage.finished_s, end.usage.first_token_s);
}

TEST(Engine, impossible_requests_are_refused_at_once) {
  FakeExecutorOptions fake;
  fake.info.tells_keys = false;
  Rig rig({}, fake);
  const auto error_of = [&](Request request) {
    const Status status = rig.engine->submit(std::move(request));
    return status.ok() ? "" : status.error().message;
  };
  Request request = Rig::request(1);
  request.prompt.own()[3] = 1000;
  EXPECT_EQ(error_of(request),
            "the prompt holds token 1000, which is not in the vocabulary of 1000 tokens");
  request = Rig::request(1);
  request.sampling.logit_bias = {{-1, 0.5f}};
  EXPECT_EQ(error_of(request),
            "logit-bias holds token -1, which is not in the vocabulary of 1000 tokens");
  request = Rig::request(1, 256);
  EXPECT_EQ(error_of(request),
            "the prompt has 256 tokens, but prompt and answer together can have 256 here; "
            "shorten it");
  request = Rig::request(1);
  request.want.selected_keys = true;
  EXPECT_EQ(error_of(request),
            "attended positions are not told where ranks share layers or sequences; serve without "
            "--pp and --cp");
  EXPECT_EQ(rig.engine->stats().max_seq_len, 256);
}

TEST(Engine, a_full_queue_refuses) {
  Rig rig({.scheduler = {.max_running = 1}, .max_waiting = 1});
  rig.engine->pause();
  ASSERT_TRUE(rig.engine->submit(Rig::request(1)).ok());
  ASSERT_TRUE(rig.engine->submit(Rig::request(2)).ok());
  const Status status = rig.engine->submit(Rig::request(3));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(status.error().message, "2 requests running or waiting already; try again later");
  rig.engine->abort(1);  // makes room
  const TokenEvent::Usage waited = rig.wait_for_end(1).usage;
  EXPECT_GT(waited.started_s, 0);  // all its time was in the queue
  EXPECT_EQ(waited.started_s, waited.finished_s);
  EXPECT_EQ(waited.first_token_s, waited.finished_s);
  EXPECT_TRUE(rig.engine->submit(Rig::request(4)).ok());
  rig.engine->resume();
  rig.wait_for_end(2);
  rig.wait_for_end(4);
}

TEST(Engine, an_aborted_request_ends_and_frees_its_pages) {
  Rig rig;
  rig.executor.hang();
  ASSERT_TRUE(rig.engine->submit(Rig::request(1, 50, 100)).ok());
  rig.wait_until([](const EngineStats& s) { return s.num_running == 1; });
  rig.engine->abort(1);
  rig.engine->abort(99);  // unknown: nothing happens
  EXPECT_EQ(rig.wait_for_end(1).finished, FinishReason::kCancelled);
  rig.executor.resume();
  rig.wait_until([](const EngineStats& s) { return s.used_pages == 0; });
}

TEST(Engine, pause_holds_requests_and_resume_lets_them_go_on) {
  Rig rig;
  rig.engine->pause();
  ASSERT_TRUE(rig.engine->submit(Rig::request(1)).ok());
  rig.wait_until([](const EngineStats& s) { return s.paused && s.num_waiting == 1; });
  EXPECT_EQ(rig.executor.steps(), 0u);
  rig.engine->resume();
  EXPECT_EQ(rig.wait_for_end(1).finished, FinishReason::kLength);
}

TEST(Engine, paused_requests_let_the_cache_be_flushed_and_go_on) {
  FakeExecutorOptions fake;
  fake.step_seconds = 0.002;
  fake.sleep = true;
  Rig rig({}, fake);
  ASSERT_TRUE(rig.engine->submit(Rig::request(1, 20, 100)).ok());
  rig.wait_until([](const EngineStats& s) { return s.generated_tokens > 0; });
  rig.engine->pause();
  EXPECT_TRUE(rig.engine->flush_cache().ok());
  rig.wait_until([](const EngineStats& s) { return s.num_running == 0 && s.used_pages == 0; });
  rig.engine->resume();
  EXPECT_EQ(rig.wait_for_end(1).usage.completion_tokens, 100);
}

TEST(Engine, draining_refuses_new_requests_and_ends_the_old) {
  Rig rig;
  ASSERT_TRUE(rig.engine->submit(Rig::request(1, 10, 50)).ok());
  rig.engine->drain();
  const Status status = rig.engine->submit(Rig::request(2));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(rig.wait_for_end(1).finished, FinishReason::kLength);
}

TEST(Engine, the_end_of_the_engine_cancels_what_is_left) {
  Rig rig;
  rig.engine->pause();
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(rig.engine->submit(Rig::request(id)).ok());
  rig.engine.reset();
  for (RequestId id = 1; id <= 3; ++id)
    EXPECT_EQ(rig.wait_for_end(id).finished, FinishReason::kCancelled);
  EXPECT_EQ(rig.executor.num_known(), 0);
}

TEST(Engine, new_weights_come_between_steps_and_nothing_old_is_used) {
  Rig rig;
  ASSERT_TRUE(rig.engine->submit(Rig::request(1, 20, 100)).ok());
  rig.wait_until([](const EngineStats& s) { return s.generated_tokens > 0; });
  const Status refused = rig.engine->control({});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "the path is empty; name a checkpoint");
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(rig.engine->control({.path = str("checkpoint-", i)}).ok());
  EXPECT_EQ(rig.executor.commands().size(), 3u);
  EXPECT_EQ(rig.wait_for_end(1).usage.completion_tokens, 100);
  // The prefix of before would be found, and wrong, if it were still there.
  ASSERT_TRUE(rig.engine->submit(Rig::request(2, 20)).ok());
  EXPECT_EQ(rig.wait_for_end(2).finished, FinishReason::kLength);
}

TEST(Engine, flush_cache_forgets_prefixes_but_not_while_requests_run) {
  Rig rig;
  const auto cached_tokens = [&](RequestId id) {
    Request request = Rig::request(id);
    request.prompt = Rig::request(1).prompt;
    EXPECT_TRUE(rig.engine->submit(request).ok());
    return rig.wait_for_end(id).usage.cached_tokens;
  };
  EXPECT_EQ(cached_tokens(1), 0);
  EXPECT_EQ(cached_tokens(2), 8);
  EXPECT_TRUE(rig.engine->flush_cache().ok());
  EXPECT_EQ(cached_tokens(3), 0);

  rig.executor.hang();
  ASSERT_TRUE(rig.engine->submit(Rig::request(4)).ok());
  rig.wait_until([](const EngineStats& s) { return s.num_running == 1; });
  const Status status = rig.engine->flush_cache();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "1 running request; flush the cache when there is none");
  rig.executor.resume();
  rig.wait_for_end(4);
}

TEST(Engine, a_failing_request_ends_alone) {
  FakeExecutorOptions fake;
  fake.fails = [](RequestId id, int position) { return id == 2 && position == 12; };
  Rig rig({}, fake);
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(rig.engine->submit(Rig::request(id)).ok());
  EXPECT_EQ(rig.wait_for_end(1).finished, FinishReason::kLength);
  EXPECT_EQ(rig.wait_for_end(3).finished, FinishReason::kLength);
  const TokenEvent end = rig.wait_for_end(2);
  EXPECT_EQ(end.finished, FinishReason::kError);
  EXPECT_EQ(end.error, "the logits of this request were not numbers");
  EXPECT_EQ(rig.tokens[2].size(), 3u);
}

// Whoever is late is woken before the engine hears that it was late, and after.
TEST(Engine, requests_that_are_late_sit_out_and_go_on) {
  FakeExecutorOptions fake;
  fake.late = [asked = 0](RequestId id, int) mutable { return id == 2 && ++asked % 3 != 0; };
  Rig rig({}, fake);
  rig.expect_answers(3);
}

TEST(Engine, the_watchdog_reports_a_step_that_hangs_and_fails_its_requests) {
  std::promise<std::string> hung;
  {
    Rig rig({.watchdog_seconds = 0.05,
             .on_hang = [&](const std::string& dump) { hung.set_value(dump); }});
    rig.executor.hang();
    ASSERT_TRUE(rig.engine->submit(Rig::request(7)).ok());
    const std::string dump = hung.get_future().get();
    EXPECT_NE(dump.find("fake step 0, hanging"), std::string::npos) << dump;
    EXPECT_NE(dump.find("request 7: positions 0 to 9, 0 drafts, samples, 3 pages"),
              std::string::npos)
        << dump;
    const TokenEvent end = rig.wait_for_end(7);
    EXPECT_EQ(end.finished, FinishReason::kError);
    EXPECT_EQ(end.error, "the step that ran this request hung");
    EXPECT_FALSE(end.unavailable);
    EXPECT_EQ(rig.engine->submit(Rig::request(8)).error().code, ErrorCode::kUnavailable);
    rig.executor.resume();
  }
}

TEST(Engine, steps_that_are_quick_enough_are_no_hang) {
  FakeExecutorOptions fake;
  fake.step_seconds = 0.005;
  fake.sleep = true;
  Rig rig({.watchdog_seconds = 30, .on_hang = [](const std::string& dump) { FAIL() << dump; }},
          fake);
  ASSERT_TRUE(rig.engine->submit(Rig::request(1)).ok());
  EXPECT_EQ(rig.wait_for_end(1).finished, FinishReason::kLength);
}

TEST(Engine, an_idle_engine_takes_no_steps) {
  Rig rig;
  ASSERT_TRUE(rig.engine->submit(Rig::request(1)).ok());
  rig.wait_for_end(1);
  rig.wait_until([](const EngineStats& s) { return s.num_running == 0; });
  (void)rig.engine->flush_cache();  // what was under way is done
  const std::uint64_t before = rig.executor.steps();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(rig.executor.steps(), before + 1);  // the one that tells of the end
}

TEST(Engine, counters_add_up) {
  Rig rig({.scheduler = {.max_drafts = 2}});
  for (RequestId id = 1; id <= 20; ++id) {
    Request request = Rig::request(1);
    request.id = id;
    ASSERT_TRUE(rig.engine->submit(request).ok());
  }
  std::uint64_t cached = 0, drafted = 0, accepted = 0;
  for (RequestId id = 1; id <= 20; ++id) {
    const TokenEvent::Usage usage = rig.wait_for_end(id).usage;
    cached += static_cast<std::uint64_t>(usage.cached_tokens);
    drafted += static_cast<std::uint64_t>(usage.drafted);
    accepted += static_cast<std::uint64_t>(usage.accepted);
  }
  rig.wait_until([](const EngineStats& s) { return s.num_running == 0; });
  const EngineStats stats = rig.engine->stats();
  EXPECT_EQ(stats.prompt_tokens, 200u);
  EXPECT_EQ(stats.generated_tokens, 160u);
  EXPECT_EQ(stats.cached_prompt_tokens, cached);
  EXPECT_GE(cached, 19u * 4u);  // the others waited for the first
  EXPECT_EQ(stats.prefix_queries, 200u);
  EXPECT_EQ(stats.prefix_hits, cached);
  EXPECT_EQ(stats.drafted_tokens, drafted);
  EXPECT_EQ(stats.accepted_tokens, accepted);
  EXPECT_GT(accepted, 0u);
  std::uint64_t by_position = 0;
  for (const std::uint64_t count : stats.accepted_per_position) by_position += count;
  EXPECT_EQ(by_position, accepted);
  EXPECT_GT(stats.steps, 0u);
  EXPECT_EQ(stats.total_pages, Rig::executor_pages);
  EXPECT_EQ(stats.predicted_wait_seconds, 0);
}

TEST(Engine, a_queue_has_a_predicted_wait) {
  std::atomic<bool> may_go = false;
  FakeExecutorOptions fake;
  fake.late = [&](RequestId id, int) { return id > 4 && !may_go; };
  fake.step_seconds = 0.001;
  fake.sleep = true;
  Rig rig({.scheduler = {.max_running = 1}}, fake);
  EXPECT_EQ(rig.engine->stats().predicted_wait_seconds, 0);
  for (RequestId id = 1; id <= 12; ++id) ASSERT_TRUE(rig.engine->submit(Rig::request(id)).ok());
  rig.wait_until([](const EngineStats& s) {
    return s.num_waiting > 0 && s.generated_tokens > 16 && s.predicted_wait_seconds > 0 &&
           s.tokens_per_second > 0;
  });
  may_go = true;
  for (RequestId id = 1; id <= 12; ++id) rig.wait_for_end(id);
  rig.wait_until([](const EngineStats& s) { return s.predicted_wait_seconds == 0; });
}

TEST(Engine, the_rate_of_tokens_falls_while_the_engine_sleeps) {
  Rig rig;
  ASSERT_TRUE(rig.engine->submit(Rig::request(1)).ok());
  rig.wait_for_end(1);
  rig.wait_until([](const EngineStats& s) { return s.num_running == 0; });
  (void)rig.engine->flush_cache();  // what was under way is done
  const double before = rig.engine->stats().tokens_per_second;
  EXPECT_GT(before, 0);
  rig.wait_until([&](const EngineStats& s) { return s.tokens_per_second < before; });
}

// Keeps what each step ran and what it said that it took.
struct RecordingExecutor : FakeExecutor {
  using FakeExecutor::FakeExecutor;

  struct Step {
    int num_decoding = 0, prompt_tokens = 0;
    double seconds = 0;
  };

  StepResult execute(const StepPlan& plan) override {
    StepResult result = FakeExecutor::execute(plan);
    Step step = {.seconds = result.seconds};
    for (const SeqSlice& slice : plan.slices)
      (slice.count == 1 ? step.num_decoding : step.prompt_tokens) += slice.count;
    if (!plan.slices.empty()) record.push_back(step);
    return result;
  }

  std::vector<Step> record;
};

TEST(Engine, a_long_prompt_at_most_doubles_the_steps_of_the_others) {
  FakeExecutorOptions fake;
  fake.page_size = 64;
  fake.num_pages = 300;
  fake.step_seconds = 0.010;
  fake.decode_row_seconds = 0.0002;
  fake.prompt_row_seconds = 0.00005;
  RecordingExecutor executor(fake);
  Queue<TokenEvent> events;
  std::optional<Engine> engine;
  int num_events = 0;
  engine.emplace(EngineOptions{.cache = {.num_pages = 300}}, executor,
                 [&](std::vector<TokenEvent> batch) {
                   for (TokenEvent& event : batch) {
                     events.push(std::move(event));
                     // While the first two decode.
                     if (++num_events != 100) continue;
                     EXPECT_TRUE(engine->submit(Rig::request(3, 8192, 1)).ok());
                   }
                 });
  engine->pause();
  ASSERT_TRUE(engine->submit(Rig::request(1, 20, 1000)).ok());
  ASSERT_TRUE(engine->submit(Rig::request(2, 21, 1000)).ok());
  engine->resume();
  for (int ended = 0; ended < 3;) ended += events.pop()->finished.has_value();
  engine.reset();

  const double plain = 0.010 + 2 * 0.0002;
  int num_mixed = 0;
  for (const RecordingExecutor::Step& step : executor.record) {
    if (step.num_decoding != 2 || step.prompt_tokens == 0) continue;
    EXPECT_LE(step.seconds, 2 * plain) << step.prompt_tokens << " prompt tokens";
    ++num_mixed;
  }
  EXPECT_GT(num_mixed, 30);
  EXPECT_LT(num_mixed, 100);  // 208 tokens would be exactly twice a plain step
}

TEST(Engine, a_plan_that_only_tells_of_ends_is_no_step) {
  struct Slow : FakeExecutor {
    using FakeExecutor::FakeExecutor;
    StepResult execute(const StepPlan& plan) override {
      StepResult result = FakeExecutor::execute(plan);
      result.seconds = plan.slices.empty() ? 100 : 1;
      empty += plan.slices.empty();
      return result;
    }
    std::atomic<int> empty{0};
  };
  FakeExecutorOptions fake;
  fake.page_size = 4;
  Slow executor(fake);
  Queue<TokenEvent> events;
  Engine engine({.cache = {.num_pages = 64, .page_size = 4}}, executor, [&](auto batch) {
    for (TokenEvent& event : batch) events.push(std::move(event));
  });
  ASSERT_TRUE(engine.submit(Rig::request(1)).ok());
  while (!events.pop()->finished) {
  }
  while (executor.empty == 0) std::this_thread::yield();
  (void)engine.control({.path = "checkpoint"});  // after all steps
  const EngineStats stats = engine.stats();
  EXPECT_EQ(stats.step_seconds, static_cast<double>(stats.steps));
}

TEST(EngineBench, counts_whole_decode_steps) {
  const EngineBenchResult result = bench_engine({.num_running = 3, .num_steps = 20, .step_ms = 0});
  EXPECT_GT(result.schedule_us, 0);
  EXPECT_GT(result.commit_us, 0);
  EXPECT_GT(result.gap_depth_1_us, 0);
}

TEST(EngineBench, more_sequences_run_than_a_queue_usually_holds) {
  const EngineBenchResult result =
      bench_engine({.num_running = 2 * EngineOptions().max_waiting, .num_steps = 2, .step_ms = 1});
  EXPECT_GT(result.gap_ahead_us, 0);
}

TEST(Engine, two_steps_on_the_device_give_the_same_answers) {
  FakeExecutorOptions fake;
  fake.info.depth = 2;
  Rig rig({.scheduler = {.max_step_tokens = 40, .max_running = 6, .max_drafts = 2}}, fake);
  rig.expect_answers(12);
}

TEST(Engine, a_failed_step_costs_time_and_no_token) {
  FakeExecutorOptions fake;
  fake.info.depth = 2;
  auto failures = std::make_shared<std::atomic<int>>(0);
  fake.step_fails = [failures](std::uint64_t step) { return step % 5 == 4 && ++*failures < 6; };
  Rig rig({.scheduler = {.max_step_tokens = 40, .max_running = 6}}, fake);
  rig.expect_answers(12);
  EXPECT_GE(*failures, 2);
  rig.wait_until([](const EngineStats& s) { return s.used_pages == 0; });
}

TEST(Engine, a_device_that_is_lost_ends_every_request_until_it_is_back) {
  FakeExecutorOptions fake;
  fake.step_fails = [](std::uint64_t step) { return step == 3; };
  fake.recovers = false;
  Rig rig({}, fake);
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(rig.engine->submit(Rig::request(id)).ok());
  for (RequestId id = 1; id <= 4; ++id) {
    if (id == 4) {
      ASSERT_TRUE(rig.engine->submit(Rig::request(id)).ok());
    }
    const TokenEvent end = rig.wait_for_end(id);
    EXPECT_EQ(end.finished, FinishReason::kError);
    EXPECT_EQ(end.error, "step 3 was told to fail; no rank is left");
    EXPECT_TRUE(end.unavailable);
  }
  const ExecutorCommand recover = {.kind = ExecutorCommand::Kind::kRecover, .path = "ranks"};
  EXPECT_TRUE(rig.engine->control(recover).ok());
  ASSERT_TRUE(rig.engine->submit(Rig::request(5)).ok());
  EXPECT_EQ(rig.wait_for_end(5).finished, FinishReason::kLength);
}

// Clients on several threads that submit, abort, pause, flush and update weights at random.
TEST(Engine, many_threads_at_once) {
  Rig rig({.scheduler = {.max_step_tokens = 40, .max_running = 6, .max_drafts = 2}});
  constexpr int kThreads = 3, kEach = 150;
  std::atomic<int> accepted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<std::uint64_t>(t));
      for (int i = 0; i < kEach; ++i) {
        const auto id = static_cast<RequestId>(1 + t * kEach + i);
        Request request = Rig::request(id % 5, 1 + static_cast<int>(random.below(60)),
                                       1 + static_cast<int>(random.below(30)));
        request.id = id;
        request.priority = static_cast<int>(random.below(3));
        if (rig.engine->submit(request).ok()) ++accepted;
        if (random.below(4) == 0) rig.engine->abort(id - random.below(3));
        if (random.below(20) == 0) (void)rig.engine->flush_cache();
        if (random.below(20) == 0) rig.engine->pause();
        if (random.below(20) == 0) (void)rig.engine->control({.path = "checkpoint"});
        if (random.below(4) == 0) rig.engine->resume();
        (void)rig.engine->stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  rig.engine->resume();
  EXPECT_EQ(accepted, kThreads * kEach);
  for (RequestId id = 1; id <= kThreads * kEach; ++id) rig.wait_for_end(id);
  rig.wait_until([](const EngineStats& s) { return s.used_pages == 0 && s.num_waiting == 0; });
}

}  // namespace
}  // namespace glint
