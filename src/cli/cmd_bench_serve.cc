// glint bench serve: load on a running server, and what its clients see of it.
#include <ctime>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "base/str.h"
#include "bench/load.h"
#include "bench/report.h"
#include "bench/results.h"
#include "cli/command.h"
#include "cli/option_range.h"
#include "cli/result_file.h"

namespace glint {
namespace {

constexpr int kInputLen = 128, kVocab = 1024;
constexpr int kLongStreams = 1024;  // tokens of the streams beside long prompts

struct LoadFlags {
  std::vector<int> concurrency;
  std::string request_rate = "inf";
  double burstiness = 1, ramp_up_start_rps = 0, ramp_up_end_rps = 0;
  std::string ramp_up_strategy = "none";
  std::optional<int> num_prompts;
  int num_warmups = 0;
  std::vector<std::string> goodput;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Load");
    v("concurrency,c,max-concurrency=N,...", concurrency,
      "requests at once, at most; several are measured one after the other (default: "
      "1,8,64,256,1024; with a rate any number; beside long prompts 8)");
    v("request-rate=X", request_rate, "requests come at this rate per second (inf: at once)");
    v("burstiness=X", burstiness,
      "shape of the gaps between them: 1 is a Poisson process, less is burstier, more is more "
      "even");
    v("ramp-up-strategy", ramp_up_strategy, "how the rate goes from its start to its end",
      {"none", "linear", "exponential"});
    v("ramp-up-start-rps=X", ramp_up_start_rps, "rate at the first request");
    v("ramp-up-end-rps=X", ramp_up_end_rps, "rate at the last");
    v("num-prompts=N", num_prompts,
      "requests of each measurement (default: two for each that runs at once, at least 32; with a "
      "rate 100)");
    v("num-warmups=N", num_warmups, "requests before each measurement, which do not count");
    v("goodput=METRIC:MS", goodput,
      "count answers within these limits, of ttft, tpot and e2el; repeatable");
  }
};

struct PromptFlags {
  std::string dataset_name = "random", dataset_path;
  std::optional<int> input_len, output_len;
  std::optional<double> random_range_ratio;
  std::string range_dialect = "vllm";
  int random_prefix_len = 0, num_prefixes = 1, max_turns = 1;
  std::optional<int> vocab;
  std::uint64_t seed = 0;
  int check = 8;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Prompts");
    v("dataset-name", dataset_name, "prompts drawn at random, or a file of conversations",
      {"random", "sharegpt"});
    v("dataset-path=FILE", dataset_path, "the file, as ShareGPT has it");
    v("input-len,random-input-len=N", input_len,
      "tokens of a prompt drawn at random (default: 128)");
    v("output-len,random-output-len,sharegpt-output-len=N", output_len,
      "tokens of an answer (default: 64, beside long prompts 1024, of a file what its answers "
      "have)");
    v("random-range-ratio=X", random_range_ratio,
      "how much lengths vary, as --range-dialect means it (default: not at all)");
    v("range-dialect", range_dialect,
      "vllm: from len*(1-X) to len*(1+X); sglang: from len*X to len", {"vllm", "sglang"});
    v("random-prefix-len=N", random_prefix_len,
      "tokens that prompts have in common, before their own");
    v("num-prefixes=N", num_prefixes, "how many such beginnings there are");
    v("vocab=N", vocab, "draw tokens from ids below this (default: 1024)");
    v("max-turns=N", max_turns,
      "questions of a conversation, each asked with the answers before it (with openai-chat)");
    v("seed", seed, "other seeds are other prompts and times");
    v("check=N", check,
      "ask so many answers again, alone and not streamed, and compare their tokens");
  }
};

struct RequestFlags {
  std::string backend = "openai", model;
  bool ignore_eos = true, token_ids = true;
  std::string tools, extra_body, ca_file;
  double timeout = HttpClientOptions().read_seconds;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Requests");
    v("backend,endpoint-type", backend, "/v1/completions, or /v1/chat/completions",
      {"openai", "openai-chat"});
    v("model", model, "the model's name (default: the first that the server lists)");
    v("ignore-eos", ignore_eos, "answers have exactly the length that was asked for");
    v("token-ids", token_ids, "ask for the ids of tokens, which show what drafts bring");
    v("tools=FILE", tools, "JSON list of tools that every request of openai-chat has");
    v("extra-body=JSON", extra_body, "fields of every request, such as '{\"temperature\": 1}'");
    v("timeout=SECONDS", timeout, "a request fails of which nothing comes for so long");
    v("ca-file=FILE", ca_file, "PEM file of roots to trust (default: this machine's)");
  }
};

