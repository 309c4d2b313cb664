#include "rl/rollout_engine.h"

#include "base/ceil_div.h"
#include "base/queue.h"
#include "engine/engine.h"
#include "runtime/generator.h"
#include "runtime/memory_plan.h"
#include "runtime/model_executor.h"

namespace glint {
namespace {

class SessionHere final : public RolloutSession {
 public:
  SessionHere(LoadedModel& model, const RolloutSize& size, int pages)
      : executor_(model, {.max_drafts = size.num_drafts,
                          .num_token_ids = size.num_token_ids,
                          .max_running = size.running}),
        engine_({.scheduler = {.max_running = size.running,
                               .max_seq_len = size.longest,
                               .max_drafts = size.num_drafts},
                 .cache = {.num_pages = pages, .page_size = kPageSize},
                 .max_waiting = size.requests,
                 .max_step_slowdown = 0},
                executor_,
                [this](std::vector<TokenEvent> step) { events_.push(std::move(step)); }) {}

  Status submit(Request request) override { return engine_.submit(std::move(request)); }
  void abort(RequestId id) override { engine_.abort(id); }
  Status run(const OnEvents& on_events) override {
    for (bool goes_on = true; goes_on;) {
      GLINT_TRY(goes_on, on_events(*events_.pop()));
    }
    return Ok{};
  }

 private:
  Queue<std::vector<TokenEvent>> events_;
  ModelExecutor executor_;
  Engine engine_;
};

}  // namespace

Result<std::unique_ptr<RolloutSession>> EngineHere::begin(const RolloutSize& size) {
  // Each replica has room for its part of the answers; where more of the long ones are, some wait.
  // A page more each: a step may write beyond an answer's end.
  const std::int64_t each = pages_of(std::int64_t{size.longest} + size.num_drafts) + 1;
  const int groups = model_.partition().shape.num_sequence_groups();
  const auto pages = static_cast<int>(ceil_div(size.running, groups) * each);
  GLINT_TRY_STATUS(reserve(model_, pages,
                           {.max_step_tokens = SchedulerConfig().max_step_tokens,
                            .max_running = size.running,
                            .max_drafts = size.num_drafts,
                            .max_seq_len = size.longest}));
  return std::unique_ptr<RolloutSession>(std::make_unique<SessionHere>(model_, size, pages));
}

}  // namespace glint
