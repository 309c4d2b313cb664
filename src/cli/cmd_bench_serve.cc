// glint bench serve: load on a running server, and what its clients see of it.
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/system_error.h"
#include "bench/load.h"
#include "bench/report.h"
#include "bench/results.h"
#include "cli/apart.h"
#include "cli/bench_serve_options.h"
#include "cli/command.h"
#include "cli/date.h"
#include "cli/result_file.h"

namespace glint {
namespace {

Json to_json(const Measurement& m) {
  const LoadResult& r = m.result;
  const LoadSummary& s = r.summary;
  Json out(Json::Object{{"concurrency", m.options.concurrency},
                        {"requests", s.num_requests},
                        {"failed", s.num_failed},
                        {"compared", r.num_compared},
                        {"different", r.num_different},
                        {"seconds", s.seconds},
                        {"input_tokens", s.input_tokens},
                        {"output_tokens", s.output_tokens},
                        {"requests_per_s", s.requests_per_s()},
                        {"output_tokens_per_s", s.output_tokens_per_s()},
                        {"peak_tokens_per_s", s.peak_tokens_per_s},
                        {"tokens_per_chunk", s.tokens_per_chunk()},
                        {"ttft_ms", to_json(s.ttft_ms)},
                        {"tpot_ms", to_json(s.tpot_ms)},
                        {"itl_ms", to_json(s.itl_ms)},
                        {"e2el_ms", to_json(s.e2el_ms)},
                        {"client_cpu", r.client_cpu},
                        {"client_lag_ms", to_json(r.lag_ms)}});
  if (s.num_good) out.set("good", *s.num_good);
  if (r.engine.known)
    out.set("engine", Json::Object{{"steps", r.engine.steps},
                                   {"step_ms", r.engine.step_ms},
                                   {"overhead_us_per_step", r.engine.overhead_us}});
  return out;
}

void print_json(const BenchServeOptions& options, const LoadGenerator& generator,
                Json::Array results, std::span<const Figure> figures, Cli& cli) {
  const Json object(Json::Object{{"url", *options.url},
                                 {"model", generator.model()},
                                 {"input_len", input_len_of(options)},
                                 {"results", std::move(results)},
                                 {"figures", figures_json(figures)}});
  cli.console.print(dump_json(object, JsonStyle::kIndent2) + "\n");
}

void tell_failures(int num_failed, const std::string& first, Cli& cli) {
  if (num_failed == 0) return;
  cli.failed = true;
  cli.console.note(str("glint: ", counted(num_failed, "request"), " failed; the first: ", first));
}

std::string result_path(const BenchServeOptions& options, const std::string& name) {
  return options.result_dir.empty() ? name : options.result_dir + "/" + name;
}

// Whole lines, or none: what a run that was killed left of one is not gone on with.
Status append(const BenchServeOptions& options, const std::string& text) {
  const std::string& path = options.output_file;
  if (path.empty()) return Ok{};
  std::error_code is_no_file;
  const std::uintmax_t before = std::filesystem::file_size(path, is_no_file);
  std::ifstream old;
  if (!is_no_file && before > 0 && !text.empty()) {
    old.open(path);
    old.seekg(-1, std::ios::end);
  }
  errno = 0;
  std::ofstream lines(path, std::ios::app);
  if (old.is_open() && old.get() != '\n') lines << '\n';
  lines << text << std::flush;
  if (lines) return Ok{};
  const Error error = system_error("cannot write", path, errno);
  if (!is_no_file) std::filesystem::resize_file(path, before, is_no_file);
  return error;
}

// Files that are named by their load are none of the command line's.
Status check_names(const BenchServeOptions& options) {
  const std::string& result = options.result_filename;
  return check_apart({{"--tools", options.tools},
                      {"--dataset-path", options.dataset_path},
                      {"--ca-file", options.ca_file}},
                     {{"--figures", options.figures},
                      {"--html", options.html},
                      {"--output-file", options.output_file},
                      {"--result-filename", result.empty() ? "" : result_path(options, result)}});
}

// A load test takes long: its files are tried before.
Status prepare_files(const BenchServeOptions& options) {
  GLINT_TRY_STATUS(check_names(options));
  GLINT_TRY_STATUS(check_result_file(options.figures));
  GLINT_TRY_STATUS(check_result_file(options.html));
  GLINT_TRY_STATUS(append(options, ""));
  if (!saves_results(options)) return Ok{};
  std::error_code error;
  if (!options.result_dir.empty()) std::filesystem::create_directories(options.result_dir, error);
  return check_result_file(
      result_path(options, options.result_filename.empty() ? "result" : options.result_filename));
}

// Measurements of one load may end in the same second: "x.json", "x-2.json", ...
std::string free_path(const std::string& path) {
  std::string out = path;
  for (int i = 2; is_present(out); ++i)
    out = str(path.substr(0, path.size() - std::string_view(".json").size()), "-", i, ".json");
  return out;
}

Status save(const BenchServeOptions& options, const Measurement& m) {
  if (saves_results(options)) {
    const std::string date = date_now("%Y%m%d-%H%M%S");
    const std::string path = options.result_filename.empty()
                                 ? free_path(result_path(options, vllm_file_name(m, date)))
                                 : result_path(options, options.result_filename);
    const Json json = vllm_result(m, date, options.save_detailed);
    GLINT_TRY_STATUS(write_file_atomic(path, dump_json(json) + "\n"));
  }
  return append(options, dump_json(sglang_result(m)) + "\n");
}

// A program that reads the table has a row a line.
int table_width(const Cli& cli) { return cli.console.out_is_terminal() ? cli.console.width() : 0; }

Result<Measurement> measure(const BenchServeOptions& options, LoadOptions load,
                            LoadGenerator& generator, Cli& cli) {
  GLINT_TRY(std::vector<std::string> metrics, metrics_of(options));
  Measurement out = {.model = generator.model(),
                     .url = *options.url,
                     .backend = options.backend,
                     .dataset = options.dataset_name,
                     .label = options.label,
                     .metrics = std::move(metrics),
                     .options = {},
                     .result = {}};
  {
    Progress progress(load.concurrency > 0 ? str(load.concurrency, " at once") : "requests",
                      load.num_prompts, Progress::Unit::kItems, options.disable_tqdm ? -1 : 2);
    load.on_answers = [&](int count) { progress.add(count); };
    out.result = generator.run(load);
    load.on_answers = {};
  }
  out.options = std::move(load);
  const LoadResult& result = out.result;
  if (!options.json) cli.console.print(table_row(out, table_width(cli))), cli.console.flush();
  tell_failures(result.summary.num_failed, result.summary.first_failure, cli);
  if (result.num_different > 0) {
    cli.failed = true;
    cli.console.note(str("glint: ", result.num_different, " of ", result.num_compared,
                         " streams had other tokens than the same answer asked alone"));
  }
  GLINT_TRY_STATUS(save(options, out));
  if (options.html.empty()) out.result.records = {};
  return out;
}

// Each is measured once; of a latency half and a hundredth of the requests have more.
std::vector<Figure> figures_of(const Measurement& m) {
  const LoadSummary& s = m.result.summary;
  const std::string at = m.options.concurrency > 0 ? str(", ", m.options.concurrency, " at once")
                         : m.options.arrivals.are_at_once() ? std::string(", all at once")
                                                            : std::string(", at a rate");
  std::vector<Figure> out = {
      {.name = "output" + at, .unit = "tok/s", .samples = {s.output_tokens_per_s()}}};
  for (const auto& [name, d] :
       {std::pair("TTFT", &s.ttft_ms), std::pair("ITL", &s.itl_ms), std::pair("E2E", &s.e2el_ms)}) {
    if (d->count == 0) continue;
    for (const auto& [part, value] : {std::pair(" p50", d->p50), std::pair(" p99", d->p99)}) {
      out.push_back({.name = name + std::string(part) + at,
                     .unit = "ms",
                     .more_is_better = false,
                     .samples = {value}});
    }
  }
  return out;
}

// One for each request, and again from the first where the file has fewer.
Status read_conversations(const BenchServeOptions& options, std::uint64_t seed, LoadOptions& load,
                          Cli& cli) {
  if (options.dataset_name != "sharegpt") return Ok{};
  GLINT_TRY(
      const std::vector<Conversation> all,
      read_sharegpt(options.dataset_path, options.output_len.value_or(0), options.max_turns, seed));
  const auto count = static_cast<std::size_t>(load.num_prompts + load.num_warmups);
  if (load.num_warmups > 0 && all.size() < count)
    cli.console.note(str("warning: ", quoted_path(options.dataset_path), " has ",
                         counted(std::ssize(all), "conversation"), " for ",
                         counted(load.num_prompts, "request"), " and ",
                         counted(load.num_warmups, "warm-up"),
                         ": these ask what is measured, too, which a server remembers"));
  for (std::size_t i = 0; i < count; ++i) load.conversations.push_back(all[i % all.size()]);
  return Ok{};
}

Status measure_load(const BenchServeOptions& options, LoadGenerator& generator, Cli& cli) {
  GLINT_TRY(const Arrivals arrivals, arrivals_of(options));
  GLINT_TRY(const Goodput goodput, goodput_of(options));
  GLINT_TRY(const std::vector<double> percentiles, percentiles_of(options));
  std::vector<int> all = options.concurrency;
  const bool open = has_rate(options) || (options.request_rate && all.empty());
  if (all.empty()) all = open ? std::vector<int>{0} : std::vector<int>{1, 8, 64, 256, 1024};
  if (all.size() > 1 && !options.result_filename.empty())
    return invalid(
        "--result-filename names the file of one measurement; --save-result names several");
  std::vector<Measurement> measured;
  std::vector<Figure> figures;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int count = options.num_prompts.value_or(open ? 100 : std::max(2 * all[i], 32));
    GLINT_TRY(const PromptOptions prompts, prompts_of(options, i));
    LoadOptions load = {.prompts = prompts,
                        .concurrency = all[i],
                        .num_prompts = count,
                        .num_warmups = options.num_warmups,
                        .arrivals = arrivals,
                        .goodput = goodput,
                        .percentiles = percentiles,
                        .num_checked = options.check.value_or(8)};
    GLINT_TRY_STATUS(read_conversations(options, options.seed + i, load, cli));
    if (!options.json && i == 0)
      cli.console.print(table_head(goodput.is_asked(), table_width(cli))), cli.console.flush();
    GLINT_TRY(Measurement each, measure(options, std::move(load), generator, cli));
    for (Figure& figure : figures_of(each)) figures.push_back(std::move(figure));
    measured.push_back(std::move(each));
  }
  GLINT_TRY_STATUS(
      write_figures(options.figures, {.benchmark = "bench serve",
                                      .options = Json::Object{{"model", generator.model()},
                                                              {"input_len", input_len_of(options)},
                                                              {"dataset", options.dataset_name}},
                                      .figures = figures}));
  if (!options.html.empty())
    GLINT_TRY_STATUS(
        write_file_atomic(options.html, load_html(measured, date_now("%Y-%m-%d %H:%M"))));
  if (options.json) {
    Json::Array results;
    for (const Measurement& each : measured) results.push_back(to_json(each));
    print_json(options, generator, std::move(results), figures, cli);
  } else {
    cli.console.print(measured.size() == 1 ? details_table(measured[0]) : table_peaks(measured));
  }
  return Ok{};
}

void measure_long_prompts(const BenchServeOptions& options, LoadGenerator& generator, Cli& cli) {
  std::vector<int> all = options.concurrency;
  if (all.empty()) all = {8};
  Json::Array results;
  if (!options.json)
    cli.console.print(
        "                        prefill   ITL ms, plain         beside a long prompt\n"
        "     c  prompts failed  p50 ms    p50    p99    max     p50    p99    max   over plain "
        "p50: "
        "p50    p99\n");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const LongPromptResult r = generator.run_long_prompts({.prompts = streams_of(options, i),
                                                           .concurrency = all[i],
                                                           .long_len = options.long_prompt,
                                                           .repeat = options.repeat,
                                                           .pause_seconds = options.pause});
    const Distribution prefill = Distribution::of(r.prefill_ms);
    // How many times the median gap of plain decoding, if both were measured.
    const auto over_plain = [&](double ms) -> std::optional<double> {
      if (r.beside_ms.count == 0 || r.plain_ms.p50 <= 0) return {};
      return ms / r.plain_ms.p50;
    };
    const auto p50 = over_plain(r.beside_ms.p50), p99 = over_plain(r.beside_ms.p99);
    results.push_back(Json::Object{{"concurrency", all[i]},
                                   {"long_prompt", options.long_prompt},
                                   {"failed", r.num_failed},
                                   {"prefill_ms", to_json(prefill)},
                                   {"plain_itl_ms", to_json(r.plain_ms)},
                                   {"beside_itl_ms", to_json(r.beside_ms)},
                                   {"beside_p50_over_plain_p50", p50 ? Json(*p50) : Json()},
                                   {"beside_p99_over_plain_p50", p99 ? Json(*p99) : Json()}});
    tell_failures(r.num_failed, r.first_failure, cli);
    if (options.json) continue;
    const auto gaps = [](const Distribution& d) {
      return formatted(" %6s %6s %6s ", number_of(d, d.p50, 1).c_str(),
                       number_of(d, d.p99, 1).c_str(), number_of(d, d.max, 0).c_str());
    };
    const auto ratio = [](int width, const std::optional<double>& value) {
      return formatted(" %*s", width, value ? formatted("%.2f", *value).c_str() : "-");
    };
    cli.console.print(formatted("%6d  %7zu %6d %7s", all[i], r.prefill_ms.size(), r.num_failed,
                                number_of(prefill, prefill.p50, 0).c_str()) +
                      gaps(r.plain_ms) + gaps(r.beside_ms) + ratio(18, p50) + ratio(6, p99) + "\n");
    cli.console.flush();
  }
  if (options.json) print_json(options, generator, std::move(results), {}, cli);
}

