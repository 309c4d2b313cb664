// glint bench engine: what scheduling and threads cost per step, without a model.
#include "base/json.h"
#include "base/str.h"
#include "cli/command.h"
#include "engine/bench_engine.h"

namespace glint {
namespace {

struct Options {
  std::vector<int> running = {1, 64, 256, 1024};
  int steps = 300;
  double step_ms = 1;
  bool json = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("What to measure");
    v("running=N,...", running, "sequences that decode together");
    v("steps=N", steps, "decode steps of each measurement");
    v("step-ms=MS", step_ms, "how long a step pretends to compute");
    v("json", json, "print one JSON object");
  }
};

Status check_options(const Options& options) {
  for (const int n : options.running) {
    if (n < 1 || n > 65536)
      return invalid(str("--running is ", n, "; it must be between 1 and 65536"));
  }
  if (options.steps < 1 || options.steps > 100000)
    return invalid(str("--steps is ", options.steps, "; it must be between 1 and 100000"));
  if (!(options.step_ms >= 0 && options.step_ms <= 1000))
    return invalid(str("--step-ms is ", options.step_ms, "; it must be between 0 and 1000"));
  return Ok{};
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check_options(options));
  Console& console = cli.console;
  if (!options.json)
    console.print(formatted("%8s %12s %12s %16s %16s\n", "running", "schedule us", "commit us",
                            "gap us, depth 1", "gap us, depth 2"));
  Json::Array rows;
  for (const int n : options.running) {
    const EngineBenchResult r =
        bench_engine({.num_running = n, .num_steps = options.steps, .step_ms = options.step_ms});
    rows.push_back(Json::Object{{"running", n},
                                {"schedule_us", r.schedule_us},
                                {"commit_us", r.commit_us},
                                {"gap_depth_1_us", r.gap_depth_1_us},
                                {"gap_depth_2_us", r.gap_depth_2_us}});
    if (options.json) continue;
    console.print(formatted("%8d %12.1f %12.1f %16.1f %16.1f\n", n, r.schedule_us, r.commit_us,
                            r.gap_depth_1_us, r.gap_depth_2_us));
    console.flush();
  }
  if (options.json)
    console.print(dump_json(Json(Json::Object{{"results", rows}}), JsonStyle::kIndent2) + "\n");
  return Ok{};
}

}  // namespace

Command bench_engine_command() {
  return make_command<Options>(
      {.name = "bench engine",
       .group = "Machine",
       .summary = "what the scheduler and its threads cost per step, without a model",
       .description =
           "Runs the engine over an executor that computes nothing, and prints microseconds per "
           "decode step: choosing the step, recording its results, and the gap between two steps "
           "in the executor, with one plan in flight and with two. With two, the host's work "
           "hides behind the step.",
       .examples = {{"glint bench engine", "1 to 1024 sequences"},
                    {"glint bench engine --running 256 --json", "for a program"}}},
      run);
}

}  // namespace glint