struct LongPromptFlags {
  int long_prompt = 0, repeat = 5;
  double pause = 1;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Long prompts");
    v("long-prompt=N", long_prompt,
      "instead: let streams decode, send prompts of N tokens one at a time, and compare the gaps "
      "between tokens with those of plain decoding");
    v("repeat=N", repeat, "how many long prompts");
    v("pause=SECONDS", pause, "plain decoding before each");
  }
};

struct OutputFlags {
  bool json = false, save_result = false, save_detailed = false;
  std::string result_dir, result_filename, output_file, figures, html, label;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Output");
    v("json", json, "print one JSON object");
    v("save-result", save_result, "write a file for each measurement, with the keys of vLLM's");
    v("save-detailed", save_detailed, "with every request in it");
    v("result-dir=DIR", result_dir, "where to; it is made (default: here)");
    v("result-filename=FILE", result_filename,
      "one measurement's file (default: named as by vLLM)");
    v("output-file=FILE", output_file,
      "append a line for each measurement, with the keys of SGLang's");
    v("figures=FILE", figures,
      "write throughput and latencies, this machine and this build, as JSON");
    v("html=FILE", html, "write a page with curves, distributions and every request");
    v("label=TEXT", label, "stands in all of them");
  }
};

struct Options : LoadFlags, PromptFlags, RequestFlags, LongPromptFlags, OutputFlags {
  std::string url;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("URL", url, "of the server: http://127.0.0.1:8000");
    LoadFlags::visit(v);
    PromptFlags::visit(v);
    RequestFlags::visit(v);
    LongPromptFlags::visit(v);
    OutputFlags::visit(v);
  }
};

Status check_at_least(std::string_view option, int value, int least) {
  return check_range(option, value, least, 1 << 24);
}

Status check_options(const Options& options) {
  for (const int c : options.concurrency) GLINT_TRY_STATUS(check_at_least("concurrency", c, 1));
  GLINT_TRY_STATUS(check_at_least("input-len", options.input_len.value_or(1), 1));
  GLINT_TRY_STATUS(check_at_least("output-len", options.output_len.value_or(1), 1));
  GLINT_TRY_STATUS(check_at_least("num-prompts", options.num_prompts.value_or(1), 1));
  GLINT_TRY_STATUS(check_at_least("vocab", options.vocab.value_or(1), 1));
  GLINT_TRY_STATUS(check_at_least("check", options.check, 0));
  GLINT_TRY_STATUS(check_at_least("long-prompt", options.long_prompt, 0));
  GLINT_TRY_STATUS(check_at_least("repeat", options.repeat, 1));
  GLINT_TRY_STATUS(check_at_least("num-warmups", options.num_warmups, 0));
  GLINT_TRY_STATUS(check_at_least("random-prefix-len", options.random_prefix_len, 0));
  GLINT_TRY_STATUS(check_at_least("num-prefixes", options.num_prefixes, 1));
  GLINT_TRY_STATUS(check_at_least("max-turns", options.max_turns, 1));
  GLINT_TRY_STATUS(check_range("random-range-ratio", options.random_range_ratio.value_or(0), 0, 1));
  const bool file = options.dataset_name == "sharegpt";
  if (file != !options.dataset_path.empty())
    return invalid("--dataset-name sharegpt and --dataset-path FILE go together");
  if (!file && options.backend == "openai-chat")
    return invalid(
        "--backend openai-chat asks with text: name a file with --dataset-name sharegpt");
  GLINT_TRY_STATUS(check_timeout(options.timeout));
  if (!(options.pause >= 0 && options.pause <= 3600))
    return invalid(str("--pause is ", options.pause, "; it must be from 0 to 3600 seconds"));
  return Ok{};
}

bool saves(const Options& options) {
  return options.save_result || options.save_detailed || !options.result_filename.empty();
}

