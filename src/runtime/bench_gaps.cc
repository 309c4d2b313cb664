#include "runtime/bench_gaps.h"

#include <algorithm>

#include "base/queue.h"
#include "base/random.h"
#include "base/statistics.h"
#include "engine/engine.h"
#include "runtime/memory_plan.h"
#include "runtime/model_executor.h"

namespace glint {
namespace {

Request make_request(int index, const GapBench& bench, int vocab) {
  Request request;
  request.id = static_cast<RequestId>(index + 1);
  Random random(static_cast<std::uint64_t>(index));
  for (int i = 0; i < bench.prompt_len; ++i)
    request.prompt.own().push_back(
        static_cast<TokenId>(random.below(static_cast<std::uint32_t>(vocab))));
  request.max_tokens = bench.steps;
  if (bench.reads_answers) request.sampling.bad_words = {{0, 0}};
  return request;
}

}  // namespace

Result<GapResult> bench_gaps(LoadedModel& model, const GapBench& bench) {
  const int length = bench.prompt_len + bench.steps;
  const int pages = bench.running * (length / kPageSize + 2);
  const int step_tokens = std::max(2048, bench.running);
  GLINT_TRY_STATUS(reserve(
      model, pages,
      {.max_step_tokens = step_tokens, .max_running = bench.running, .max_seq_len = length}));
  model.use_graphs(usual_graphs(bench.running));
  ModelExecutor executor(model, {.max_running = bench.running, .times_gaps = true});
  executor.record_graphs(length);
  double steps = 0, seconds = 0;
  {
    Queue<int> ended;
    Engine engine({.scheduler = {.max_step_tokens = step_tokens,
                                 .max_running = bench.running,
                                 .max_seq_len = length,
                                 .depth = 2},
                   .cache = {.num_pages = pages, .page_size = kPageSize},
                   .max_waiting = bench.running},
                  executor, [&ended](const std::vector<TokenEvent>& events) {
                    int count = 0;
                    for (const TokenEvent& event : events) count += event.finished.has_value();
                    if (count > 0) ended.push(count);
                  });
    for (int i = 0; i < bench.running; ++i) {
      GLINT_TRY_STATUS(engine.submit(make_request(i, bench, executor.info().vocab_size)));
    }
    for (int left = bench.running; left > 0;) left -= *ended.pop();
    const EngineStats stats = engine.stats();
    steps = static_cast<double>(std::max<std::uint64_t>(1, stats.steps));
    seconds = stats.step_seconds + stats.overhead_seconds;
  }
  std::vector<double> gaps(executor.gaps().begin(), executor.gaps().end());
  return GapResult{.step_us = 1e6 * seconds / steps,
                   .median_us = gaps.empty() ? 0 : 1e6 * quantile(gaps, 0.5),
                   .p99_us = gaps.empty() ? 0 : 1e6 * quantile(gaps, 0.99),
                   .count = gaps.size()};
}

}  // namespace glint
