// glint bench engine: what scheduling and threads cost per step, without a model.
#include "base/json.h"
#include "base/statistics.h"
#include "base/str.h"
#include "cli/apart.h"
#include "cli/command.h"
#include "cli/model_options.h"
#include "cli/option_checks.h"
#include "cli/result_file.h"
#include "engine/bench_engine.h"
#include "runtime/bench_gaps.h"

namespace glint {
namespace {

struct Options : RunOptions {
  std::vector<int> running = {1, 64, 256, 1024};
  int steps = 300, repeat = 3;
  double step_ms = 1;
  bool read_answers = false, json = false;
  std::string figures;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("What to measure");
    v("model=DIR", model,
      "run this model's steps instead of none: their gaps on the device, as its events say");
    v("running=N,...", running, "sequences that decode together");
    v("steps=N", steps, "decode steps of each measurement");
    v("step-ms=MS", step_ms, "how long a step pretends to compute");
    v("read-answers", read_answers,
      "of a model's steps: the host must know each token before the next is drawn, as with "
      "grammars");
    v("repeat,r=N", repeat, "measurements of each, of which the medians are printed");
    v("json", json, "print one JSON object");
    v("figures=FILE", figures, "also write the figures, the machine and the build, as JSON");
    visit_running(v);
  }
};

Status check_options(const Options& options, const OptionList& list) {
  for (const int n : options.running) GLINT_TRY_STATUS(check_range("running", n, 1, 65536));
  GLINT_TRY_STATUS(check_range("steps", options.steps, 1, 100000));
  GLINT_TRY_STATUS(check_range("repeat", options.repeat, 1, 1000));
  const std::string of_model =
      options.read_answers ? "--read-answers" : first_given<RunOptions>(list);
  if (!of_model.empty() && options.model.empty())
    return invalid(str(of_model, " changes steps of a model; add --model DIR"));
  if (is_given(list, "step-ms") && !options.model.empty())
    return invalid("--step-ms is of steps that compute nothing; leave it or --model out");
  GLINT_TRY_STATUS(check_range("step-ms", options.step_ms, 0, 1000));
  return check_result_file(options.figures);
}

// The five measurements of so many sequences, in the order of the table's columns.
std::vector<Figure> measure(int running, const Options& options) {
  const auto figure = [&](const char* what) {
    return Figure{.name = str(what, ", ", running, " running"),
                  .unit = "us",
                  .more_is_better = false,
                  .samples = {}};
  };
  std::vector<Figure> out = {figure("schedule"), figure("commit"), figure("gap, depth 1"),
                             figure("gap, depth 2"), figure("gap, launched ahead")};
  for (int i = 0; i < options.repeat; ++i) {
    const EngineBenchResult r = bench_engine(
        {.num_running = running, .num_steps = options.steps, .step_ms = options.step_ms});
    out[0].samples.push_back(r.schedule_us);
    out[1].samples.push_back(r.commit_us);
    out[2].samples.push_back(r.gap_depth_1_us);
    out[3].samples.push_back(r.gap_depth_2_us);
    out[4].samples.push_back(r.gap_ahead_us);
  }
  return out;
}

// The steps of a model.
Status run_model(const Options& options, Cli& cli) {
  GLINT_TRY(const std::string dir, model_dir(options.model, cli, part_of(options)));
  GLINT_TRY_STATUS(check_apart({{"--model", dir}}, {{"--figures", options.figures}}));
  GLINT_TRY(const std::unique_ptr<LoadedModel> model, load_model(options, cli, /*with_mtp=*/false));
  Console& console = cli.console;
  console.print(formatted("%8s %12s %16s %13s %10s\n", "running", "step us", "gap us, median",
                          "gap us, p99", "of gaps"));
  std::vector<Figure> figures;
  for (const int n : options.running) {
    Figure step = {
        .name = str("step, ", n, " running"), .unit = "us", .more_is_better = false, .samples = {}};
    Figure gap = {
        .name = str("gap, ", n, " running"), .unit = "us", .more_is_better = false, .samples = {}};
    std::vector<double> p99;
    std::size_t count = 0;
    for (int i = 0; i < options.repeat; ++i) {
      GLINT_TRY(const GapResult r, bench_gaps(*model, {.running = n,
                                                       .steps = options.steps,
                                                       .reads_answers = options.read_answers}));
      step.samples.push_back(r.step_us);
      if (r.count == 0) continue;
      gap.samples.push_back(r.median_us);
      p99.push_back(r.p99_us);
      count += r.count;
    }
    const auto us = [](const std::vector<double>& samples) {
      return samples.empty() ? "-" : formatted("%.1f", median(samples));
    };
    console.print(formatted("%8d %12.1f %16s %13s %10zu\n", n, median(step.samples),
                            us(gap.samples).c_str(), us(p99).c_str(), count));
    console.flush();
    figures.push_back(std::move(step));
    if (count > 0) figures.push_back(std::move(gap));
  }
  return write_figures(options.figures,
                       {.benchmark = "bench engine",
                        .options = Json::Object{{"model", options.model},
                                                {"steps", options.steps},
                                                {"read_answers", options.read_answers}},
                        .figures = std::move(figures)});
}

Status run(const Options& options, const OptionList& list, Cli& cli) {
  GLINT_TRY_STATUS(check_options(options, list));
  if (!options.model.empty()) {
    if (options.json) return invalid("with --model, --figures FILE has what --json would print");
    return run_model(options, cli);
  }
  Console& console = cli.console;
  if (!options.json)
    console.print(formatted("%8s %12s %12s %16s %16s %13s\n", "running", "schedule us", "commit us",
                            "gap us, depth 1", "gap us, depth 2", "gap us, ahead"));
  Json::Array rows;
  std::vector<Figure> figures;
  for (const int n : options.running) {
    std::vector<Figure> of_n = measure(n, options);
    const auto us = [&](std::size_t i) { return median(of_n[i].samples); };
    rows.push_back(Json::Object{{"running", n},
                                {"schedule_us", us(0)},
                                {"commit_us", us(1)},
                                {"gap_depth_1_us", us(2)},
                                {"gap_depth_2_us", us(3)},
                                {"gap_ahead_us", us(4)}});
    if (!options.json) {
      console.print(formatted("%8d %12.1f %12.1f %16.1f %16.1f %13.1f\n", n, us(0), us(1), us(2),
                              us(3), us(4)));
      console.flush();
    }
    figures.insert(figures.end(), of_n.begin(), of_n.end());
  }
  if (options.json) {
    const Json object = Json::Object{{"results", rows}, {"figures", figures_json(figures)}};
    console.print(dump_json(object, JsonStyle::kIndent2) + "\n");
  }
  return write_figures(options.figures, {.benchmark = "bench engine",
                                         .options = Json::Object{{"steps", options.steps},
                                                                 {"step_ms", options.step_ms}},
                                         .figures = std::move(figures)});
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
           "in the executor, with one plan in flight and with two, and where the device takes the "
           "second while it computes. With two, scheduling hides behind the step; launched ahead, "
           "all of the host's work does. With --model, its steps on its backend: how long from one "
           "to the next, and how long a GPU waits between the last op of a step and the first of "
           "the next, and for the host before it samples.",
       .examples = {{"glint bench engine", "1 to 1024 sequences"},
                    {"glint bench engine --running 256 --json", "for a program"}}},
      run);
}

}  // namespace glint
