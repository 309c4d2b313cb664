// The result of an evaluation as a person or a program reads it: a table, JSON, a page with charts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "eval/evaluate.h"

namespace glint {

// One of the two models, as the report names it.
struct EvaluatedModel {
  std::string name;
  std::string computed_in;      // "bf16, KV cache fp8, index keys fp8"
  std::int64_t file_bytes = 0;  // of its weight files
  std::vector<std::pair<std::string, std::int64_t>> format_bytes = {};  // {"bf16", ..}, {"fp8", ..}
};

struct EvalReport {
  EvaluatedModel reference = {}, model = {};
  std::string text = {};  // the file that was read
  Evaluation result = {};
};

std::string eval_table(const EvalReport& report);  // plain text, ends in a newline

Json eval_json(const EvalReport& report);

// A page that opens offline and runs no script, in light and dark.
std::string eval_html(const EvalReport& report);

// Mean divergence of the rows by their position in the sequence: `count` spans of equal width at
// most, of which the last ends with the longest sequence. Spans without rows are left out.
struct PositionMean {
  std::int32_t first = 0, last = 0;  // positions, both included
  std::int64_t rows = 0;
  double mean_kl = 0;
};
std::vector<PositionMean> mean_kl_by_position(const Evaluation& result, int count);

// Rows by their divergence, in spans that each reach twice as far as the one before: below
// 1e-6 (first), 1e-6 .. 2e-6, and so on up to the largest.
struct KlSpan {
  double from = 0, to = 0;
  std::int64_t rows = 0;
};
std::vector<KlSpan> kl_histogram(const Evaluation& result);

std::string percent(double share);                          // "12.50 %"
std::string describe_formats(const EvaluatedModel& model);  // "bf16 1.2 GiB, fp8 700 MiB"

// "after layer 3": what entry `i` of layer_error compares.
std::string layer_error_name(std::size_t i, std::size_t count);

}  // namespace glint
