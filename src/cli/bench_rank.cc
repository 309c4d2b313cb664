#include "cli/bench_rank.h"

#include <algorithm>

#include "base/option_value.h"
#include "base/statistics.h"
#include "base/str.h"
#include "cli/result_file.h"
#include "ops/timing/op_cases.h"
#include "runtime/emulated_rank.h"
#include "runtime/memory_plan.h"

namespace glint {
namespace {

// The time of a sum over the ranks of a host beside that of its bytes, and the bytes a second of
// its links: stated, not measured.
constexpr double kSumSeconds = 10e-6, kLinkBytes = 450e9;

Result<int> parse_ranks(const std::string& text) {
  int ranks = 0;
  if (!text.starts_with("tp=") || !parse_option(text.substr(3), ranks) || ranks < 1)
    return invalid(str("--emulate-rank is ", quoted(text), "; it is tp=N, one of N ranks"));
  return ranks;
}

// Every layer's two sums over the ranks, and the embedding's.
double sums_seconds(const ModelConfig& config, int ranks, std::int64_t rows) {
  const double bytes = 2.0 * static_cast<double>(rows * config.hidden_size);
  const double each = kSumSeconds + 2.0 * (ranks - 1) / ranks * bytes / kLinkBytes;
  return ranks == 1 ? 0 : (2 * config.num_hidden_layers + 1) * each;
}

struct NamedLoad {
  std::string name;
  EmulatedLoad load;
  int steps;  // of a sample
};

std::vector<NamedLoad> loads_of(const BenchOptions& bench) {
  std::vector<NamedLoad> loads;
  for (const int prompt : bench.prompt) {
    if (prompt > 0)
      loads.push_back({str("prefill ", prompt), {.rows = prompt, .context = prompt}, 1});
  }
  for (const int depth : bench.depth) {
    for (const int batch : bench.batch) {
      const EmulatedLoad load = {.sequences = batch, .context = std::max(1, depth)};
      if (bench.tokens > 0)
        loads.push_back(
            {str("decode, batch ", batch, ", context ", load.context), load, bench.tokens});
    }
  }
  return loads;
}

}  // namespace

Status bench_rank(const RankBench& bench, const ModelOptions& model, Backend& backend, Cli& cli) {
  GLINT_TRY(const int ranks, parse_ranks(bench.layout));
  const std::string file = model.dir.ends_with(".json") ? model.dir : model.dir + "/config.json";
  GLINT_TRY(const ModelConfig config, read_config(file));
  const TrialOptions options = {.shape = {.tp = ranks},
                                .meets = false,
                                .format = formats_of(config, *model.dummy),
                                .numbers = model.numbers,
                                .like = &backend};
  const std::vector<NamedLoad> loads = loads_of(bench.loads);
  StepLimits limits = {.max_step_tokens = 1, .max_running = 1};
  std::int64_t pages = 1;
  for (const auto& [name, load, steps] : loads) {
    pages = std::max(pages, pages_of(load.context) * load.sequences);
    limits.max_step_tokens =
        std::max(limits.max_step_tokens, static_cast<int>(load.sequences * load.rows));
    limits.max_running = std::max(limits.max_running, load.sequences);
    limits.max_seq_len = std::max(limits.max_seq_len, load.context);
  }
  GLINT_TRY(const std::unique_ptr<StepTrial> trial, StepTrial::make(config, options));
  const MemoryPlan plan = plan_memory(*trial, config, options, limits);
  const std::int64_t needed = plan.weight_bytes() + plan.working_bytes() + pages * plan.page;
  Device& device = backend.device();
  if (const std::int64_t free = device.memory().available; needed > free)
    return exhausted(str("a rank of tp ", ranks, " with these loads needs ", human_bytes(needed),
                         ", and ", human_bytes(free), " are free on ", device.name(),
                         "; fewer or shorter sequences need less"));
  double copies = 0;
  {
    GLINT_TRY(const OpMemory memory, OpMemory::make(device));
    copies = copy_speed(memory);
  }
  GLINT_TRY(const std::unique_ptr<EmulatedRank> rank,
            EmulatedRank::make(config, options, static_cast<int>(pages), backend));
  rank->fill_cache(limits.max_seq_len);
  Console& console = cli.console;
  console.print(str(device.name(), ": copies ", formatted("%.0f", copies * 1e-9),
                    " GB/s; one rank of tp ", ranks, ", ", name_of(*model.dummy), ", ",
                    human_bytes(rank->weight_bytes()), " of made-up weights, latents in ",
                    name_of(options.numbers.latent), "\n"));
  console.print(
      "ms: the rank's kernels alone, experts drawn uniformly; no sampling and no host. least: the "
      "bytes that a pass must move at the speed of copies. sums: over the ranks, not run, 10 us "
      "each and their bytes at 450 GB/s\n\n");
  console.print(formatted("%-34s %9s %9s %9s %7s %9s\n", "", "ms", "least", "GB", "times", "sums"));
  std::vector<Figure> figures = {
      {.name = "device copy", .unit = "GB/s", .samples = {copies * 1e-9}}};
  for (const auto& [name, load, steps] : loads) {
    trial->run({.tokens = static_cast<int>(load.sequences * load.rows),
                .sequences = load.sequences,
                .length = load.context,
                .logit_rows = load.sequences});
    const double bytes = trial->ops().total().bytes, least = bytes / copies;
    rank->prepare(load);
    rank->time(1);
    Figure figure = {.name = name, .unit = "ms", .more_is_better = false, .samples = {}};
    for (int i = 0; i < bench.loads.repeat; ++i) figure.samples.push_back(1e3 * rank->time(steps));
    GLINT_CHECK(rank->logits_are_numbers(), "a pass over made-up weights gave no numbers");
    const double ms = median(figure.samples);
    console.print(formatted("%-34s %9.3f %9.3f %9.2f %7.2f %9.3f\n", name.c_str(), ms, least * 1e3,
                            bytes * 1e-9, ms / (least * 1e3),
                            1e3 * sums_seconds(config, ranks, load.sequences * load.rows)));
    console.flush();
    figures.push_back(std::move(figure));
  }
  return write_figures(bench.figures,
                       {.benchmark = "bench local",
                        .options = Json::Object{{"model", model.dir},
                                                {"emulate_rank", bench.layout},
                                                {"format", name_of(*model.dummy)},
                                                {"latents", name_of(options.numbers.latent)}},
                        .figures = std::move(figures)});
}

}  // namespace glint
