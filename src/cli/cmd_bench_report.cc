// glint bench report: saved load tests side by side.
#include <set>

#include "base/file.h"
#include "base/str.h"
#include "bench/json_rows.h"
#include "bench/report.h"
#include "bench/saved_result.h"
#include "cli/apart.h"
#include "cli/command.h"
#include "cli/date.h"

namespace glint {
namespace {

struct Options {
  std::string file;
  std::vector<std::string> more;
  std::string html;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("FILE", file,
      "results that `glint bench serve` (--save-result, --output-file), vLLM's or SGLang's "
      "benchmark wrote");
    v("MORE", more, "further ones, of the same run or of others");
    v("html=FILE", html, "also write a page with curves, distributions and every request");
  }
};

// A run without a label is called after its folder, or after its model or the file.
std::string run_name(const Measurement& m, const std::string& path) {
  if (!m.label.empty()) return m.label;
  const std::size_t end = path.rfind('/');
  if (end == path.npos || end == 0)
    return m.model.empty() ? path.substr(end + 1, path.rfind('.') - end - 1) : m.model;
  return path.substr(0, end).substr(path.substr(0, end).rfind('/') + 1);
}

Status run(const Options& options, Cli& cli) {
  std::vector<std::string> files = {options.file};
  files.insert(files.end(), options.more.begin(), options.more.end());
  std::vector<NamedPath> read;
  for (const std::string& path : files) read.push_back({quoted_path(path), path});
  GLINT_TRY_STATUS(check_apart(read, {{"--html", options.html}}));
  std::vector<Measurement> all;
  std::set<std::string> runs, loads;
  for (const std::string& path : files) {
    Result<Json::Array> rows = read_rows(path);
    if (!rows.ok() && rows.error().code == ErrorCode::kInvalidArgument)
      return invalid(rows.error().message + "; expected a result that `glint bench serve` saved");
    if (!rows.ok()) return std::move(rows).take_error();
    if (rows.value().empty()) return invalid(str(quoted_path(path), " has no result"));
    for (const Json& row : rows.value()) {
      GLINT_TRY(Measurement m, read_saved_result(row).in(quoted_path(path)));
      m.label = run_name(m, path);
      runs.insert(m.label);
      const Arrivals& a = m.options.arrivals;
      if (!loads
               .insert(str(m.label, '\n', m.options.concurrency, '\n', a.rate, '\n', a.ramp_start,
                           '\n', a.ramp_end, '\n', a.exponential))
               .second)
        return invalid(str(quoted_path(path), " has the second of its load in the run ",
                           quoted(m.label),
                           "; measure runs with another --label each, or keep their "
                           "files in folders of their own"));
      all.push_back(std::move(m));
    }
  }
  if (runs.size() > kMaxRuns)
    return invalid(str("the files are of ", runs.size(), " runs; a page shows ", kMaxRuns));
  if (!options.html.empty()) {
    GLINT_TRY_STATUS(write_file_atomic(options.html, load_html(all, date_now("%Y-%m-%d %H:%M"))));
  }
  cli.console.print(load_table(all));
  return Ok{};
}

}  // namespace

Command bench_report_command() {
  return make_command<Options>(
      {.name = "bench report",
       .group = "Machine",
       .summary = "saved load tests side by side, as a table and a page",
       .description =
           "Reads results that `glint bench serve --save-result` or `vllm bench serve "
           "--save-result` wrote, one measurement a file, or `glint bench serve --output-file` or "
           "`sglang.bench_serving`, one a line, and shows those of the same load below each other "
           "and the curves of all runs in one chart. Files of one label are a run; "
           "without a label it is called after their folder. With --save-detailed the page has "
           "distributions and every request as well.",
       .examples = {{"glint bench report before/*.json after/*.json --html report.html",
                     "two runs, each in its folder"},
                    {"glint bench serve http://127.0.0.1:8000 --save-detailed --result-dir before",
                     "how such a run is measured"}}},
      run);
}

}  // namespace glint