// Options that say something about another one.
Status check_companions(const Options& o) {
  struct Companion {
    const char* name;
    bool given;
    const char* needs;
    bool there;
  };
  const bool ramps = o.ramp_up_strategy != "none", chats = o.backend == "openai-chat";
  const Companion companions[] = {
      {"--ramp-up-start-rps", o.ramp_up_start_rps != 0, "--ramp-up-strategy", ramps},
      {"--ramp-up-end-rps", o.ramp_up_end_rps != 0, "--ramp-up-strategy", ramps},
      {"--range-dialect", o.range_dialect != "vllm", "--random-range-ratio",
       o.random_range_ratio.has_value()},
      {"--num-prefixes", o.num_prefixes > 1, "--random-prefix-len", o.random_prefix_len > 0},
      {"--max-turns", o.max_turns > 1, "--backend openai-chat", chats},
      {"--tools", !o.tools.empty(), "--backend openai-chat", chats},
      {"--repeat", o.repeat != LongPromptFlags().repeat, "--long-prompt", o.long_prompt > 0},
      {"--pause", o.pause != LongPromptFlags().pause, "--long-prompt", o.long_prompt > 0},
      {"--result-dir", !o.result_dir.empty(), "--save-result", saves(o)}};
  for (const auto& [name, given, needs, there] : companions) {
    if (given && !there) return invalid(str(name, " needs ", needs));
  }
  return Ok{};
}

// A file's prompts are as they are.
Status check_file(const Options& options) {
  if (options.dataset_name != "sharegpt") return Ok{};
  const std::pair<const char*, bool> without[] = {
      {"--input-len", options.input_len.has_value()},
      {"--random-range-ratio", options.random_range_ratio.has_value()},
      {"--random-prefix-len", options.random_prefix_len > 0},
      {"--vocab", options.vocab.has_value()}};
  for (const auto& [name, given] : without) {
    if (given)
      return invalid(str(name, " is for prompts drawn at random; leave it out with ",
                         "--dataset-name sharegpt"));
  }
  return Ok{};
}

// Streams and long prompts come as they do, and what they show is printed.
Status check_long_prompts(const Options& options) {
  const std::pair<const char*, bool> without[] = {
      {"--request-rate", options.request_rate != "inf"},
      {"--ramp-up-strategy", options.ramp_up_strategy != "none"},
      {"--num-prompts", options.num_prompts.has_value()},
      {"--num-warmups", options.num_warmups > 0},
      {"--goodput", !options.goodput.empty()},
      {"--dataset-path", !options.dataset_path.empty()},
      {"--random-range-ratio", options.random_range_ratio.has_value()},
      {"--random-prefix-len", options.random_prefix_len > 0},
      {"--save-result", saves(options)},
      {"--output-file", !options.output_file.empty()},
      {"--figures", !options.figures.empty()},
      {"--html", !options.html.empty()}};
  for (const auto& [name, given] : without) {
    if (given && options.long_prompt > 0)
      return invalid(str(name, " has no meaning with --long-prompt; leave one out"));
  }
  return Ok{};
}

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

// Null where prompts have lengths of their own.
Json input_len_of(const Options& options) {
  return options.dataset_name == "random" ? Json(options.input_len.value_or(kInputLen)) : Json();
}

void print_json(const Options& options, const LoadGenerator& generator, Json::Array results,
                std::span<const Figure> figures, Cli& cli) {
  const Json object(Json::Object{{"url", options.url},
                                 {"model", generator.model()},
                                 {"input_len", input_len_of(options)},
                                 {"results", std::move(results)},
                                 {"figures", figures_json(figures)}});
  cli.console.print(dump_json(object, JsonStyle::kIndent2) + "\n");
}

void tell_failures(int num_failed, const std::string& first, Cli& cli) {
  if (num_failed == 0) return;
  cli.failed = true;
  cli.console.note(str("glint: ", num_failed, " requests failed; the first: ", first));
}

Result<Goodput> parse_goodput(const std::vector<std::string>& limits) {
  Goodput out;
  for (const std::string& text : limits) {
    for (const std::string_view limit : split(text, ' ')) {
      const std::size_t colon = std::min(limit.find(':'), limit.size());
      const std::string_view name = limit.substr(0, colon);
      double ms = 0;
      const bool number = colon < limit.size() && option_detail::parse(limit.substr(colon + 1), ms);
      std::optional<double>* field = name == "ttft"   ? &out.ttft_ms
                                     : name == "tpot" ? &out.tpot_ms
                                     : name == "e2el" ? &out.e2el_ms
                                                      : nullptr;
      if (!field || !number || !(ms > 0))
        return invalid(str("--goodput expects ttft:MS, tpot:MS or e2el:MS, got ", quoted(limit)));
      *field = ms;
    }
  }
  return out;
}

