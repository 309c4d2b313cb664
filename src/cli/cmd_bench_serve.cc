// glint bench serve: load on a running server, and what its clients see of it.
#include <cstdio>

#include "base/json.h"
#include "base/progress.h"
#include "base/str.h"
#include "bench/load.h"
#include "cli/command.h"

namespace glint {
namespace {

constexpr int kLongStreams = 1024;  // tokens of the streams beside long prompts

struct Options {
  std::string url, model, ca_file;
  std::vector<int> concurrency;
  int input_len = 128;
  std::optional<int> output_len;
  int num_prompts = 0;
  int vocab = 1024;
  std::uint64_t seed = 0;
  int check = 8;
  int long_prompt = 0;
  int repeat = 5;
  double pause = 1;
  bool json = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("URL", url, "of the server: http://127.0.0.1:8000");
    v.section("Load");
    v("concurrency,c=N,...", concurrency,
      "requests at once; several are measured one after the other (default: 1,8,64,256,1024, "
      "beside long prompts 8)");
    v("input-len=N", input_len, "tokens of a prompt, drawn at random");
    v("output-len=N", output_len, "tokens of an answer (default: 64, beside long prompts 1024)");
    v("num-prompts=N", num_prompts,
      "requests of each measurement (default: two for each that runs at once, at least 32)");
    v("vocab=N", vocab, "draw tokens from ids below this");
    v("seed", seed, "other seeds are other prompts");
    v("check=N", check,
      "ask so many answers again, alone and not streamed, and compare their tokens");
    v.section("Long prompts");
    v("long-prompt=N", long_prompt,
      "instead: let streams decode, send prompts of N tokens one at a time, and compare the gaps "
      "between tokens with those of plain decoding");
    v("repeat=N", repeat, "how many long prompts");
    v("pause=SECONDS", pause, "plain decoding before each");
    v.section("Server and output");
    v("model", model, "the model's name (default: the first that the server lists)");
    v("ca-file=FILE", ca_file, "PEM file of roots to trust (default: this machine's)");
    v("json", json, "print one JSON object");
  }
};

Status check_at_least(std::string_view option, int value, int least) {
  if (value >= least && value <= 1 << 24) return Ok{};
  return invalid(str("--", option, " is ", value, "; it must be from ", least, " to ", 1 << 24));
}

Status check_options(const Options& options) {
  for (const int c : options.concurrency) GLINT_TRY_STATUS(check_at_least("concurrency", c, 1));
  GLINT_TRY_STATUS(check_at_least("input-len", options.input_len, 1));
  GLINT_TRY_STATUS(check_at_least("output-len", options.output_len.value_or(1), 1));
  GLINT_TRY_STATUS(check_at_least("num-prompts", options.num_prompts, 0));
  GLINT_TRY_STATUS(check_at_least("vocab", options.vocab, 1));
  GLINT_TRY_STATUS(check_at_least("check", options.check, 0));
  GLINT_TRY_STATUS(check_at_least("long-prompt", options.long_prompt, 0));
  GLINT_TRY_STATUS(check_at_least("repeat", options.repeat, 1));
  if (!(options.pause >= 0 && options.pause <= 3600))
    return invalid(str("--pause is ", options.pause, "; it must be from 0 to 3600 seconds"));
  return Ok{};
}

constexpr char kHeader[] =
    "                                      TTFT ms              ITL ms                       "
    "engine            client\n"
    "     c  requests failed differ   tok/s    mean     p50     p99    mean    p50    p99    max  "
    "step ms  host us  of a core\n";

std::string table_row(int concurrency, const LoadResult& r) {
  const LoadSummary& s = r.summary;
  return formatted("%6d  %8d %6d %6d %7.0f %7.0f %7.0f %7.0f %7.1f %6.1f %6.1f %6.0f", concurrency,
                   s.num_requests, s.num_failed, r.num_different, s.output_tokens_per_s(),
                   s.ttft_ms.mean, s.ttft_ms.p50, s.ttft_ms.p99, s.itl_ms.mean, s.itl_ms.p50,
                   s.itl_ms.p99, s.itl_ms.max) +
         (r.engine.known ? formatted("  %7.2f  %7.0f", r.engine.step_ms, r.engine.overhead_us)
                         : formatted("  %7s  %7s", "-", "-")) +
         formatted("  %8.0f %%\n", 100 * r.client_cpu);
}

Json to_json(int concurrency, const LoadResult& r) {
  const LoadSummary& s = r.summary;
  Json out(Json::Object{{"concurrency", concurrency},
                        {"requests", s.num_requests},
                        {"failed", s.num_failed},
                        {"compared", r.num_compared},
                        {"different", r.num_different},
                        {"seconds", s.seconds},
                        {"output_tokens", s.output_tokens},
                        {"output_tokens_per_s", s.output_tokens_per_s()},
                        {"ttft_ms", to_json(s.ttft_ms)},
                        {"itl_ms", to_json(s.itl_ms)},
                        {"tpot_ms", to_json(s.tpot_ms)},
                        {"client_cpu", r.client_cpu}});
  if (r.engine.known)
    out.set("engine", Json::Object{{"steps", r.engine.steps},
                                   {"step_ms", r.engine.step_ms},
                                   {"overhead_us_per_step", r.engine.overhead_us}});
  return out;
}

void print_json(const Options& options, const LoadGenerator& generator, Json::Array results,
                Cli& cli) {
  const Json object(Json::Object{{"url", options.url},
                                 {"model", generator.model()},
                                 {"input_len", options.input_len},
                                 {"results", std::move(results)}});
  cli.console.print(dump_json(object, JsonStyle::kIndent2) + "\n");
}

void tell_failures(int num_failed, const std::string& first, Cli& cli) {
  if (num_failed == 0) return;
  cli.failed = true;
  cli.console.note(str("glint: ", num_failed, " requests failed; the first: ", first));
}

void measure_load(const Options& options, LoadGenerator& generator, Cli& cli) {
  if (!options.json) cli.console.print(kHeader), cli.console.flush();
  std::vector<int> all = options.concurrency;
  if (all.empty()) all = {1, 8, 64, 256, 1024};
  Json::Array results;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int c = all[i];
    const int count = options.num_prompts > 0 ? options.num_prompts : std::max(2 * c, 32);
    std::optional<Progress> progress;
    progress.emplace(str(c, " at once"), count, Progress::Unit::kItems);
    // Prompts of their own for each measurement: the server remembers old ones.
    const LoadResult result =
        generator.run({.prompts = {.input_len = options.input_len,
                                   .output_len = options.output_len.value_or(64),
                                   .num_ids = options.vocab,
                                   .seed = (options.seed << 16) + i},
                       .concurrency = c,
                       .num_prompts = count,
                       .num_checked = options.check,
                       .on_answer = [&] { progress->add(1); }});
    progress.reset();  // the bar is gone before anything is printed
    results.push_back(to_json(c, result));
    if (!options.json) cli.console.print(table_row(c, result)), cli.console.flush();
    tell_failures(result.summary.num_failed, result.summary.first_failure, cli);
    if (result.num_different > 0) {
      cli.failed = true;
      cli.console.note(str("glint: ", result.num_different, " of ", result.num_compared,
                           " streams had other tokens than the same answer asked alone"));
    }
  }
  if (options.json) print_json(options, generator, std::move(results), cli);
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
        {.prompts = {.input_len = options.input_len,
                     .output_len = options.output_len.value_or(kLongStreams),
                     .num_ids = options.vocab,
                     .seed = (options.seed << 16) + 2 * i},
         .concurrency = all[i],
         .long_len = options.long_prompt,
         .repeat = options.repeat,
         .pause_seconds = options.pause});
    const Distribution prefill = Distribution::of(r.prefill_ms);
    const double plain = r.plain_ms.p50 > 0 ? r.plain_ms.p50 : 1;
    results.push_back(Json::Object{{"concurrency", all[i]},
                                   {"long_prompt", options.long_prompt},
                                   {"failed", r.num_failed},
                                   {"prefill_ms", to_json(prefill)},
                                   {"plain_itl_ms", to_json(r.plain_ms)},
                                   {"beside_itl_ms", to_json(r.beside_ms)},
                                   {"beside_p50_over_plain_p50", r.beside_ms.p50 / plain},
                                   {"beside_p99_over_plain_p50", r.beside_ms.p99 / plain}});
    tell_failures(r.num_failed, r.first_failure, cli);
    if (options.json) continue;
    cli.console.print(
        formatted("%6d  %7zu %6d %7.0f %6.1f %6.1f %6.0f  %6.1f %6.1f %6.0f  %18.2f %6.2f\n",
                  all[i], r.prefill_ms.size(), r.num_failed, prefill.p50, r.plain_ms.p50,
                  r.plain_ms.p99, r.plain_ms.max, r.beside_ms.p50, r.beside_ms.p99, r.beside_ms.max,
                  r.beside_ms.p50 / plain, r.beside_ms.p99 / plain));
    cli.console.flush();
  }
  if (options.json) print_json(options, generator, std::move(results), cli);
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check_options(options));
  GLINT_TRY(const Url url, parse_url(options.url));
  int connections = 1024;
  for (const int c : options.concurrency) connections = std::max(connections, c);
  GLINT_TRY(LoadGenerator generator, LoadGenerator::connect({.server = url,
                                                             .http = {.ca_file = options.ca_file},
                                                             .api_key = cli.environment.api_key,
                                                             .model = options.model},
                                                            connections + 1));
  options.long_prompt > 0 ? measure_long_prompts(options, generator, cli)
                          : measure_load(options, generator, cli);
  return Ok{};
}

}  // namespace

Command bench_serve_command() {
  return make_command<Options>(
      {.name = "bench serve",
       .group = "Machine",
       .summary = "load on a running server, and what its clients see",
       .description =
           "Sends random prompts to /v1/completions of a server, glint or another, over as many "
           "connections as requests run at once, and reads the streams on one thread. Prints for "
           "each concurrency: requests that failed or whose tokens differ from the same answer "
           "asked alone (both must be 0), tokens per second of all together, the time to the "
           "first token (TTFT), the gaps between chunks of a stream (ITL), and for glint what a "
           "step took in the model and what the host cost beside it. The key of a server that "
           "wants one is GLINT_API_KEY. Exit code 1 if a request failed or its tokens differ.",
       .examples = {{"glint bench serve http://127.0.0.1:8000", "1 to 1024 requests at once"},
                    {"glint bench serve http://127.0.0.1:8000 -c 64 --input-len 1024 "
                     "--output-len 256 --json",
                     "one measurement, for a program"},
                    {"glint bench serve http://127.0.0.1:8000 --long-prompt 8192",
                     "what a long prompt does to those who decode"}}},
      run);
}

}  // namespace glint
