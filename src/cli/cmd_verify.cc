// glint verify: what engines would say to a quantised checkpoint.
#include <map>

#include "base/json_number.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "quant/check_output.h"

namespace glint {
namespace {

struct Options {
  std::string out;
  std::string source;
  std::optional<int> threads = {};
  bool json = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("OUT", out, "directory of the checkpoint to check");
    v("source=SRC", source, "what it was made from: also measure how far each matrix moved");
    v("threads,t=N", threads, "threads (default: OMP_NUM_THREADS, else one per CPU)");
    v("json", json, "print one JSON object, with a row for every matrix");
  }
};

struct Row {
  std::int64_t matrices = 0;
  ErrorSum error;
  const CheckedTensor* worst = nullptr;
};
using Rows = std::map<std::pair<TensorRole, WeightFormat>, Row>;

Rows rows_of(const OutputCheck& check) {
  Rows rows;
  for (const CheckedTensor& tensor : check.tensors) {
    Row& row = rows[{tensor.role, tensor.format}];
    ++row.matrices;
    row.error.add(tensor.error);
    if (!tensor.error.weights) row.error.weights += tensor.weights;
    if (!row.worst || tensor.error.relative() > row.worst->error.relative()) row.worst = &tensor;
  }
  return rows;
}

std::string describe(const OutputCheck& check, bool with_source) {
  std::string text = formatted("%-16s %-6s %9s %18s %s\n", "role", "format", "matrices", "weights",
                               with_source ? "relative error      worst" : "");
  for (const auto& [key, row] : rows_of(check)) {
    std::string error;
    if (with_source && row.error.squared_error == 0) {
      error = "     as before";
    } else if (with_source) {
      error = formatted("%14.3e %10.3e %s", row.error.relative(), row.worst->error.relative(),
                        row.worst->name.c_str());
    }
    text += formatted("%-16s %-6s %9lld %18s %s\n", name_of(key.first), name_of(key.second),
                      static_cast<long long>(row.matrices), with_commas(row.error.weights).c_str(),
                      error.c_str());
  }
  text += str("total ", human_bytes(check.bytes), "\n\n");
  for (const std::string& what : check.unchecked)
    text += str("not checked: ", one_line(what), "\n");
  if (check.faults.empty()) return text + "nothing is wrong\n";
  for (const std::string& fault : check.faults) text += str("fault: ", one_line(fault), "\n");
  return text + counted(std::ssize(check.faults), "fault") + "\n";
}

Json to_json(const OutputCheck& check, bool with_source) {
  Json::Array tensors;
  for (const CheckedTensor& tensor : check.tensors) {
    Json row = Json::Object{{"name", tensor.name},
                            {"role", name_of(tensor.role)},
                            {"format", name_of(tensor.format)},
                            {"weights", tensor.weights}};
    if (with_source) row.set("relative_error", finite_or_null(tensor.error.relative()));
    tensors.push_back(std::move(row));
  }
  return Json::Object{{"bytes", check.bytes},
                      {"faults", Json::Array(check.faults.begin(), check.faults.end())},
                      {"unchecked", Json::Array(check.unchecked.begin(), check.unchecked.end())},
                      {"tensors", std::move(tensors)}};
}

Status run(const Options& options, Cli& cli) {
  CheckOptions check_options;
  GLINT_TRY(check_options.dir, model_dir(options.out, cli, ModelPart::kWeights));
  if (!options.source.empty()) {
    GLINT_TRY(check_options.source, model_dir(options.source, cli, ModelPart::kWeights));
  }
  GLINT_TRY(const int threads, resolve_threads(options.threads, cli.environment));
  GLINT_TRY(const std::int64_t bytes, bytes_to_check(check_options));
  ThreadPool pool(threads);
  std::optional<Progress> progress;
  progress.emplace("checking", bytes, Progress::Unit::kBytes);
  const Result<OutputCheck> check =
      check_output(check_options, pool, [&](std::int64_t n) { progress->add(n); });
  progress.reset();
  if (!check.ok()) return check.error();
  const bool with_source = !options.source.empty();
  cli.console.print(options.json
                        ? dump_json(to_json(check.value(), with_source), JsonStyle::kIndent2) + "\n"
                        : describe(check.value(), with_source));
  cli.failed = !check.value().faults.empty();
  return Ok{};
}

}  // namespace

Command verify_command() {
  return make_command<Options>(
      {.name = "verify",
       .group = "Checkpoints",
       .summary = "check a quantised checkpoint as engines would read it",
       .description =
           "Opens OUT as vLLM and SGLang do and tells what they would stumble over: names, shapes "
           "and types, missing scales, descriptors of another format, lists of excluded modules "
           "that one of them reads another way, gate and up with different scales, an index that "
           "does not fit, NaN codes, files "
           "that changed since they were written. With --source it also measures the relative "
           "error of every matrix, sum(err^2) / sum(w^2). Exit code 1 if anything is wrong.",
       .examples = {{"glint verify /tmp/tiny-nvfp4 --source models/glm5-tiny",
                     "with the error of each matrix"}}},
      run);
}

}  // namespace glint
