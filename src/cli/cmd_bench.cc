// glint bench local: speed on this machine, against what the machine can do.
#include <algorithm>
#include <chrono>

#include "base/json.h"
#include "base/seconds.h"
#include "base/statistics.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "cli/apart.h"
#include "cli/backends.h"
#include "cli/bench_rank.h"
#include "cli/option_checks.h"
#include "cli/rank_options.h"
#include "cli/result_file.h"
#include "ops/timing/op_cases.h"
#include "runtime/read_speed.h"

namespace glint {
namespace {

struct Options : RunOptions, LayoutOptions, BenchOptions {
  bool json = false;
  std::string figures, emulate_rank;

  template <class Visitor>
  void visit(Visitor&& v) {
    RunOptions::visit(v);
    LayoutOptions::visit(v);
    v.section("What to measure");
    v("prompt,p=N,...", prompt, "prefill of so many tokens; 0: none");
    v("tokens,n=N", tokens, "decode steps per sample; 0: none");
    v("depth,d=N,...", depth, "tokens in the cache beforehand");
    v("batch,b=N,...", batch, "sequences that decode together");
    v("repeat,r=N", repeat, "samples of each, after a warm-up");
    v("emulate-rank=tp=N", emulate_rank,
      "one of N ranks alone, with made-up weights of its share: its kernels' time, without sums "
      "over the ranks (in fp8, or as --load-format dummy_* says)");
    v("json", json, "print one JSON object");
    v("figures=FILE", figures, "also write the figures, the machine and the build, as JSON");
  }
};

Status check_all(const char* name, const std::vector<int>& values, int least) {
  for (const int value : values) GLINT_TRY_STATUS(check_range(name, value, least, 1 << 24));
  return Ok{};
}

std::string name_of(const BenchResult& r) {
  return r.prefill ? str("prefill ", r.tokens, " at depth ", r.depth)
                   : str("decode ", r.tokens, " at depth ", r.depth, ", batch ", r.batch);
}

// The least traffic and arithmetic of the measured tokens, by the second.
double gigabytes_per_s(const BenchResult& r) {
  return median(r.tokens_per_s) * r.bytes_per_token * 1e-9;
}
double gigaflops(const BenchResult& r) { return median(r.tokens_per_s) * r.flops_per_token * 1e-9; }

// A limit at the samples, and the share of it that they reached, each of what it was just before
// it.
struct Reached {
  double limit, share;
};
Reached reached(const BenchResult& r, double work_per_token, double Limits::*limit) {
  std::vector<double> limits, shares;
  for (std::size_t i = 0; i < r.tokens_per_s.size(); ++i) {
    limits.push_back(r.limits[i].*limit);
    const bool is_known = limits.back() > 0;
    shares.push_back(is_known ? r.tokens_per_s[i] * work_per_token * 1e-9 / limits.back() : 0);
  }
  return {median(limits), median(shares)};
}
Reached reached_of_reads(const BenchResult& r) {
  return reached(r, r.bytes_per_token, &Limits::read_gb_s);
}
Reached reached_of_matrix_rate(const BenchResult& r) {
  return reached(r, r.flops_per_token, &Limits::matrix_gflops);
}

std::string table_row(const BenchResult& r) {
  const auto [low, high] = std::minmax_element(r.tokens_per_s.begin(), r.tokens_per_s.end());
  const Reached reads = reached_of_reads(r), matrix = reached_of_matrix_rate(r);
  return formatted("%-34s %9.2f %9.2f %9.2f %9.1f %7.2f %6.1f %5.0f%% %8.1f %6.0f %5.0f%%\n",
                   name_of(r).c_str(), median(r.tokens_per_s), *low, *high,
                   r.bytes_per_token * 1e-6, gigabytes_per_s(r), reads.limit, 100 * reads.share,
                   gigaflops(r), matrix.limit, 100 * matrix.share);
}

Json to_json(const BenchResult& r) {
  const Reached reads = reached_of_reads(r), matrix = reached_of_matrix_rate(r);
  Json::Array samples(r.tokens_per_s.begin(), r.tokens_per_s.end());
  return Json::Object{{"test", r.prefill ? "prefill" : "decode"},
                      {"tokens", r.tokens},
                      {"depth", r.depth},
                      {"batch", r.batch},
                      {"tokens_per_s", median(r.tokens_per_s)},
                      {"samples", samples},
                      {"bytes_per_token", r.bytes_per_token},
                      {"gb_per_s", gigabytes_per_s(r)},
                      {"read_gb_per_s", reads.limit},
                      {"share_of_read_bandwidth", reads.share},
                      {"flops_per_token", r.flops_per_token},
                      {"gflops", gigaflops(r)},
                      {"matrix_gflops", matrix.limit},
                      {"share_of_matrix_peak", matrix.share}};
}

std::vector<Figure> figures_of(const BenchResult& r) {
  std::vector<Figure> figures = {{.name = name_of(r), .unit = "tok/s", .samples = r.tokens_per_s}};
  double Limits::*const limit = r.prefill ? &Limits::matrix_gflops : &Limits::read_gb_s;
  const double work = r.prefill ? r.flops_per_token : r.bytes_per_token;
  if (r.limits.front().*limit <= 0) return figures;  // it is not known
  Figure share = {.name = name_of(r) + (r.prefill ? ", of the matrix rate" : ", of reads"),
                  .unit = "%",
                  .samples = {}};
  for (std::size_t i = 0; i < r.tokens_per_s.size(); ++i) {
    share.samples.push_back(100 * r.tokens_per_s[i] * work * 1e-9 / (r.limits[i].*limit));
  }
  figures.push_back(std::move(share));
  return figures;
}

// How fast the model was loaded, against how fast its files are read. What has no files (synthetic
// weights) is placed only.
struct Loading {
  const LoadStats& stats;      // of the first rank
  double seconds = 0;          // of all ranks, one after another
  bool from_disk = false;      // most of the files was not in the page cache
  double files_gb_s = 0;       // read by one thread from there, as cat does; 0: no files
  double new_memory_gb_s = 0;  // filled by all threads of a rank
  // The same weights once more, from the page cache into the memory that they have; 0: not done.
  double again_seconds = 0;
  double cache_gb_s = 0;  // the files from the page cache