Result<Arrivals> arrivals_of(const Options& options) {
  const bool ramps = options.ramp_up_strategy != "none";
  double rate = 0;
  const bool finite = options.request_rate != "inf";
  if (finite && !(option_detail::parse(options.request_rate, rate) && rate > 0))
    return invalid(str("--request-rate is ", quoted(options.request_rate),
                       "; it must be a number above 0, or inf"));
  if (!(options.burstiness > 0))
    return invalid(str("--burstiness is ", options.burstiness, "; it must be more than 0"));
  if (ramps && finite) return invalid("--ramp-up-strategy sets the rate: leave --request-rate out");
  if (ramps && !(options.ramp_up_start_rps > 0 && options.ramp_up_end_rps > 0))
    return invalid("--ramp-up-strategy wants --ramp-up-start-rps and --ramp-up-end-rps, above 0");
  return Arrivals{.rate = rate,
                  .burstiness = options.burstiness,
                  .ramp_start = ramps ? options.ramp_up_start_rps : 0,
                  .ramp_end = ramps ? options.ramp_up_end_rps : 0,
                  .exponential = options.ramp_up_strategy == "exponential",
                  .seed = options.seed};
}

PromptOptions prompts_of(const Options& options, std::uint64_t measurement) {
  const bool vllm = options.range_dialect == "vllm";
  const double ratio = options.random_range_ratio.value_or(vllm ? 0 : 1);
  return {.input_len = options.input_len.value_or(kInputLen),
          .output_len = options.output_len.value_or(64),
          .input_ratio = ratio,
          .output_ratio = ratio,
          .dialect = vllm ? RangeDialect::kVllm : RangeDialect::kSglang,
          .prefix_len = options.random_prefix_len,
          .num_prefixes = options.num_prefixes,
          .num_ids = options.vocab.value_or(kVocab),
          .seed = (options.seed << 16) + measurement};
}

// The fields of every request.
Result<Json> fields_of(const Options& options) {
  Json out(Json::Object{{"temperature", 0}});
  if (options.ignore_eos) out.set("ignore_eos", true);
  if (options.token_ids) out.set("return_token_ids", true);
  if (!options.tools.empty()) {
    GLINT_TRY(const std::string text, read_file(options.tools));
    GLINT_TRY(Json tools, parse_json(text).in(quoted(options.tools)));
    out.set("tools", std::move(tools));
  }
  if (!options.extra_body.empty()) {
    GLINT_TRY(const Json extra, parse_json(options.extra_body).in("--extra-body"));
    if (!extra.is_object()) return invalid("--extra-body is no JSON object");
    for (const auto& [name, value] : extra.as_object()) out.set(name, value);
  }
  return out;
}

std::string date_now(const char* format) {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, format, &local);
  return text;
}

std::string result_path(const Options& options, const std::string& name) {
  return options.result_dir.empty() ? name : options.result_dir + "/" + name;
}

Status append(const Options& options, const std::string& text) {
  if (options.output_file.empty()) return Ok{};
  std::ofstream lines(options.output_file, std::ios::app);
  lines << text << std::flush;
  if (!lines) return invalid(str("cannot write ", quoted(options.output_file, 4096)));
  return Ok{};
}

// A load test takes long: its files are tried before.
Status prepare_files(const Options& options) {
  GLINT_TRY_STATUS(check_result_file(options.figures));
  GLINT_TRY_STATUS(check_result_file(options.html));
  GLINT_TRY_STATUS(append(options, ""));
  if (!saves(options)) return Ok{};
  std::error_code error;
  if (!options.result_dir.empty()) std::filesystem::create_directories(options.result_dir, error);
  return check_result_file(
      result_path(options, options.result_filename.empty() ? "result" : options.result_filename));
}

Status save(const Options& options, const Measurement& m) {
  if (saves(options)) {
    const std::string date = date_now("%Y%m%d-%H%M%S");
    const std::string path =
        result_path(options, options.result_filename.empty() ? vllm_file_name(m, date)
                                                             : options.result_filename);
    const Json json = vllm_result(m, date, options.save_detailed);
    GLINT_TRY_STATUS(write_file_atomic(path, dump_json(json) + "\n"));
  }
  return append(options, dump_json(sglang_result(m)) + "\n");
}

