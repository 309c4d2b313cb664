#include "bench/results.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/contains.h"
#include "base/seconds.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr double kSaturated = 0.95;

// By the names of vLLM's keys, in the order of its report.
constexpr struct {
  const char* name;
  const char* title;
  Distribution LoadSummary::*values;
} kLatencies[] = {{"ttft", "TTFT ms", &LoadSummary::ttft_ms},
                  {"tpot", "TPOT ms", &LoadSummary::tpot_ms},
                  {"itl", "ITL ms", &LoadSummary::itl_ms},
                  {"e2el", "E2E ms", &LoadSummary::e2el_ms}};

Json rate_of(const Measurement& m) {
  const Arrivals& arrivals = m.options.arrivals;
  return arrivals.rate > 0 ? Json(arrivals.rate) : Json("inf");
}

// SGLang's names of what has other ones.
std::string sglang_backend(const std::string& backend) {
  if (backend == "openai") return "sglang-oai";
  return backend == "openai-chat" ? "sglang-oai-chat" : backend;
}

const char* ramp_of(const Arrivals& arrivals) {
  return arrivals.exponential ? "exponential" : "linear";
}

// A ramp has no one rate, which stays "inf".
void set_ramp(Json& out, const Arrivals& arrivals) {
  if (arrivals.ramp_end <= 0) return;
  out.set("ramp_up_strategy", ramp_of(arrivals));
  out.set("ramp_up_start_rps", arrivals.ramp_start);
  out.set("ramp_up_end_rps", arrivals.ramp_end);
}

Json concurrency_of(const Measurement& m) {
  return m.options.concurrency > 0 ? Json(m.options.concurrency) : Json();
}

void set_percentiles(Json& out, const std::string& name, const Distribution& d) {
  const std::pair<const char*, double> values[] = {{"mean", d.mean}, {"median", d.p50},
                                                   {"std", d.std},   {"p90", d.p90},
                                                   {"p95", d.p95},   {"p99", d.p99}};
  for (const auto& [statistic, value] : values) out.set(str(statistic, "_", name, "_ms"), value);
  for (const Percentile& each : d.asked) out.set(str(each.name(), "_", name, "_ms"), each.value);
}

// The generator's own cost, which other benchmarks leave out.
void set_client(Json& out, const LoadResult& result) {
  out.set("client_cpu", result.client_cpu);
  set_percentiles(out, "client_lag", result.lag_ms);
}

// Lists with an entry for each request; times in seconds.
void set_details(Json& out, const LoadResult& result) {
  Json::Array inputs, outputs, ttfts, itls, starts, texts, errors;
  const BenchClock::time_point begin =
      result.records.empty() ? BenchClock::time_point{} : result.records.front().start;
  for (const StreamRecord& record : result.records) {
    const bool whole = record.failure.empty();
    Json::Array gaps;
    for (std::size_t i = 1; i < record.chunks.size(); ++i)
      gaps.emplace_back(seconds_between(record.chunks[i - 1], record.chunks[i]));
    inputs.emplace_back(record.prompt_tokens);
    outputs.emplace_back(whole ? record.usage_tokens : 0);
    ttfts.emplace_back(record.chunks.empty() ? 0.0 : 1e-3 * record.ttft_ms());
    itls.emplace_back(std::move(gaps));
    starts.emplace_back(seconds_between(begin, record.start));
    texts.emplace_back(record.text);
    errors.emplace_back(record.failure);
  }
  out.set("input_lens", std::move(inputs));
  out.set("output_lens", std::move(outputs));
  out.set("ttfts", std::move(ttfts));
  out.set("itls", std::move(itls));
  out.set("start_times", std::move(starts));
  out.set("generated_texts", std::move(texts));
  out.set("errors", std::move(errors));
}

std::string clients_of(const Measurement& m) {
  if (m.options.concurrency > 0) return std::to_string(m.options.concurrency);
  return m.options.arrivals.are_at_once() ? "all" : "open";
}

std::vector<Percentile> shown_percentiles(const Distribution& d) {
  return d.asked.empty() ? std::vector<Percentile>{{90, d.p90}, {95, d.p95}, {99, d.p99}} : d.asked;
}

std::string head_line(bool with_goodput) {
  return str(
      "Concurrent  Output tok/s  TTFT (ms)  TPOT (ms)  ITL p99 (ms)  TTFT p99  E2E p50  E2E "
      "p99    Req/s",
      with_goodput ? "  Good/s" : "", "  failed differ  step ms  host us  CPU %  lag p99 ms");
}

