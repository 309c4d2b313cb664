#include "eval/report.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/json_number.h"
#include "base/str.h"

namespace glint {
namespace {

std::string padded(const std::string& text, int width) {
  return text + std::string(std::max<int>(width - static_cast<int>(text.size()), 1), ' ');
}

// "size" and what it is of the reference's.
std::string size_of_files(const EvaluatedModel& model, const EvaluatedModel* reference) {
  const std::string size = human_bytes(model.file_bytes);
  if (!reference || reference->file_bytes == 0) return size;
  const double share =
      static_cast<double>(model.file_bytes) / static_cast<double>(reference->file_bytes);
  return str(size, " (", formatted("%.1f %%", 100 * share), ")");
}

Json model_json(const EvaluatedModel& model, double perplexity, double top1) {
  Json by_format = Json::Object{};
  for (const auto& [format, bytes] : model.format_bytes) by_format.set(format, bytes);
  return Json::Object{{"model", model.name},
                      {"computed_in", model.computed_in},
                      {"file_bytes", model.file_bytes},
                      {"format_bytes", std::move(by_format)},
                      {"perplexity", finite_or_null(perplexity)},
                      {"top1", top1}};
}

}  // namespace

std::string percent(double share) { return formatted("%.2f %%", 100 * share); }

std::string describe_formats(const EvaluatedModel& model) {
  std::string text;
  for (const auto& [format, bytes] : model.format_bytes)
    text += str(text.empty() ? "" : ", ", format, " ", human_bytes(bytes));
  return text;
}

std::string layer_error_name(std::size_t i, std::size_t count) {
  if (i == 0) return "embedding";
  if (i + 1 == count) return "after the final norm";
  return str("after layer ", i - 1);
}

std::string eval_table(const EvalReport& report) {
  const Evaluation& r = report.result;
  const int label = 24;
  const std::string ref_name = report.reference.name;
  const int column = std::max<int>({static_cast<int>(ref_name.size()) + 2, 26,
                                    static_cast<int>(describe_formats(report.reference).size()) + 2,
                                    static_cast<int>(report.reference.computed_in.size()) + 2});
  std::string out;
  const auto line = [&](const char* name, const std::string& ref, const std::string& model) {
    out += padded(name, label) + padded(ref, column) + model + "\n";
  };
  const auto single = [&](const char* name, const std::string& value) {
    out += padded(name, label) + value + "\n";
  };
  line("", "reference", "model");
  line("", ref_name, report.model.name);
  line("computed in", report.reference.computed_in, report.model.computed_in);
  line("size on disk", size_of_files(report.reference, nullptr),
       size_of_files(report.model, &report.reference));
  line("weights", describe_formats(report.reference), describe_formats(report.model));
  line("perplexity", formatted("%.6f", r.ref_perplexity),
       str(formatted("%.6f", r.perplexity), " (",
           formatted("%+.3f %%", 100 * (r.perplexity / r.ref_perplexity - 1)), ")"));
  line("top-1", percent(r.ref_top1), percent(r.top1));
  out += "\n";
  single("rows", str(with_commas(r.rows), " of ", with_commas(r.sequences), " sequences"));
  single(
      "KL(ref || model)",
      str("mean ", formatted("%.3e", r.mean_kl), ", median ", formatted("%.3e", r.median_kl),
          ", p99 ", formatted("%.3e", r.p99_kl), ", max ", formatted("%.3e", r.max_kl), " nats"));
  single("top-1 agreement", percent(r.same_top1));
  single("cross-entropy", str(formatted("%+.3e", r.nll_difference), " +- ",
                              formatted("%.1e", r.nll_difference_error), " nats a token"));
  if (r.layer_error.empty()) return out;
  out +=
      str("\nrelative error of the residual stream, ", with_commas(r.layer_rows), " positions\n");
  for (std::size_t i = 0; i < r.layer_error.size(); ++i) {
    single(("  " + layer_error_name(i, r.layer_error.size())).c_str(),
           formatted("%.3e", r.layer_error[i]));
  }
  return out;
}

Json eval_json(const EvalReport& report) {
  const Evaluation& r = report.result;
  Json::Array layers(r.layer_error.begin(), r.layer_error.end());
  return Json::Object{
      {"text", report.text},
      {"sequences", r.sequences},
      {"rows", r.rows},
      {"reference", model_json(report.reference, r.ref_perplexity, r.ref_top1)},
      {"model", model_json(report.model, r.perplexity, r.top1)},
      {"kl",
       Json::Object{
           {"mean", r.mean_kl}, {"median", r.median_kl}, {"p99", r.p99_kl}, {"max", r.max_kl}}},
      {"top1_agreement", r.same_top1},
      {"nll_difference", r.nll_difference},
      {"nll_difference_error", r.nll_difference_error},
      {"layer_rows", r.layer_rows},
      {"layer_error", std::move(layers)}};
}

std::vector<PositionMean> mean_kl_by_position(const Evaluation& result, int count) {
  GLINT_CHECK(count >= 1 && result.kl.size() == result.position.size(), "a span for the rows");
  if (result.kl.empty()) return {};
  const std::int32_t length = *std::max_element(result.position.begin(), result.position.end()) + 1;
  const std::int32_t width = ceil_div(length, count);
  std::vector<PositionMean> spans(static_cast<std::size_t>(ceil_div(length, width)));
  for (std::size_t i = 0; i < spans.size(); ++i) {
    spans[i].first = static_cast<std::int32_t>(i) * width;
    spans[i].last = std::min(spans[i].first + width, length) - 1;
  }
  for (std::size_t i = 0; i < result.kl.size(); ++i) {
    PositionMean& span = spans[static_cast<std::size_t>(result.position[i] / width)];
    ++span.rows;
    span.mean_kl += result.kl[i];
  }
  std::erase_if(spans, [](const PositionMean& span) { return span.rows == 0; });
  for (PositionMean& span : spans) span.mean_kl /= static_cast<double>(span.rows);
  return spans;
}

std::vector<KlSpan> kl_histogram(const Evaluation& result) {
  constexpr double kFirst = 1e-6;
  std::vector<KlSpan> spans = {{0, kFirst, 0}};
  for (const float kl : result.kl) {
    while (kl >= spans.back().to) spans.push_back({spans.back().to, 2 * spans.back().to, 0});
    const auto above = [](double value, const KlSpan& span) { return value < span.to; };
    ++std::upper_bound(spans.begin(), spans.end(), static_cast<double>(kl), above)->rows;
  }
  return spans;
}

}  // namespace glint
