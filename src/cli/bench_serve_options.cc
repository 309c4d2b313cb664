#include "cli/bench_serve_options.h"

#include "base/file.h"
#include "base/option_value.h"
#include "base/str.h"
#include "cli/option_checks.h"

namespace glint {
namespace {

constexpr int kInputLen = 128, kVocab = 1024;
constexpr int kLongStreams = 1024;  // tokens of the streams beside long prompts

Status check_at_least(std::string_view option, int value, int least) {
  return check_range(option, value, least, 1 << 24);
}

// One ratio of both lengths, or one of each.
Status read_ratios(const std::string& text, PromptOptions& out) {
  if (parse_option(text, out.input_ratio)) {
    out.output_ratio = out.input_ratio;
  } else {
    const Result<Json> json = parse_json(text);
    const Json* const input = json.ok() ? json.value().find("input") : nullptr;
    const Json* const output = json.ok() ? json.value().find("output") : nullptr;
    if (!input || !output || !input->is_number() || !output->is_number())
      return invalid(str("--random-range-ratio is ", quoted(text),
                         "; expected a number, or {\"input\": X, \"output\": Y}"));
    out.input_ratio = input->as_double(), out.output_ratio = output->as_double();
  }
  for (const double ratio : {out.input_ratio, out.output_ratio})
    GLINT_TRY_STATUS(check_range("random-range-ratio", ratio, 0, 1));
  return Ok{};
}

// Bodies are of one kind, wherever the server takes them.
Status check_endpoint(const BenchServeOptions& options) {
  const std::string& path = options.endpoint;
  const bool chat = path.ends_with("/chat/completions");
  if (path.empty() ||
      (path.starts_with('/') && path.ends_with("/completions") && chat == asks_chat(options)))
    return Ok{};
  return invalid(str("--endpoint is ", quoted(path), "; with --backend ", options.backend,
                     " it must begin with / and end with ",
                     asks_chat(options) ? "/chat/completions" : "/completions, no chat's"));
}

Status check_values(const BenchServeOptions& options) {
  for (const int c : options.concurrency) GLINT_TRY_STATUS(check_at_least("concurrency", c, 1));
  GLINT_TRY_STATUS(check_at_least("input-len", options.input_len.value_or(1), 1));
  GLINT_TRY_STATUS(check_at_least("output-len", options.output_len.value_or(1), 1));
  GLINT_TRY_STATUS(check_at_least("num-prompts", options.num_prompts.value_or(1), 1));
  GLINT_TRY_STATUS(check_at_least("vocab", options.vocab.value_or(1), 1));
  GLINT_TRY_STATUS(check_at_least("check", options.check.value_or(0), 0));
  GLINT_TRY_STATUS(check_at_least("long-prompt", options.long_prompt, 0));
  GLINT_TRY_STATUS(check_at_least("repeat", options.repeat, 1));
  GLINT_TRY_STATUS(check_at_least("num-warmups", options.num_warmups, 0));
  GLINT_TRY_STATUS(check_at_least("random-prefix-len", options.random_prefix_len, 0));
  GLINT_TRY_STATUS(check_at_least("num-prefixes", options.num_prefixes, 1));
  GLINT_TRY_STATUS(check_at_least("max-turns", options.max_turns, 1));
  GLINT_TRY_STATUS(prompts_of(options, 0));
  GLINT_TRY_STATUS(metrics_of(options));
  GLINT_TRY_STATUS(percentiles_of(options));
  const bool file = options.dataset_name == "sharegpt";
  if (file != !options.dataset_path.empty())
    return invalid("--dataset-name sharegpt and --dataset-path FILE go together");
  if (options.vocab && asks_chat(options))
    return invalid(
        str("--vocab is for prompts of token ids; leave it out with --backend ", options.backend));
  GLINT_TRY_STATUS(check_endpoint(options));
  GLINT_TRY_STATUS(check_timeout(options.timeout));
  if (!(options.pause >= 0 && options.pause <= 3600))
    return invalid(str("--pause is ", options.pause, "; it must be from 0 to 3600 seconds"));
  return Ok{};
}

// Options that say something about another one.
Status check_companions(const BenchServeOptions& o) {
  const bool ramps = o.ramp_up_strategy != "none", chats = asks_chat(o);
  return check_needs(
      {{"--ramp-up-start-rps", o.ramp_up_start_rps != 0, "--ramp-up-strategy", ramps},
       {"--ramp-up-end-rps", o.ramp_up_end_rps != 0, "--ramp-up-strategy", ramps},
       {"--burstiness", o.burstiness != LoadFlags().burstiness,
        "a finite --request-rate, or --ramp-up-strategy", has_rate(o)},
       {"--range-dialect", o.range_dialect != "vllm", "--random-range-ratio",
        o.random_range_ratio.has_value()},
       {"--num-prefixes", o.num_prefixes > 1, "--random-prefix-len", o.random_prefix_len > 0},
       {"--max-turns", o.max_turns > 1, "--backend openai-chat", chats},
       {"--tools", !o.tools.empty(), "--backend openai-chat", chats},
       {"--repeat", o.repeat != LongPromptFlags().repeat, "--long-prompt", o.long_prompt > 0},
       {"--pause", o.pause != LongPromptFlags().pause, "--long-prompt", o.long_prompt > 0},
       {"--result-dir", !o.result_dir.empty(), "--save-result", saves_results(o)}});
}

// A file's prompts are as they are.
Status check_file(const BenchServeOptions& options) {
  if (options.dataset_name != "sharegpt") return Ok{};
  const std::string_view given =
      first_of({{"--input-len", options.input_len.has_value()},
                {"--random-range-ratio", options.random_range_ratio.has_value()},
                {"--random-prefix-len", options.random_prefix_len > 0},
                {"--vocab", options.vocab.has_value()}});
  if (given.empty()) return Ok{};
  return invalid(
      str(given, " is for prompts drawn at random; leave it out with ", "--dataset-name sharegpt"));
}

// Streams and long prompts come as they do, and what they show is printed.
Status check_long_prompts(const BenchServeOptions& options) {
  if (options.long_prompt == 0) return Ok{};
  const std::string_view given =
      first_of({{"--request-rate", options.request_rate.has_value()},
                {"--ramp-up-strategy", options.ramp_up_strategy != "none"},
                {"--num-prompts", options.num_prompts.has_value()},
                {"--num-warmups", options.num_warmups > 0},
                {"--goodput", !options.goodput.empty()},
                {"--dataset-path", !options.dataset_path.empty()},
                {"--random-range-ratio", options.random_range_ratio.has_value()},
                {"--random-prefix-len", options.random_prefix_len > 0},
                {"--check", options.check.value_or(0) > 0},
                {"--label", !options.label.empty()},
                {"--percentile-metrics", !options.percentile_metrics.empty()},
                {"--metric-percentiles", !options.metric_percentiles.empty()},
                {"--save-result", saves_results(options)},
                {"--output-file", !options.output_file.empty()},
                {"--figures", !options.figures.empty()},
                {"--html", !options.html.empty()}});
  if (given.empty()) return Ok{};
  return invalid(str(given, " has no meaning with --long-prompt; leave one out"));
}

// Answers are asked again by their number, and as prompts of random token ids.
Status check_comparison(const BenchServeOptions& options) {
  if (options.check.value_or(0) == 0) return Ok{};
  const std::string backend = "--backend " + options.backend;
  const std::string_view given =
      first_of({{"--request-rate", options.request_rate.value_or("inf") != "inf"},
                {"--ramp-up-strategy", options.ramp_up_strategy != "none"},
                {"--dataset-name sharegpt", options.dataset_name == "sharegpt"},
                {backend, asks_chat(options)}});
  if (given.empty()) return Ok{};
  return invalid(str("--check has no meaning with ", given, "; leave one out"));
}

}  // namespace

Result<std::string> url_of(const ServerFlags& options) {
  const std::string_view part = options.host.empty() ? "--port" : "--host";
  const bool by_parts = !options.host.empty() || options.port;
  std::vector<std::string_view> named;
  if (options.url) named.push_back("URL");
  if (!options.base_url.empty()) named.push_back("--base-url");
  if (by_parts) named.push_back(part);
  if (named.size() > 1)
    return invalid(str(named[0], " and ", named[1], " both name the server; leave one out"));
  if (options.url) return *options.url;
  if (!options.base_url.empty()) return options.base_url;
  const int port = options.port.value_or(8000);
  GLINT_TRY_STATUS(check_range("port", port, 1, 65535));
  if (options.host.empty()) return str("http://127.0.0.1:", port);
  const bool bare_ipv6 = options.host.find(':') != std::string::npos && options.host[0] != '[';
  return bare_ipv6 ? str("http://[", options.host, "]:", port)
                   : str("http://", options.host, ":", port);
}

bool asks_chat(const RequestFlags& options) { return options.backend.ends_with("-chat"); }

bool saves_results(const BenchServeOptions& options) {
  return options.save_result || options.save_detailed || !options.result_filename.empty();
}

Status check_options(const BenchServeOptions& options) {
  GLINT_TRY_STATUS(check_values(options));
  GLINT_TRY_STATUS(check_companions(options));
  GLINT_TRY_STATUS(check_file(options));
  GLINT_TRY_STATUS(check_comparison(options));
  return check_long_prompts(options);
}

Json input_len_of(const BenchServeOptions& options) {
  return options.dataset_name == "random" ? Json(options.input_len.value_or(kInputLen)) : Json();
}

bool has_rate(const LoadFlags& options) {
  return options.ramp_up_strategy != "none" || options.request_rate.value_or("inf") != "inf";
}

Result<Goodput> goodput_of(const BenchServeOptions& options) {
  Goodput out;
  for (const std::string& text : options.goodput) {
    for (const std::string_view limit : split(text, ' ')) {
      const std::size_t colon = std::min(limit.find(':'), limit.size());
      const std::string_view name = limit.substr(0, colon);
      double ms = 0;
      const bool number = colon < limit.size() && parse_option(limit.substr(colon + 1), ms);
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

Result<std::vector<std::string>> metrics_of(const OutputFlags& options) {
  if (options.percentile_metrics.empty()) return Measurement().metrics;
  std::vector<std::string> out;
  for (const std::string_view name : split(options.percentile_metrics, ',')) {
    if (!is_metric(name))
      return invalid(
          str("--percentile-metrics expects some of ttft, tpot, itl and e2el with commas between, "
              "got ",
              quoted(name)));
    out.emplace_back(name);
  }
  return out;
}

Result<std::vector<double>> percentiles_of(const OutputFlags& options) {
  std::vector<double> out;
  if (options.metric_percentiles.empty()) return out;
  for (const std::string_view text : split(options.metric_percentiles, ',')) {
    double percent = -1;
    if (!parse_option(text, percent) || percent < 0 || percent > 100)
      return invalid(
          str("--metric-percentiles expects numbers from 0 to 100 with commas between, got ",
              quoted(text)));
    out.push_back(percent);
  }
  return out;
}

Result<Arrivals> arrivals_of(const BenchServeOptions& options) {
  const bool ramps = options.ramp_up_strategy != "none";
  double rate = 0;
  const std::string asked = options.request_rate.value_or("inf");
  const bool finite = asked != "inf";
  if (finite && !(parse_option(asked, rate) && rate > 0))
    return invalid(
        str("--request-rate is ", quoted(asked), "; it must be a number above 0, or inf"));
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

Result<PromptOptions> prompts_of(const BenchServeOptions& options, std::uint64_t measurement) {
  PromptOptions out = {
      .input_len = options.input_len.value_or(kInputLen),
      .output_len = options.output_len.value_or(64),
      .dialect = options.range_dialect == "vllm" ? RangeDialect::kVllm : RangeDialect::kSglang,
      .prefix_len = options.random_prefix_len,
      .num_prefixes = options.num_prefixes,
      .num_ids = options.vocab.value_or(kVocab),
      .seed = (options.seed << 16) + measurement};
  if (options.random_range_ratio) GLINT_TRY_STATUS(read_ratios(*options.random_range_ratio, out));
  return out;
}

PromptOptions streams_of(const BenchServeOptions& options, std::uint64_t measurement) {
  return {.input_len = options.input_len.value_or(kInputLen),
          .output_len = options.output_len.value_or(kLongStreams),
          .num_ids = options.vocab.value_or(kVocab),
          .seed = (options.seed << 16) + 2 * measurement};
}

Result<Json> fields_of(const BenchServeOptions& options) {
  Json out(Json::Object{{"temperature", options.temperature.value_or(0)}});
  for (const auto& [name, value] :
       {std::pair("top_p", &options.top_p), std::pair("min_p", &options.min_p),
        std::pair("frequency_penalty", &options.frequency_penalty),
        std::pair("presence_penalty", &options.presence_penalty),
        std::pair("repetition_penalty", &options.repetition_penalty)}) {
    if (*value) out.set(name, **value);
  }
  if (options.top_k) out.set("top_k", *options.top_k);
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
  // A field of --extra-body stays as it is.
  if (options.ignore_eos.value_or(!out.find("tools")) && !out.find("ignore_eos"))
    out.set("ignore_eos", true);
  if (options.check.value_or(0) > 0 && !is_greedy(out))
    return invalid(
        "--check compares answers of temperature 0, and --temperature or --extra-body says "
        "another; "
        "leave one out");
  return out;
}

}  // namespace glint