// `line` cut where columns of `head` end, each piece of fewer than `width` columns.
std::string folded(std::string_view line, std::string_view head, int width) {
  std::string out;
  std::size_t begin = 0, end = 0;
  while (end < head.size()) {
    std::size_t next = head.find("  ", head.find_first_not_of(' ', end));
    if (next == head.npos) next = head.size();
    if (width > 0 && end > begin && next - begin >= static_cast<std::size_t>(width)) {
      out.append(line.substr(begin, end - begin)).append("\n");
      begin = end;
    }
    end = next;
  }
  return out.append(line.substr(begin)).append("\n");
}

}  // namespace

bool is_metric(std::string_view name) {
  return std::any_of(std::begin(kLatencies), std::end(kLatencies),
                     [&](const auto& each) { return each.name == name; });
}

Json vllm_result(const Measurement& m, const std::string& date, bool detailed) {
  const LoadSummary& s = m.result.summary;
  Json out(Json::Object{{"date", date},
                        {"endpoint_type", m.backend},
                        {"backend", m.backend},
                        {"label", m.label.empty() ? Json() : Json(m.label)},
                        {"model_id", m.model},
                        {"tokenizer_id", m.model},
                        {"num_prompts", m.options.num_prompts},
                        {"request_rate", rate_of(m)},
                        {"burstiness", m.options.arrivals.burstiness},
                        {"max_concurrency", concurrency_of(m)},
                        {"duration", s.seconds},
                        {"completed", s.num_whole()},
                        {"failed", s.num_failed},
                        {"total_input_tokens", s.input_tokens},
                        {"total_output_tokens", s.output_tokens},
                        {"request_throughput", s.requests_per_s()},
                        {"request_goodput", s.num_good ? Json(s.per_second(*s.num_good)) : Json()},
                        {"output_throughput", s.output_tokens_per_s()},
                        {"total_token_throughput", s.total_tokens_per_s()},
                        {"max_output_tokens_per_s", s.peak_tokens_per_s},
                        {"max_concurrent_requests", s.peak_concurrency}});
  set_ramp(out, m.options.arrivals);
  for (const auto& [name, title, values] : kLatencies) {
    if (contains(m.metrics, name)) set_percentiles(out, name, s.*values);
  }
  set_client(out, m.result);
  if (detailed) set_details(out, m.result);
  return out;
}

Json sglang_result(const Measurement& m) {
  const LoadSummary& s = m.result.summary;
  const PromptOptions& p = m.options.prompts;
  // Its ratio is the share of the length that the shortest has, where none is longer.
  const bool own = p.dialect == RangeDialect::kSglang;
  const Json ratio = own ? Json(p.input_ratio) : p.input_ratio == 0 ? Json(1.0) : Json();
  Json out(Json::Object{{"tag", m.label.empty() ? Json() : Json(m.label)},
                        {"backend", sglang_backend(m.backend)},
                        {"dataset_name", m.dataset == "random" ? "random-ids" : m.dataset},
                        {"request_rate", rate_of(m)},
                        {"max_concurrency", concurrency_of(m)},
                        {"random_input_len", p.input_len},
                        {"random_output_len", p.output_len},
                        {"random_range_ratio", ratio},
                        {"duration", s.seconds},
                        {"completed", s.num_whole()},
                        {"total_input_tokens", s.input_tokens},
                        {"total_output_tokens", s.output_tokens},
                        {"total_output_tokens_retokenized", s.output_tokens},
                        {"request_throughput", s.requests_per_s()},
                        {"input_throughput", s.per_second(static_cast<double>(s.input_tokens))},
                        {"output_throughput", s.output_tokens_per_s()},
                        {"total_throughput", s.total_tokens_per_s()},
                        {"concurrency", s.mean_concurrency},
                        {"accept_length", s.tokens_per_chunk()},
                        {"max_output_tokens_per_s", s.peak_tokens_per_s},
                        {"max_concurrent_requests", s.peak_concurrency}});
  set_ramp(out, m.options.arrivals);
  set_percentiles(out, "e2e_latency", s.e2el_ms);
  set_percentiles(out, "ttft", s.ttft_ms);
  set_percentiles(out, "tpot", s.tpot_ms);
  set_percentiles(out, "itl", s.itl_ms);
  set_client(out, m.result);
  return out;
}

std::string vllm_file_name(const Measurement& m, const std::string& date) {
  const Arrivals& arrivals = m.options.arrivals;
  const std::string qps =
      arrivals.ramp_end > 0
          ? str("ramp-up-", ramp_of(arrivals), "-", formatted("%g", arrivals.ramp_start), "qps-",
                formatted("%g", arrivals.ramp_end))
      : arrivals.rate > 0 ? dump_json(arrivals.rate)  // "4.0", as it prints a float
                          : "inf";
  const std::string clients =
      m.options.concurrency > 0 ? str("-concurrency", m.options.concurrency) : "";
  const std::string name = m.model.substr(m.model.rfind('/') + 1);
  std::string out = str(m.label.empty() ? m.backend : m.label, "-", qps, "qps", clients, "-", name,
                        "-", date, ".json");
  std::replace(out.begin(), out.end(), '/', '-');
  return out;
}

