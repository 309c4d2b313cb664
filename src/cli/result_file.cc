#include "cli/result_file.h"

#include <algorithm>

#include "backends/cuda/cuda_ops.h"
#include "base/file.h"
#include "base/statistics.h"
#include "doctor/facts_json.h"
#include "doctor/look.h"

namespace glint {
namespace {

#if defined(__clang__)
constexpr const char* kCompiler = __VERSION__;  // begins with the name
#else
constexpr const char* kCompiler = "g++ " __VERSION__;
#endif

}  // namespace

Json figures_json(std::span<const Figure> figures) {
  Json::Array out;
  for (const Figure& figure : figures) {
    const auto [low, high] = std::minmax_element(figure.samples.begin(), figure.samples.end());
    out.push_back(
        Json::Object{{"name", figure.name},
                     {"unit", figure.unit},
                     {"better", figure.more_is_better ? "more" : "less"},
                     {"median", median(figure.samples)},
                     {"low", *low},
                     {"high", *high},
                     {"rounds", static_cast<std::int64_t>(figure.samples.size())},
                     {"samples", Json::Array(figure.samples.begin(), figure.samples.end())}});
  }
  return out;
}

Status check_result_file(const std::string& path) {
  if (!path.empty()) GLINT_TRY_STATUS(find_replaceable(path));
  return Ok{};
}

Status write_figures(const std::string& path, const BenchRun& run) {
  if (path.empty()) return Ok{};
  Json machine = machine_summary(look_at_machine({}));
  if (run.rates.read_gb_s > 0) machine.set("rates", to_json(run.rates));
  const Json out = Json::Object{{"format", "glint-figures-1"},
                                {"source", "measured"},
                                {"benchmark", run.benchmark},
                                {"options", run.options},
                                {"machine", std::move(machine)},
                                {"build", Json::Object{{"version", GLINT_VERSION},
                                                       {"compiler", kCompiler},
                                                       {"cuda", built_with_cuda()}}},
                                {"figures", figures_json(run.figures)}};
  return write_file_atomic(path, dump_json(out, JsonStyle::kIndent2) + "\n");
}

}  // namespace glint