Status run(const BenchServeOptions& given, Cli& cli) {
  GLINT_TRY_STATUS(check_options(given));
  BenchServeOptions options = given;
  GLINT_TRY(options.url, url_of(given));
  GLINT_TRY(std::string server, parse_api_server(*options.url));
  GLINT_TRY_STATUS(parse_server_url(server + options.endpoint));
  GLINT_TRY(Json fields, fields_of(options));
  int connections = 1024;
  for (const int c : options.concurrency) connections = std::max(connections, c);
  GLINT_TRY(LoadGenerator generator,
            LoadGenerator::connect({.server = std::move(server),
                                    .http = {.read_seconds = options.timeout,
                                             .read_option = "--timeout",
                                             .ca_file = options.ca_file,
                                             .ca_option = "--ca-file"},
                                    .api_key = cli.environment.api_key,
                                    .model = options.model,
                                    .chat = asks_chat(options),
                                    .path = options.endpoint,
                                    .fields = std::move(fields)},
                                   std::max(connections, options.num_prompts.value_or(0)) + 1));
  GLINT_TRY_STATUS(prepare_files(options));
  if (options.long_prompt == 0) return measure_load(options, generator, cli);
  measure_long_prompts(options, generator, cli);
  return Ok{};
}

}  // namespace

Command bench_serve_command() {
  return make_command<BenchServeOptions>(
      {.name = "bench serve",
       .group = "Machine",
       .summary = "load on a running server, and what its clients see",
       .description =
           "Sends prompts to any server of OpenAI's API, over as many connections as requests run "
           "at once, and reads the streams on one thread. With -c clients ask again when they are "
           "answered (closed loop); with --request-rate requests come whether or not the server "
           "keeps up (open loop). Prints for each measurement the output tokens per second of all "
           "together, the mean time to the first chunk (TTFT) and per further token (TPOT), the "
           "gaps between chunks (ITL), whole answers (E2E), requests that failed or whose tokens "
           "differ from the same answer asked alone (both must be 0), for glint what a step took "
           "in the model and what the host cost beside it, and what the generator itself cost: "
           "its CPU, and how late its timers were, which is what its times are good for. Options "
           "have the names that vLLM's benchmark has, and some of SGLang's; defaults are other "
           "ones: several loads one after the other (-c), prompts of 128 tokens, answers of 64, "
           "temperature 0. The key of a server that wants one is "
           "GLINT_API_KEY. Exit code 1 if a request failed or its tokens differ.",
       .examples = {{"glint bench serve http://127.0.0.1:8000", "1 to 1024 requests at once"},
                    {"glint bench serve http://127.0.0.1:8000 -c 64 --input-len 1024 "
                     "--output-len 256 --json",
                     "one measurement, for a program"},
                    {"glint bench serve http://127.0.0.1:8000 -c 1,8,16,32,64 --html report.html",
                     "where more clients stop helping, as a page"},
                    {"glint bench serve http://127.0.0.1:8000 --request-rate 4 --goodput ttft:500 "
                     "tpot:50",
                     "an open loop, and how many answers are good"},
                    {"glint bench serve http://127.0.0.1:8000 --long-prompt 2900",
                     "what a long prompt does to those who decode"}}},
      run);
}

}  // namespace glint