  double gb_s() const { return static_cast<double>(stats.bytes) / seconds * 1e-9; }
  double again_gb_s() const { return static_cast<double>(stats.bytes) / again_seconds * 1e-9; }
};

Result<Loading> measure_loading(Ranks& ranks) {
  LoadedModel& model = ranks.model(0);
  const LoadStats& stats = model.load_stats();
  Loading loading = {.stats = stats};
  for (int r = 0; r < ranks.size(); ++r) loading.seconds += ranks.model(r).load_stats().seconds;
  if (stats.files.empty()) return loading;
  if (ThreadPool* const pool = model.backend().host_threads()) {
    loading.new_memory_gb_s = new_memory_speed(*pool);
  }
  loading.from_disk = stats.cached_share < 0.5;
  GLINT_TRY(loading.files_gb_s,
            read_speed(stats.files, 1, loading.from_disk ? ReadFrom::kDisk : ReadFrom::kAnywhere));
  if (!stats.placement.is_packed || cached_share(stats.files) < 0.9) return loading;
  loading.cache_gb_s = loading.files_gb_s;
  if (loading.from_disk) {
    GLINT_TRY(loading.cache_gb_s, read_speed(stats.files, 1));
  }
  const auto start = std::chrono::steady_clock::now();
  GLINT_TRY_STATUS(model.update_weights(model.options().dir));
  loading.again_seconds = seconds_since(start);
  return loading;
}

std::string describe(const Loading& loading) {
  const LoadStats& stats = loading.stats;
  const bool has_files = loading.files_gb_s > 0;
  std::string text =
      formatted("%s %.2f GB in %.2f s, %.1f GB/s%s", has_files ? "loaded" : "placed",
                static_cast<double>(stats.bytes) * 1e-9, loading.seconds, loading.gb_s(),
                stats.placement.is_packed ? ", packing included" : ", in place");
  if (has_files) {
    text +=
        formatted(": %.0f%% of the %.1f GB/s at which 1 thread reads the same files from the %s",
                  100 * loading.gb_s() / loading.files_gb_s, loading.files_gb_s,
                  loading.from_disk ? "disk" : "page cache");
  }
  if (has_files && loading.new_memory_gb_s > 0) {
    text += formatted("; new memory comes at %.1f GB/s", loading.new_memory_gb_s);
  }
  if (loading.again_seconds > 0) {
    text += formatted(
        "\nonce more into the same memory: %.2f s, %.1f GB/s, %.0f%% of the %.1f GB/s "
        "from the page cache",
        loading.again_seconds, loading.again_gb_s(),
        100 * loading.again_gb_s() / loading.cache_gb_s, loading.cache_gb_s);
  }
  return text + "\n";
}

Json to_json(const Loading& loading) {
  const auto if_measured = [](double value) { return value > 0 ? Json(value) : Json(nullptr); };
  return Json::Object{{"seconds", loading.seconds},
                      {"bytes", loading.stats.bytes},
                      {"gb_per_s", loading.gb_s()},
                      {"packed", loading.stats.placement.is_packed},
                      {"from_disk", loading.from_disk},
                      {"files_read_gb_per_s", if_measured(loading.files_gb_s)},
                      {"new_memory_gb_per_s", if_measured(loading.new_memory_gb_s)},
                      {"again_seconds", if_measured(loading.again_seconds)},
                      {"cache_read_gb_per_s", if_measured(loading.cache_gb_s)}};
}

// How fast a plain loop reads the memory that packed weights lie in, or, where they are read in
// place, what it read of new memory: where a hypervisor backs memory by kinds of different speed,
// new memory says little of the weights'. And what the cores multiply in about a tenth of a
// second. Of all ranks at the same time.
Limits limits_now(Ranks& ranks, const MachineLimits& machine) {
  std::vector<Limits> each(static_cast<std::size_t>(ranks.size()));
  ranks.run([&](int rank) {
    LoadedModel& model = ranks.model(rank);
    ThreadPool& pool = *model.backend().host_threads();
    Limits& now = each[static_cast<std::size_t>(rank)];
    now = {.read_gb_s = machine.read_gb_s / ranks.size(),
           .matrix_gflops = matrix_gflops(machine.isa, pool, 1, 100)};
    if (!model.load_stats().placement.is_packed) return;
    constexpr std::size_t kMost = std::size_t{4} << 30;
    const Buffer& weights = model.weights().owned.back();
    now.read_gb_s = read_gb_s({weights.data(), std::min(weights.bytes(), kMost)}, pool, 1);
  });
  Limits all;
  for (const Limits& one : each) {
    all.read_gb_s += one.read_gb_s;
    all.matrix_gflops += one.matrix_gflops;
  }
  return all;
}

Status emulate_rank(const Options& options, const OptionList& list, const ModelOptions& resolved,
                    Backend& backend, Cli& cli) {
  if (options.json) return invalid("--emulate-rank prints no JSON; give --figures FILE");
  if (const std::string given = first_given<LayoutOptions>(list); !given.empty())
    return invalid(str("--emulate-rank is one rank alone; leave ", given, " out"));
  return bench_rank({.layout = options.emulate_rank, .loads = options, .figures = options.figures},
                    resolved, backend, cli);
}

void print_head(const std::string& machine, const Loading& loading, bool on_host,
                Console& console) {
  console.print(str("machine: ", machine, "\n"));
  console.print(describe(loading));
  console.print(on_host
                    ? "MB/token: the least to be read, expected from shapes; of: what a plain "
                      "loop reads of the weights' memory, and the bf16 rate, both just before a "
                      "sample\n\n"
                    : "MB/token: the least to be read, expected from shapes; of: what copies "
                      "move, on all ranks\n\n");
  console.print(formatted("%-34s %9s %9s %9s %9s %7s %6s %6s %8s %6s %6s\n", "", "tok/s", "min",
                          "max", "MB/token", "GB/s", "of", "share", "GFLOP/s", "of", "share"));
  console.flush();
}

Status run(const Options& options, const OptionList& list, Cli& cli) {
  GLINT_TRY_STATUS(check_all("prompt", options.prompt, 0));
  GLINT_TRY_STATUS(check_all("depth", options.depth, 0));
  GLINT_TRY_STATUS(check_all("batch", options.batch, 1));
  GLINT_TRY_STATUS(check_range("tokens", options.tokens, 0, 1 << 24));
  GLINT_TRY_STATUS(check_range("repeat", options.repeat, 1, 1 << 24));
  const std::vector<int>& prompts = options.prompt;
  if (options.tokens == 0 && std::count(prompts.begin(), prompts.end(), 0) == std::ssize(prompts))
    return invalid("--prompt and --tokens are 0: nothing to measure");
  GLINT_TRY_STATUS(check_result_file(options.figures));
  RunOptions model = options;
  if (!options.emulate_rank.empty() && model.load_format == "auto") model.load_format = "dummy_fp8";
  GLINT_TRY(const ModelOptions resolved, resolve(model, cli, /*with_mtp=*/false));
  GLINT_TRY_STATUS(check_apart({{"MODEL", resolved.dir}}, {{"--figures", options.figures}}));
  GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(options, cli));
  if (!options.emulate_rank.empty()) return emulate_rank(options, list, resolved, *backend, cli);
  const bool on_host = backend->device().is_host();
  MachineLimits limits;
  std::string machine;
  if (on_host) {
    GLINT_TRY(limits, measure_limits(*backend));
    machine = describe(limits, *backend);
  } else {
    GLINT_TRY(const OpMemory memory, OpMemory::make(backend->device()));
    limits.read_gb_s = copy_speed(memory) * 1e-9;
    machine = formatted("%s: copies %.0f GB/s, read and written; the matrix rate is not measured",
                        backend->device().name(), limits.read_gb_s);
  }
  backend.reset();
  GLINT_TRY(const OpenedModel opened, open_model(resolved));
  BenchOptions bench = options;
  GLINT_TRY_STATUS(check_lengths(bench, opened.config));
  GLINT_TRY(const LedRanks led, load_led_ranks(options, options, resolved, opened, cli));
  Ranks& ranks = led.ranks();
  GLINT_TRY(const Loading loading, measure_loading(ranks));
  Console& console = cli.console;
  if (!options.json) print_head(machine, loading, on_host, console);
  Json::Array results;
  std::vector<Figure> figures;
  bench.limits = [&] {
    (void)led.wait();  // the first rank has told of failures
    return on_host ? limits_now(ranks, limits)
                   : Limits{.read_gb_s = limits.read_gb_s * ranks.size()};
  };
  GLINT_TRY_STATUS(bench_local(led.first(), bench, [&](const BenchResult& result) {
    results.push_back(to_json(result));
    for (Figure& figure : figures_of(result)) figures.push_back(std::move(figure));
    if (!options.json) console.print(table_row(result)), console.flush();
  }));
  if (options.json) {
    Json object(Json::Object{{"model", options.model},
                             {"machine", machine},
                             {"load", to_json(loading)},
                             {"ranks", to_json(ranks)},
                             {"read_gb_per_s", limits.read_gb_s},
                             {"matrix_gflops", limits.matrix_gflops},
                             {"results", results},
                             {"figures", figures_json(figures)}});
    console.print(dump_json(object, JsonStyle::kIndent2) + "\n");
  }
  return write_figures(options.figures,
                       {.benchmark = "bench local",
                        .options = Json::Object{{"model", options.model},
                                                {"load_format", options.load_format},
                                                {"tp", ranks.size()},
                                                {"repeat", options.repeat}},
                        .rates = {.backend = led.first().backend().capabilities().backend,
                                  .threads = limits.threads,
                                  .read_gb_s = limits.read_gb_s,
                                  .f32_gflops = limits.f32_gflops,
                                  .matrix_gflops = limits.matrix_gflops},
                        .figures = std::move(figures)});
}

}  // namespace
Command bench_local_command() {
  return make_command<Options>(
      {.name = "bench local",
       .group = "Machine",
       .summary = "prefill and decode speed of a model, against what this machine can do",
       .description =
           "Measures the machine's read bandwidth and matrix rate, then prefill and decode in the "
           "terms of llama-bench: median, lowest and highest of the samples. MB/token is the least "
           "that one token must move, not counted but expected from shapes (weights once a step, "
           "experts as if all were as likely, a sequence's keys once a step), and so is the "
           "arithmetic; the shares divide both by what the machine can. With --emulate-rank, one "
           "rank of a model that one device does not hold, alone. With --tp and the like, ranks as "
           "threads of this program, each with its share of them; loading is theirs one after "
           "another. The replicas of --dp share the sequences of a batch.",
       .examples = {{"glint bench local models/glm5-tiny -p 512 -n 64 -d 0,1024 -b 1,4,16",
                     "the bundled model"},
                    {"glint bench local models/glm5-tiny/config.json --load-format dummy_fp8",
                     "any configuration, without a checkpoint"},
                    {"glint bench local glm5/config.json --emulate-rank tp=8 -d 2304 -b 1,128",
                     "an eighth of the whole model, on one GPU"}}},
      run);
}

}  // namespace glint
