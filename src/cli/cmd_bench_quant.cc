// glint bench quant: how fast this machine quantises.
#include <chrono>
#include <functional>
#include <vector>

#include "base/json.h"
#include "base/random.h"
#include "base/seconds.h"
#include "base/statistics.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/option_checks.h"
#include "cli/result_file.h"
#include "quant/encode.h"
#include "tensor/dtype.h"
#include "tensor/weight.h"

namespace glint {
namespace {

struct Options {
  std::optional<int> threads = {};
  int repeat = 5;
  bool json = false;
  std::string figures;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("threads,t=N", threads, "threads (default: OMP_NUM_THREADS, else one per CPU)");
    v("repeat,r=N", repeat, "samples of each, of a fifth of a second");
    v("json", json, "print one JSON object");
    v("figures=FILE", figures, "also write the figures, the machine and the build, as JSON");
  }
};

constexpr std::int64_t kWeights = 1 << 18;  // of each thread: they stay in its cache
constexpr double kExpertWeights = 724.8e9;  // routed experts of GLM-5

// The weights of one thread and room for their codes.
struct Work {
  std::vector<float> values;
  std::vector<std::uint8_t> codes, scales;
};

struct Rule {
  const char* name;
  std::function<void(EncodeIsa isa, Work& work)> run;
};

void run_nvfp4(ScaleRule rule, EncodeIsa isa, Work& work) {
  const Nvfp4Target target = {rule, nvfp4_global_scale(0.1f, rule, true)};
  encode_nvfp4_groups(isa, target, work.values.data(), kWeights / kNvfp4Group, work.codes.data(),
                      work.scales.data());
}

void run_fp8(Fp8ScaleFormat format, EncodeIsa isa, Work& work) {
  constexpr std::int64_t kTile = kFp8Block * kFp8Block;
  for (std::int64_t at = 0; at < kWeights; at += kTile) {
    float scale = 1;
    encode_fp8_tile(
        isa, format,
        {work.values.data() + at, work.codes.data() + at, kFp8Block, kFp8Block, kFp8Block}, &scale);
  }
}

std::vector<Rule> rules() {
  const auto nvfp4 = [](ScaleRule rule) {
    return [rule](EncodeIsa isa, Work& work) { run_nvfp4(rule, isa, work); };
  };
  const auto fp8 = [](Fp8ScaleFormat format) {
    return [format](EncodeIsa isa, Work& work) { run_fp8(format, isa, work); };
  };
  return {{"nvfp4 search", nvfp4(ScaleRule::kSearch)},
          {"nvfp4 four-over-six", nvfp4(ScaleRule::kFourOverSix)},
          {"nvfp4 absmax", nvfp4(ScaleRule::kAbsmax)},
          {"fp8 fp32 scales", fp8(Fp8ScaleFormat::kFp32)},
          {"fp8 ue8m0 scales", fp8(Fp8ScaleFormat::kUe8m0)}};
}

// Weights a second and core, `repeat` samples.
std::vector<double> measure(ThreadPool& pool, std::vector<Work>& work, int repeat,
                            const std::function<void(Work&)>& run) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> rates;
  for (int sample = 0; sample < repeat; ++sample) {
    std::vector<double> weights(work.size());
    const auto begin = Clock::now();
    pool.parallel([&](int thread, int) {
      const auto t = static_cast<std::size_t>(thread);
      do {
        run(work[t]);
        weights[t] += static_cast<double>(kWeights);
      } while (Clock::now() - begin < std::chrono::milliseconds(200));
    });
    const double seconds = seconds_since(begin);
    double total = 0;
    for (const double part : weights) total += part;
    rates.push_back(total / seconds / static_cast<double>(work.size()));
  }
  return rates;
}

std::vector<Work> make_work(int threads) {
  Random random(1);
  Work work = {.values = std::vector<float>(kWeights),
               .codes = std::vector<std::uint8_t>(kWeights),
               .scales = std::vector<std::uint8_t>(kWeights / kNvfp4Group)};
  for (float& value : work.values) {
    value = to_float(to_bf16(static_cast<float>(0.02 * random.normal())));
  }
  return std::vector<Work>(static_cast<std::size_t>(threads), work);
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check_least("repeat", options.repeat, 1));
  GLINT_TRY_STATUS(check_result_file(options.figures));
  GLINT_TRY(const int threads, resolve_threads(options.threads, cli.environment));
  ThreadPool pool(threads);
  std::vector<Work> work = make_work(threads);
  Json::Array results;
  std::vector<Figure> figures;
  if (!options.json) {
    cli.console.print(
        str("million weights a second and core, on ", threads, " threads at once\n\n"));
    cli.console.print(formatted("%-22s %-9s %10s %24s\n", "", "", "", "experts of GLM-5"));
  }
  for (const Rule& rule : rules()) {
    for (const EncodeIsa isa : encode_isas()) {
      const std::vector<double> rates =
          measure(pool, work, options.repeat, [&](Work& part) { rule.run(isa, part); });
      const double rate = median(rates);
      figures.push_back(
          {.name = str(rule.name, ", ", name_of(isa)), .unit = "weights/s/core", .samples = rates});
      const double core_minutes = kExpertWeights / rate / 60;
      results.push_back(Json::Object{{"rule", rule.name},
                                     {"isa", name_of(isa)},
                                     {"weights_per_s_and_core", rate},
                                     {"glm5_expert_core_minutes", core_minutes}});
      if (options.json) continue;
      cli.console.print(formatted("%-22s %-9s %10.0f %12.1f core-minutes\n", rule.name,
                                  name_of(isa), rate * 1e-6, core_minutes));
      cli.console.flush();
    }
  }
  if (options.json) {
    const Json json = Json::Object{
        {"threads", threads}, {"results", std::move(results)}, {"figures", figures_json(figures)}};
    cli.console.print(dump_json(json, JsonStyle::kIndent2) + "\n");
  }
  return write_figures(options.figures, {.benchmark = "bench quant",
                                         .options = Json::Object{{"threads", threads}},
                                         .figures = std::move(figures)});
}

}  // namespace

Command bench_quant_command() {
  return make_command<Options>(
      {.name = "bench quant",
       .group = "Machine",
       .summary = "weights a second that this machine quantises",
       .description =
           "Measures the kernels of glint quantize on Gaussian weights in the cache: each way to "
           "choose scales, with each instruction set that this machine has; all give the same "
           "bytes. glint quantize takes the best, or as long as the disks need.",
       .examples = {{"glint bench quant -t 1", "one core alone"}}},
      run);
}

}  // namespace glint
