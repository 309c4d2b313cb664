// gpu_check [cuda|reference] [quick] [OP]: does the CUDA backend conform, and how fast is it? For a
// machine that has a GPU and none of our packages, where neither the tests nor `glint selftest` can
// be built. `reference` compares the reference with itself, to check this program without a GPU;
// `quick` leaves the timing out; with OP only that op or block is looked at.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "backends/cuda/cuda_ops.h"
#include "backends/cuda/testing/device_checks.h"
#include "backends/reference/reference_ops.h"
#include "ops/conformance/conformance.h"

namespace glint {
namespace {

int run_device_checks(Ops& ops) {
  int failures = 0;
  for (const cuda::DeviceCheck& check : cuda::device_checks()) {
    const std::string failure = check.run(ops);
    failures += !failure.empty();
    std::printf("%-48s %s\n", check.name, failure.empty() ? "ok" : failure.c_str());
    std::fflush(stdout);
  }
  return failures;
}

void print_comparison(const conformance::CaseResult& result) {
  std::printf("%-14s %-44s error %8.2e of %7.1e  %s\n", result.op.c_str(), result.name.c_str(),
              result.error, result.tolerance,
              result.failure.empty() ? "ok" : result.failure.c_str());
  std::fflush(stdout);
}

// The time of one call and the wait for it, so small cases show the time of a launch.
void print_time(const conformance::CaseResult& result) {
  std::printf("%-14s %-44s %9.1f us %9.1f GFLOP/s %8.1f GB/s\n", result.op.c_str(),
              result.name.c_str(), result.seconds * 1e6, result.cost.flops / result.seconds / 1e9,
              result.cost.bytes / result.seconds / 1e9);
  std::fflush(stdout);
}

// The cases of one op.
struct Summary {
  std::string op;
  int cases = 0, failures = 0;
  double error = 0;
};

void add_to(std::vector<Summary>& summaries, const conformance::CaseResult& result) {
  if (summaries.empty() || summaries.back().op != result.op) summaries.push_back({result.op});
  Summary& summary = summaries.back();
  ++summary.cases;
  summary.failures += !result.failure.empty();
  summary.error = std::max(summary.error, result.error);
}

void print_summaries(const std::vector<Summary>& summaries, const char* device) {
  std::printf("%-18s %5s %6s  %s\n", device, "cases", "failed", "largest error");
  for (const Summary& s : summaries) {
    std::printf("%-18s %5d %6d  %.2e\n", s.op.c_str(), s.cases, s.failures, s.error);
  }
}

struct Options {
  std::string backend = "cuda", op = {};
  bool quick = false;
};

int run(const Options& options) {
  ReferenceOps reference;
  Backend* backend = &reference;
  std::unique_ptr<Backend> cuda;
  if (options.backend == "cuda") {
    auto made = make_cuda_ops(0);
    if (!made.ok()) {
      std::fprintf(stderr, "gpu_check: %s\n", made.error().message.c_str());
      return 2;
    }
    cuda = std::move(made).value();
    backend = cuda.get();
  }
  std::vector<Summary> summaries;
  int failures = conformance::run_conformance(*backend, reference, {.op = options.op},
                                              [&](const conformance::CaseResult& result) {
                                                print_comparison(result);
                                                add_to(summaries, result);
                                              });
  if (!options.quick) {
    conformance::run_conformance(*backend, reference, {.op = options.op, .timing = true},
                                 print_time);
  }
  if (options.op.empty()) failures += run_device_checks(*backend);
  print_summaries(summaries, backend->device().name());
  return failures == 0 && !summaries.empty() ? 0 : 1;
}

}  // namespace
}  // namespace glint

int main(int argc, char** argv) {
  glint::Options options;
  const std::vector<std::string> ops = glint::conformance::op_names();
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "quick") {
      options.quick = true;
    } else if (arg == "cuda" || arg == "reference") {
      options.backend = arg;
    } else if (std::find(ops.begin(), ops.end(), arg) != ops.end()) {
      options.op = arg;
    } else {
      std::fprintf(stderr, "usage: gpu_check [cuda|reference] [quick] [OP]\n");
      return 2;
    }
  }
  return glint::run(options);
}
