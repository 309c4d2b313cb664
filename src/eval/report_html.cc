// The evaluation as one HTML page.
#include "base/page_style.h"
#include "base/str.h"
#include "base/svg.h"
#include "eval/report.h"

namespace glint {
namespace {

std::string cells(std::initializer_list<std::string> values) {
  std::string row = "<tr>";
  bool first = true;
  for (const std::string& value : values) {
    const char* tag = first ? "th" : "td";
    row += str("<", tag, ">", escape_html(value), "</", tag, ">");
    first = false;
  }
  return row + "</tr>\n";
}

std::string figures(const EvalReport& report) {
  const Evaluation& r = report.result;
  std::string out = "<section class=\"figures\">\n";
  out += figure(formatted("%.2e", r.mean_kl), "mean KL divergence, nats");
  out += figure(formatted("%.2e", r.p99_kl), "KL divergence, 99th percentile");
  out += figure(percent(r.same_top1), "top-1 agreement");
  out += figure(formatted("%+.2f %%", 100 * (r.perplexity / r.ref_perplexity - 1)), "perplexity");
  if (report.reference.file_bytes > 0 && report.model.file_bytes > 0) {
    const double share = static_cast<double>(report.model.file_bytes) /
                         static_cast<double>(report.reference.file_bytes);
    out += figure(formatted("%.1f %%", 100 * share), "of the reference's size");
  }
  return out + "</section>\n";
}

std::string comparison(const EvalReport& report) {
  const Evaluation& r = report.result;
  const EvaluatedModel &a = report.reference, &b = report.model;
  return str(
      "<section>\n<table>\n", cells({"", "reference", "model"}), cells({"name", a.name, b.name}),
      cells({"computed in", a.computed_in, b.computed_in}),
      cells({"weight files", human_bytes(a.file_bytes), human_bytes(b.file_bytes)}),
      cells({"weights by format", describe_formats(a), describe_formats(b)}),
      cells({"perplexity", formatted("%.6f", r.ref_perplexity), formatted("%.6f", r.perplexity)}),
      cells({"top-1 of the text", percent(r.ref_top1), percent(r.top1)}),
      cells({"cross-entropy added", "",
             str(formatted("%+.3e", r.nll_difference), " +- ",
                 formatted("%.1e", r.nll_difference_error), " nats a token")}),
      "</table>\n</section>\n");
}

std::string layer_section(const Evaluation& r) {
  Chart chart = {.title = "Relative error of the residual stream after each layer",
                 .y_label = "relative error",
                 .x_label = "layer"};
  std::string table;
  for (std::size_t i = 0; i < r.layer_error.size(); ++i) {
    const std::string name = layer_error_name(i, r.layer_error.size());
    const std::string value = formatted("%.3e", r.layer_error[i]);
    const std::string label = i == 0                          ? "embed"
                              : i + 1 == r.layer_error.size() ? "norm"
                                                              : std::to_string(i - 1);
    chart.points.push_back({label, r.layer_error[i], name + ": " + value});
    table += cells({name, value});
  }
  return page_section("Layers",
                      "How far the residual stream is from the reference's after each layer: the "
                      "length of the difference over the length of the reference's, at positions "
                      "evenly spaced over the text.",
                      str(svg_chart(chart), "<details><summary>as numbers</summary>\n<table>\n",
                          table, "</table></details>\n"));
}

std::string distribution_section(const Evaluation& r) {
  Chart chart = {.title = "Positions by their KL divergence",
                 .y_label = "positions, %",
                 .x_label = "KL divergence, nats: each bar reaches to where the next begins",
                 .marks = Chart::Marks::kBars};
  for (const KlSpan& span : kl_histogram(r)) {
    const double share = 100.0 * static_cast<double>(span.rows) / static_cast<double>(r.rows);
    chart.points.push_back(
        {span.from > 0 ? formatted("%.0e", span.from) : "0", share,
         str(formatted("%.1e", span.from), " to ", formatted("%.1e", span.to), ": ",
             with_commas(span.rows), " positions, ", formatted("%.2f %%", share))});
  }
  return page_section(
      "Distribution",
      "How many positions of the text diverge by how much. A long tail to the right "
      "means few positions that are changed much.",
      svg_chart(chart));
}

std::string position_section(const Evaluation& r) {
  constexpr int kSpans = 32;
  Chart chart = {.title = "Mean KL divergence by position",
                 .y_label = "mean KL divergence, nats",
                 .x_label = "position in the sequence"};
  for (const PositionMean& span : mean_kl_by_position(r, kSpans)) {
    chart.points.push_back(
        {std::to_string(span.first), span.mean_kl,
         str("positions ", span.first, " to ", span.last, ": ", formatted("%.3e", span.mean_kl),
             " over ", with_commas(span.rows))});
  }
  return page_section(
      "Position",
      "The mean divergence along the sequence. A line that climbs means an error that "
      "grows with the context.",
      svg_chart(chart));
}

}  // namespace

std::string eval_html(const EvalReport& report) {
  const Evaluation& r = report.result;
  const std::string title = str(report.model.name, " against ", report.reference.name);
  std::string page =
      page_begin(title) + str("<p>", with_commas(r.rows), " positions of ",
                              with_commas(r.sequences), " sequences of ", escape_html(report.text),
                              ". KL divergence is KL(reference || model) of the next token.</p>\n");
  page += figures(report) + comparison(report);
  if (!r.layer_error.empty()) page += layer_section(r);
  page += distribution_section(r) + position_section(r);
  return str(page, kPageEnd);
}

}  // namespace glint