Result<Measurement> measure(const Options& options, LoadOptions load, LoadGenerator& generator,
                            Cli& cli) {
  Measurement out = {.model = generator.model(),
                     .url = options.url,
                     .backend = options.backend,
                     .dataset = options.dataset_name,
                     .label = options.label,
                     .options = {},
                     .result = {}};
  {
    Progress progress(load.concurrency > 0 ? str(load.concurrency, " at once") : "requests",
                      load.num_prompts, Progress::Unit::kItems);
    load.on_answer = [&] { progress.add(1); };
    out.result = generator.run(load);
    load.on_answer = {};
  }
  out.options = std::move(load);
  const LoadResult& result = out.result;
  if (!options.json) cli.console.print(table_row(out)), cli.console.flush();
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

Status measure_load(const Options& options, LoadGenerator& generator, Cli& cli) {
  GLINT_TRY(const Arrivals arrivals, arrivals_of(options));
  GLINT_TRY(const Goodput goodput, parse_goodput(options.goodput));
  const bool open = arrivals.rate > 0 || arrivals.ramp_end > 0;
  std::vector<int> all = options.concurrency;
  if (all.empty()) all = open ? std::vector<int>{0} : std::vector<int>{1, 8, 64, 256, 1024};
  if (all.size() > 1 && !options.result_filename.empty())
    return invalid(
        "--result-filename names the file of one measurement; --save-result names several");
  std::vector<Measurement> measured;
  std::vector<Figure> figures;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int count = options.num_prompts.value_or(open ? 100 : std::max(2 * all[i], 32));
    // Prompts of their own for each measurement: the server remembers old ones.
    LoadOptions load = {.prompts = prompts_of(options, i),
                        .concurrency = all[i],
                        .num_prompts = count,
                        .num_warmups = options.num_warmups,
                        .arrivals = arrivals,
                        .goodput = goodput,
                        .num_checked = options.check};
    if (options.dataset_name == "sharegpt") {
      GLINT_TRY(load.conversations,
                read_sharegpt(options.dataset_path, options.output_len.value_or(0),
                              options.max_turns, count, options.seed + i));
    }
    if (!options.json && i == 0)
      cli.console.print(table_head(goodput.is_asked())), cli.console.flush();
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

void measure_long_prompts(const Options& options, LoadGenerator& generator, Cli& cli) {
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
    const LongPromptResult r = generator.run_long_prompts(
        {.prompts = {.input_len = options.input_len.value_or(kInputLen),
                     .output_len = options.output_len.value_or(kLongStreams),
                     .num_ids = options.vocab.value_or(kVocab),
                     .seed = (options.seed << 16) + 2 * i},
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

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check_options(options));
  GLINT_TRY_STATUS(check_companions(options));
  GLINT_TRY_STATUS(check_file(options));
  GLINT_TRY_STATUS(check_long_prompts(options));
  GLINT_TRY(const ServerUrl url, parse_server_url(options.url));
  GLINT_TRY(Json fields, fields_of(options));
  int connections = 1024;
  for (const int c : options.concurrency) connections = std::max(connections, c);
  GLINT_TRY(LoadGenerator generator,
            LoadGenerator::connect({.server = url.origin,
                                    .http = {.read_seconds = options.timeout,
                                             .read_option = "--timeout",
                                             .ca_file = options.ca_file},
                                    .api_key = cli.environment.api_key,
                                    .model = options.model,
                                    .chat = options.backend == "openai-chat",
                                    .fields = std::move(fields)},
                                   std::max(connections, options.num_prompts.value_or(0)) + 1));
  GLINT_TRY_STATUS(prepare_files(options));
  if (options.long_prompt == 0) return measure_load(options, generator, cli);
  measure_long_prompts(options, generator, cli);
  return Ok{};
}

}  // namespace

Command bench_serve_command() {
  return make_command<Options>(
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
           "have the names that vLLM's benchmark has. The key of a server that wants one is "
           "GLINT_API_KEY. Exit code 1 if a request failed or its tokens differ.",
       .examples = {{"glint bench serve http://127.0.0.1:8000", "1 to 1024 requests at once"},
                    {"glint bench serve http://127.0.0.1:8000 -c 64 --input-len 1024 "
                     "--output-len 256 --json",
                     "one measurement, for a program"},
                    {"glint bench serve http://127.0.0.1:8000 -c 1,8,16,32,64 --html report.html",
                     "where more clients stop helping, as a page"},
                    {"glint bench serve http://127.0.0.1:8000 --request-rate 4 --goodput ttft:500 "
                     "--goodput tpot:50",
                     "an open loop, and how many answers are good"},
                    {"glint bench serve http://127.0.0.1:8000 --long-prompt 8192",
                     "what a long prompt does to those who decode"}}},
      run);
}

}  // namespace glint