std::string table_head(bool with_goodput, int width) {
  const std::string head = head_line(with_goodput);
  return folded(head, head, width);
}

std::string table_row(const Measurement& m, int width) {
  const LoadResult& r = m.result;
  const LoadSummary& s = r.summary;
  const auto cell = [](const Distribution& d, double value, int decimals, int width) {
    return formatted("  %*s", width, number_of(d, value, decimals).c_str());
  };
  std::string line =
      formatted("%10s  %12s  %9s", clients_of(m).c_str(),
                with_commas(std::llround(s.output_tokens_per_s())).c_str(),
                s.ttft_ms.count > 0 ? with_commas(std::llround(s.ttft_ms.mean)).c_str() : "-") +
      cell(s.tpot_ms, s.tpot_ms.mean, 2, 9) + cell(s.itl_ms, s.itl_ms.p99, 2, 12) +
      cell(s.ttft_ms, s.ttft_ms.p99, 0, 8) + cell(s.e2el_ms, s.e2el_ms.p50, 0, 7) +
      cell(s.e2el_ms, s.e2el_ms.p99, 0, 7) + formatted("  %7.2f", s.requests_per_s());
  if (s.num_good) line += formatted("  %6.2f", s.per_second(*s.num_good));
  line += formatted("  %6d %6d", s.num_failed, r.num_different);
  line += r.engine.known ? formatted("  %7.2f  %7.0f", r.engine.step_ms, r.engine.overhead_us)
                         : formatted("  %7s  %7s", "-", "-");
  line += formatted("  %5.0f  %10.2f", 100 * r.client_cpu, r.lag_ms.p99);
  return folded(line, head_line(s.num_good.has_value()), width);
}

std::string table_peaks(std::span<const Measurement> all) {
  const auto rate = [](const Measurement& m) { return m.result.summary.output_tokens_per_s(); };
  const auto less = [&](const Measurement& a, const Measurement& b) { return rate(a) < rate(b); };
  const auto best = std::max_element(all.begin(), all.end(), less);
  if (all.size() < 2 || rate(*best) <= 0) return "";
  double burst = 0;
  int fewest = best->options.concurrency;
  for (const Measurement& m : all) {
    burst = std::max(burst, m.result.summary.peak_tokens_per_s);
    if (rate(m) >= kSaturated * rate(*best)) fewest = std::min(fewest, m.options.concurrency);
  }
  return str("\nPeak sustained throughput  ", with_commas(std::llround(rate(*best))),
             " tok/s (c=", best->options.concurrency, ")\nPeak burst throughput      ",
             with_commas(std::llround(burst)),
             " tok/s (the best second)\nSaturation point           ~", fewest,
             " concurrent (the fewest with 95 % of the peak)\n");
}

std::string details_table(const Measurement& m) {
  const LoadSummary& s = m.result.summary;
  if (s.num_whole() == 0) return "\nno request succeeded: there is nothing to measure\n";
  std::string out = "\n              mean   median";
  for (const Percentile& each : shown_percentiles(s.ttft_ms))
    out += formatted(" %8s", each.name().c_str());
  out += "      max\n";
  for (const auto& [name, title, values] : kLatencies) {
    if (!contains(m.metrics, name)) continue;
    const Distribution& d = s.*values;
    out += formatted("%-8s %9s %8s", title, number_of(d, d.mean, 2).c_str(),
                     number_of(d, d.p50, 2).c_str());
    for (const Percentile& each : shown_percentiles(d))
      out += formatted(" %8s", number_of(d, each.value, 2).c_str());
    out += formatted(" %8s\n", number_of(d, d.max, 2).c_str());
  }
  out += str(counted(s.num_whole(), "request"), " in ", formatted("%.2f", s.seconds),
             " s: ", with_commas(s.input_tokens), " tokens in, ", with_commas(s.output_tokens),
             " out, ", with_commas(std::llround(s.total_tokens_per_s())),
             " of both a second; best second ", with_commas(std::llround(s.peak_tokens_per_s)),
             " out; ", formatted("%.2f", s.tokens_per_chunk()), " tokens a chunk; ",
             formatted("%.1f", s.mean_concurrency), " at once, at most ", s.peak_concurrency,
             " open within a second\n");
  if (s.num_good)
    out += str(*s.num_good, " of ", s.num_requests, " keep every limit of --goodput\n");
  return out;
}

}  // namespace glint
