#include "bench/report.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/ceil_div.h"
#include "base/check.h"
#include "base/contains.h"
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
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; }
.legend i { border-top: 3px solid var(--series); display: inline-block; margin-right: 6px;
  vertical-align: middle; width: 20px; }
.s1 { --series: #b4590a; } .s2 { --series: #1c7c54; } .s3 { --series: #9c3fb0; }
.s5 { --series: #b4590a; } .s6 { --series: #1c7c54; } .s7 { --series: #9c3fb0; }
@media (prefers-color-scheme: dark) {
  .s1, .s5 { --series: #f0a45d; } .s2, .s6 { --series: #5fc796; } .s3, .s7 { --series: #d18ae0; }
}
.s4 .line, .s5 .line, .s6 .line, .s7 .line { stroke-dasharray: 6 4; }
i.s4, i.s5, i.s6, i.s7 { border-top-style: dashed; }
@media print { section { break-inside: avoid; } }
)css";

// Measurements in the order in which they are shown, and the names of their runs.
struct Shown {
  std::vector<const Measurement*> all = {};  // by clients; of the same number in the given order
  std::vector<std::string> runs = {};

  explicit Shown(std::span<const Measurement> measurements) {
    for (const Measurement& m : measurements) {
      all.push_back(&m);
      if (!contains(runs, m.label)) runs.push_back(m.label);
    }
    GLINT_CHECK(runs.size() <= kMaxRuns, "a page tells so many runs apart");
    std::stable_sort(all.begin(), all.end(), [](const Measurement* a, const Measurement* b) {
      return a->options.concurrency < b->options.concurrency;
    });
  }
  bool compares() const { return runs.size() > 1; }
  std::size_t run_of(const Measurement& m) const {
    return static_cast<std::size_t>(std::find(runs.begin(), runs.end(), m.label) - runs.begin());
  }
};

std::string clients_of(const Measurement& m) {
  const Arrivals& arrivals = m.options.arrivals;
  const std::string at_once =
      m.options.concurrency > 0 ? str(m.options.concurrency, " at once") : "";
  const std::string rate = arrivals.ramp_end > 0
                               ? str(arrivals.ramp_start, " to ", arrivals.ramp_end, " a second")
                           : arrivals.rate > 0 ? str(arrivals.rate, " a second")
                                               : "";
  if (rate.empty() && at_once.empty()) return "all at once";
  return rate.empty() ? at_once : at_once.empty() ? rate : rate + ", " + at_once;
}

std::string row_of(const char* tag, const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (const std::string& cell : cells)
    out += str("<", tag, ">", escape_html(cell), "</", tag, ">");
  return out + "</tr>\n";
}

// The first row has the names of the columns.
std::vector<std::vector<std::string>> table_cells(const Shown& shown) {
  std::vector<std::vector<std::string>> out = {
      {"requests", "output tok/s", "best second", "TTFT ms mean", "TTFT ms p99", "TPOT ms mean",
       "TPOT ms p99", "ITL ms p99", "E2E ms p50", "E2E ms p99", "failed", "client CPU %",
       "lag ms p99"}};
  if (shown.compares()) out[0].insert(out[0].begin(), "run");
  for (const Measurement* m : shown.all) {
    const LoadSummary& s = m->result.summary;
    const Distribution& lag = m->result.lag_ms;  // none in the files of other benchmarks
    const auto text = [](double value) { return formatted("%.1f", value); };
    const auto of = [](const Distribution& d, double value) { return number_of(d, value, 1); };
    out.push_back({clients_of(*m), text(s.output_tokens_per_s()),
                   s.peak_tokens_per_s > 0 ? text(s.peak_tokens_per_s) : "-",
                   of(s.ttft_ms, s.ttft_ms.mean), of(s.ttft_ms, s.ttft_ms.p99),
                   of(s.tpot_ms, s.tpot_ms.mean), of(s.tpot_ms, s.tpot_ms.p99),
                   of(s.itl_ms, s.itl_ms.p99), of(s.e2el_ms, s.e2el_ms.p50),
                   of(s.e2el_ms, s.e2el_ms.p99), std::to_string(s.num_failed),
                   number_of(lag, 100 * m->result.client_cpu, 0), number_of(lag, lag.p99, 2)});
    if (shown.compares()) out.back().insert(out.back().begin(), m->label);
  }
  return out;
}

std::string table(const Shown& shown) {
  std::string out = "<section class=\"wide\">\n<table>\n";
  const char* tag = "th";
  for (const std::vector<std::string>& row : table_cells(shown))
    out += row_of(std::exchange(tag, "td"), row);
  return out + "</table>\n</section>\n";
}

// The colours of the runs, where there are several.
std::string legend(const Shown& shown) {
  if (!shown.compares()) return "";
  std::string out = "<p class=\"legend\">";
  for (std::size_t i = 0; i < shown.runs.size(); ++i)
    out += str("<span><i class=\"s", i, "\"></i>", escape_html(shown.runs[i]), "</span>");
  return out + "</p>\n";
}

std::string curve(const Shown& shown, const std::string& title, const std::string& unit,
                  const std::string& meaning,
                  const std::function<std::optional<double>(const LoadSummary&)>& value_of) {
  Chart chart = {.title = title,
                 .y_label = unit,
                 .x_label = "requests at once",
                 .num_series = shown.runs.size()};
  for (const Measurement* m : shown.all) {
    const std::optional<double> value = value_of(m->result.summary);
    if (!value) continue;
    chart.points.push_back(
        {m->options.concurrency > 0 ? std::to_string(m->options.concurrency) : "any", *value,
         str(shown.compares() ? m->label + ", " : "", clients_of(*m), ": ",
             formatted("%.2f", *value), " ", unit),
         shown.run_of(*m)});
  }
  if (chart.points.empty()) return "";
  return page_section(title, meaning, legend(shown) + svg_chart(chart));
}

// None where no answer has the latency: a point at 0 would be the best.
std::optional<double> if_measured(const Distribution& d, double value) {
  return d.count > 0 ? std::optional(value) : std::nullopt;
}

std::string curves(const Shown& shown) {
  return curve(shown, "Throughput", "output tokens a second", "Of all clients together.",
               [](const LoadSummary& s) { return s.output_tokens_per_s(); }) +
         curve(shown, "Time to the first token", "TTFT ms, mean",
               "What a client waits for the first.",
               [](const LoadSummary& s) { return if_measured(s.ttft_ms, s.ttft_ms.mean); }) +
         curve(shown, "Time per further token", "TPOT ms, mean", "The pace that a client reads at.",
               [](const LoadSummary& s) { return if_measured(s.tpot_ms, s.tpot_ms.mean); }) +
         curve(shown, "Hiccups", "ITL ms, 99th percentile",
               "One gap between chunks of 100 is longer.",
               [](const LoadSummary& s) { return if_measured(s.itl_ms, s.itl_ms.p99); });
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
  return page_section(title, meaning, svg_chart(chart));
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
  const std::size_t step = ceil_div(records.size(), kMaxLines);
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
  return page_section(
      "Timeline",
      str("Every request", step > 1 ? str(" (one of ", step, ")") : "",
          ", in the order in which they were sent: grey until its first chunk, then blue; red "
          "where it failed. The width is ",
          formatted("%.2f", seconds), " s."),
      str("<svg viewBox=\"0 0 ", kLineWidth, " ", formatted("%.2f", y),
          "\" role=\"img\" aria-label=\"Timeline of the requests\">\n", marks, "</svg>\n"));
}

}  // namespace

std::string load_html(std::span<const Measurement> all, const std::string& when) {
  const Shown shown(all);
  const Measurement& first = all.front();
  std::string title, what;
  if (shown.compares()) {
    title = joined(shown.runs, ", ");
    what = str(shown.runs.size(), " runs side by side");
  } else {
    title = first.url.empty() ? first.model : str(first.model, " at ", first.url);
    const PromptOptions& prompts = first.options.prompts;
    what = first.url.empty() ? "saved results"
           : first.dataset == "random"
               ? str(prompts.input_len, " tokens in, ", prompts.output_len, " out")
               : first.dataset;
    if (!first.label.empty()) what += ", " + first.label;
  }
  std::string page =
      page_begin(title, kTimelineStyle) +
      str("<p>", escape_html(when), ", ", escape_html(what),
          ". TTFT is the time to the first chunk, TPOT that of each further token, ITL the gap "
          "between chunks, E2E the whole answer. The client's CPU (of one core) and the lag of its "
          "timers are the load generator's own: times below the lag mean nothing.</p>\n");
  page += table(shown);
  if (all.size() > 1) page += curves(shown);
  for (const Measurement* m : shown.all) {
    if (m->result.records.empty()) continue;
    page += str("<details class=\"s", shown.run_of(*m), "\"", all.size() > 1 ? "" : " open",
                "><summary>", shown.compares() ? escape_html(m->label) + ", " : "",
                escape_html(clients_of(*m)), ": distributions and every request</summary>\n",
                timeline(*m), distributions(*m), "</details>\n");
  }
  return str(page, kPageEnd);
}

std::string load_table(std::span<const Measurement> all) {
  const Shown shown(all);
  const std::vector<std::vector<std::string>> rows = table_cells(shown);
  std::vector<std::size_t> widths(rows[0].size());
  for (const std::vector<std::string>& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size() + (i > 0 ? 2 : 0), ' ');
      out += i == 0 ? row[i] + blanks : blanks + row[i];
    }
    out += "\n";
  }
  return out;
}

}  // namespace glint
