#include "bench/report.h"

#include <algorithm>
#include <functional>

#include "base/page_style.h"
#include "base/seconds.h"
#include "base/str.h"
#include "base/svg.h"

namespace glint {
namespace {

constexpr int kBars = 24;
constexpr double kLineWidth = 720, kTimelineHeight = 420;
constexpr std::size_t kMaxLines = 2000;  // of a timeline; of more requests some are left out

constexpr std::string_view kTimelineStyle = R"css(
.wait { fill: var(--muted); opacity: 0.45; }
.answer { fill: var(--series); }
.failed { fill: #c4352a; }
.wide { overflow-x: auto; }
.wide table { font-size: 13px; }
.wide td, .wide th { overflow-wrap: normal; padding-right: 8px; }
.wide td { white-space: nowrap; }
@media print { section { break-inside: avoid; } }
)css";

std::string clients_of(const Measurement& m) {
  const Arrivals& arrivals = m.options.arrivals;
  const std::string at_once =
      m.options.concurrency > 0 ? str(m.options.concurrency, " at once") : "";
  const std::string rate = arrivals.ramp_end > 0
                               ? str(arrivals.ramp_start, " to ", arrivals.ramp_end, " a second")
                           : arrivals.rate > 0 ? str(arrivals.rate, " a second")
                                               : "";
  return rate.empty() ? at_once : at_once.empty() ? rate : rate + ", " + at_once;
}

std::string row_of(const char* tag, const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (const std::string& cell : cells)
    out += str("<", tag, ">", escape_html(cell), "</", tag, ">");
  return out + "</tr>\n";
}

std::string table(std::span<const Measurement> all) {
  std::string out = "<section class=\"wide\">\n<table>\n";
  out += row_of(
      "th", {"requests", "output tok/s", "best second", "TTFT ms mean", "TTFT ms p99",
             "TPOT ms mean", "TPOT ms p99", "ITL ms p99", "E2E ms p50", "E2E ms p99", "failed"});
  for (const Measurement& m : all) {
    const LoadSummary& s = m.result.summary;
    const auto text = [](double value) { return formatted("%.1f", value); };
    out += row_of("td", {clients_of(m), text(s.output_tokens_per_s()), text(s.peak_tokens_per_s),
                         text(s.ttft_ms.mean), text(s.ttft_ms.p99), text(s.tpot_ms.mean),
                         text(s.tpot_ms.p99), text(s.itl_ms.p99), text(s.e2el_ms.p50),
                         text(s.e2el_ms.p99), std::to_string(s.num_failed)});
  }
  return out + "</table>\n</section>\n";
}

std::string section(const std::string& title, const std::string& meaning, const Chart& chart) {
  return str("<section>\n<h2>", escape_html(title), "</h2>\n<p>", escape_html(meaning), "</p>\n",
             svg_chart(chart), "</section>\n");
}

std::string curve(std::span<const Measurement> all, const std::string& title,
                  const std::string& unit, const std::string& meaning,
                  const std::function<double(const LoadSummary&)>& value_of) {
  Chart chart = {.title = title, .y_label = unit, .x_label = "requests at once"};
  for (const Measurement& m : all) {
    const double value = value_of(m.result.summary);
    chart.points.push_back(
        {m.options.concurrency > 0 ? std::to_string(m.options.concurrency) : "any", value,
         str(clients_of(m), ": ", formatted("%.2f", value), " ", unit)});
  }
  return section(title, meaning, chart);
}

std::string curves(std::span<const Measurement> all) {
  return curve(all, "Throughput", "output tokens a second", "Of all clients together.",
               [](const LoadSummary& s) { return s.output_tokens_per_s(); }) +
         curve(all, "Time to the first token", "TTFT ms, mean",
               "What a client waits for the first.",
               [](const LoadSummary& s) { return s.ttft_ms.mean; }) +
         curve(all, "Time per further token", "TPOT ms, mean", "The pace that a client reads at.",
               [](const LoadSummary& s) { return s.tpot_ms.mean; }) +
         curve(all, "Hiccups", "ITL ms, 99th percentile",
               "One gap between chunks of 100 is longer.",
               [](const LoadSummary& s) { return s.itl_ms.p99; });
}

// How many values lie in each of kBars spans from 0 to the greatest.
std::string histogram(const std::string& title, const std::string& meaning,
                      const std::vector<double>& values) {
  if (values.empty()) return "";
  const double most = std::max(*std::max_element(values.begin(), values.end()), 1e-9);
  std::vector<std::size_t> counts(kBars, 0);
  for (const double value : values)
    ++counts[std::min<std::size_t>(static_cast<std::size_t>(value / most * kBars), kBars - 1)];
  Chart chart = {.title = title,
                 .y_label = "share, %",
                 .x_label = "ms: each bar reaches to where the next begins",
                 .marks = Chart::Marks::kBars};
  for (int i = 0; i < kBars; ++i) {
    const double from = most * i / kBars, to = most * (i + 1) / kBars;
    const auto count = static_cast<double>(counts[static_cast<std::size_t>(i)]);
    chart.points.push_back({formatted("%.3g", from),
                            100 * count / static_cast<double>(values.size()),
                            str(formatted("%.3g to %.3g ms: ", from, to), count)});
  }
  return section(title, meaning, chart);
}

std::string distributions(const Measurement& m) {
  std::vector<double> ttft, tpot, e2el;
  for (const StreamRecord& record : m.result.records) {
    if (!record.failure.empty()) continue;
    ttft.push_back(record.ttft_ms());
    e2el.push_back(record.e2el_ms());
    if (record.usage_tokens > 1) tpot.push_back(record.tpot_ms());
  }
  return histogram("TTFT", "From sending a request to its first chunk.", ttft) +
         histogram("TPOT", "From the first chunk to the last, for each token after the first.",
                   tpot) +
         histogram("ITL", "The gaps between chunks.", split_gaps(m.result.records, {}).outside) +
         histogram("E2E", "From sending a request to its last chunk.", e2el);
}

std::string bar(const char* kind, double x, double y, double width, double height) {
  return formatted("<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>",
                   kind, x, y, std::max(width, 0.5), height);
}

// A line for each request: waiting, then answering.
std::string timeline(const Measurement& m) {
  const std::vector<StreamRecord>& records = m.result.records;
  if (records.empty()) return "";
  const std::size_t step = (records.size() + kMaxLines - 1) / kMaxLines;
  const double line = std::min(
      10.0, kTimelineHeight / (static_cast<double>(records.size()) / static_cast<double>(step)));
  const double seconds = std::max(m.result.summary.seconds, 1e-6), scale = kLineWidth / seconds;
  std::string marks;
  double y = 0;
  for (std::size_t i = 0; i < records.size(); i += step, y += line) {
    const StreamRecord& record = records[i];
    const double begin = seconds_between(records.front().start, record.start);
    const bool failed = !record.failure.empty() || record.chunks.empty();
    const double first = failed ? begin : begin + 1e-3 * record.ttft_ms();
    const double last = failed ? begin : begin + 1e-3 * record.e2el_ms();
    const std::string note =
        failed ? record.failure
               : formatted("TTFT %.1f ms, E2E %.1f ms, ", record.ttft_ms(), record.e2el_ms()) +
                     str(record.usage_tokens, " tokens");
    marks += str("<g><title>", escape_html(str("request ", i, ": ", note)), "</title>");
    if (failed) {
      marks += bar("failed", begin * scale, y, 3, 0.8 * line);
    } else {
      marks += bar("wait", begin * scale, y, (first - begin) * scale, 0.8 * line) +
               bar("answer", first * scale, y, (last - first) * scale, 0.8 * line);
    }
    marks += "</g>\n";
  }
  return str("<section>\n<h2>Timeline</h2>\n<p>Every request",
             step > 1 ? str(" (one of ", step, ")") : "",
             ", in the order in which they were sent: grey until its first chunk, then blue; red "
             "where it failed. The width is ",
             formatted("%.2f", seconds), " s.</p>\n<svg viewBox=\"0 0 ", kLineWidth, " ",
             formatted("%.2f", y), "\" role=\"img\" aria-label=\"Timeline of the requests\">\n",
             marks, "</svg>\n</section>\n");
}

}  // namespace

std::string load_html(std::span<const Measurement> all, const std::string& when) {
  const Measurement& first = all.front();
  const std::string title = str(first.model, " at ", first.url);
  const PromptOptions& prompts = first.options.prompts;
  const std::string what = first.dataset == "random"
                               ? str(prompts.input_len, " tokens in, ", prompts.output_len, " out")
                               : first.dataset;
  std::string page =
      str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          escape_html(title), "</title>\n<style>", kPageStyle, kTimelineStyle,
          "</style>\n</head>\n<body>\n<h1>", escape_html(title), "</h1>\n<p>", escape_html(when),
          ", ", escape_html(what), first.label.empty() ? "" : ", " + escape_html(first.label),
          ". TTFT is the time to the first chunk, TPOT that of each further token, ITL the gap "
          "between chunks, E2E the whole answer.</p>\n");
  page += table(all);
  if (all.size() > 1) page += curves(all);
  for (const Measurement& m : all) {
    page += str(all.size() > 1 ? "<details>" : "<details open>", "<summary>",
                escape_html(clients_of(m)), ": distributions and every request</summary>\n",
                timeline(m), distributions(m), "</details>\n");
  }
  return page + "</body>\n</html>\n";
}

}  // namespace glint
