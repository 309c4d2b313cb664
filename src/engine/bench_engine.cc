#include "engine/bench_engine.h"

#include <algorithm>

#include "base/check.h"
#include "base/queue.h"
#include "base/seconds.h"
#include "engine/engine.h"
#include "engine/fake_executor.h"

namespace glint {
namespace {

constexpr int kPromptTokens = 256;
constexpr int kPageSize = 64;

// CPU time of this thread alone, so that other programs on the machine do not count.
double cpu_us() { return 1e6 * cpu_seconds(CLOCK_THREAD_CPUTIME_ID); }

SchedulerConfig scheduler_config(const EngineBenchOptions& options, int depth) {
  return {.max_step_tokens = std::max(2048, options.num_running),
          .max_running = options.num_running,
          .depth = depth};
}

KvCacheConfig cache_config(const EngineBenchOptions& options) {
  const int each = (kPromptTokens + options.num_steps) / kPageSize + 2;
  return {.num_pages = options.num_running * each, .page_size = kPageSize};
}

FakeExecutorOptions executor_options(const EngineBenchOptions& options) {
  FakeExecutorOptions fake = {
      .num_pages = cache_config(options).num_pages, .page_size = kPageSize, .check_rows = false};
  fake.info.vocab_size = 150000;
  fake.info.max_seq_len = 1 << 20;
  return fake;
}

Request make_request(int index, const EngineBenchOptions& options) {
  Request request;
  request.id = static_cast<RequestId>(index + 1);
  for (int i = 0; i < kPromptTokens; ++i)
    request.prompt.own().push_back((index * 131 + i) % 150000);
  request.stop_ids = {150000, 150001, 150002};  // as many as the model has; none comes
  request.max_tokens = options.num_steps;
  return request;
}

void time_scheduler(const EngineBenchOptions& options, EngineBenchResult& result) {
  Scheduler scheduler(scheduler_config(options, 1), cache_config(options));
  FakeExecutor executor(executor_options(options));
  for (int i = 0; i < options.num_running; ++i) {
    const Status status = scheduler.add(make_request(i, options));
    GLINT_CHECK(status.ok(), status.error().message);
  }
  int steps = 0;
  while (!scheduler.idle()) {
    const double begin = cpu_us();
    const StepPlan plan = scheduler.schedule(1 << 20);
    const double schedule_us = cpu_us() - begin;
    StepResult done = execute(executor, plan).value();
    const double commit_begin = cpu_us();
    const std::vector<TokenEvent> events = scheduler.commit(plan, std::move(done));
    const double commit_us = cpu_us() - commit_begin;
    // Only whole decode steps.
    if (plan.tokens.size() != static_cast<std::size_t>(options.num_running)) continue;
    ++steps;
    result.schedule_us += schedule_us;
    result.commit_us += commit_us;
  }
  result.schedule_us /= std::max(1, steps);
  result.commit_us /= std::max(1, steps);
}

double gap_us(const EngineBenchOptions& options, int depth, int launched) {
  FakeExecutorOptions fake = executor_options(options);
  fake.step_seconds = options.step_ms * 1e-3;
  fake.sleep = true;
  fake.info.depth = launched;
  FakeExecutor executor(std::move(fake));
  Queue<int> ended;
  Engine engine({.scheduler = scheduler_config(options, depth),
                 .cache = cache_config(options),
                 .max_waiting = options.num_running},
                executor, [&ended](const std::vector<TokenEvent>& events) {
                  int count = 0;
                  for (const TokenEvent& event : events) count += event.finished.has_value();
                  if (count > 0) ended.push(count);
                });
  for (int i = 0; i < options.num_running; ++i) {
    const Status status = engine.submit(make_request(i, options));
    GLINT_CHECK(status.ok(), status.error().message);
  }
  for (int left = options.num_running; left > 0;) left -= *ended.pop();
  const EngineStats stats = engine.stats();
  return 1e6 * stats.overhead_seconds /
         static_cast<double>(std::max<std::uint64_t>(1, stats.steps));
}

}  // namespace

EngineBenchResult bench_engine(const EngineBenchOptions& options) {
  EngineBenchResult result;
  time_scheduler(options, result);
  result.gap_depth_1_us = gap_us(options, 1, 1);
  result.gap_depth_2_us = gap_us(options, 2, 1);
  result.gap_ahead_us = gap_us(options, 2, 2);
  return result;
}

}  // namespace glint
