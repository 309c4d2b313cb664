#include "backends/cuda/targets.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/str.h"

namespace glint::cuda {
namespace {

constexpr int kLeast = 80, kMeasured = 90;  // bench/results has runs of the latter alone

bool one_runs_on(std::string_view target, int capability) {
  const bool exact = target.ends_with('a'), family = target.ends_with('f');
  if (exact || family) target.remove_suffix(1);
  int own = 0;
  std::from_chars(target.data(), target.data() + target.size(), own);
  return exact ? own == capability : own / 10 == capability / 10 && own <= capability;
}

}  // namespace

bool runs_on(std::string_view targets, int capability) {
  const std::vector<std::string_view> each = split(targets, ' ');
  return std::any_of(each.begin(), each.end(),
                     [&](std::string_view target) { return one_runs_on(target, capability); });
}

Status check_target(const std::string& device, int capability, std::string_view targets) {
  if (runs_on(targets, capability)) return Ok{};
  const std::string kernels = str(device, " is sm_", capability, ", and ");
  if (capability < kLeast) {
    return unsupported(
        str(kernels, "kernels need sm_", kLeast, " or later; run with --backend cpu"));
  }
  return unsupported(str(kernels, "this build has kernels for ", targets,
                         " only; build with -DGLINT_CUDA_TARGETS=", capability,
                         capability == 90 ? "a" : "", ", or run with --backend cpu"));
}

std::string unmeasured(const std::string& device, int capability) {
  if (capability == kMeasured) return {};
  return str(
      device, " is sm_", capability,
      ", for which the kernels are compiled but were never run; `glint selftest` says whether "
      "they are right there");
}

}  // namespace glint::cuda
