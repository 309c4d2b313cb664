// gpu_check [cuda|reference] [quick]: does the CUDA backend conform, and how fast is it? For a
// machine that has a GPU and none of our packages, where neither the tests nor `glint selftest` can
// be built. `reference` compares the reference with itself, to check this program without a GPU;
// `quick` leaves the timing out.
#include <cstdio>
#include <string_view>

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

// Of one call and the wait for it, so small ones show the time of a launch.
void print_time(const conformance::CaseResult& result) {
  std::printf("%-14s %-44s %9.1f us %9.1f GFLOP/s %8.1f GB/s\n", result.op.c_str(),
              result.name.c_str(), result.seconds * 1e6, result.cost.flops / result.seconds / 1e9,
              result.cost.bytes / result.seconds / 1e9);
  std::fflush(stdout);
}

int run(std::string_view backend, bool quick) {
  ReferenceOps reference;
  Ops* ops = &reference;
  std::unique_ptr<Ops> cuda_ops;
  if (backend == "cuda") {
    auto made = make_cuda_ops(0);
    if (!made.ok()) {
      std::fprintf(stderr, "gpu_check: %s\n", made.error().message.c_str());
      return 2;
    }
    cuda_ops = std::move(made).value();
    ops = cuda_ops.get();
  }
  int cases = 0;
  const int failures = conformance::run_conformance(*ops, reference, {}, [&](const auto& result) {
    ++cases;
    print_comparison(result);
  });
  if (!quick) conformance::run_conformance(*ops, reference, {.op = {}, .timing = true}, print_time);
  const int checks = run_device_checks(*ops);
  std::printf("%s: %d device checks failed, %d of %d conformance cases failed\n",
              ops->device().name(), checks, failures, cases);
  return checks + failures == 0 && cases > 0 ? 0 : 1;
}

}  // namespace
}  // namespace glint

int main(int argc, char** argv) {
  std::string_view backend = "cuda";
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg == "quick") {
      quick = true;
    } else if (arg == "cuda" || arg == "reference") {
      backend = arg;
    } else {
      std::fprintf(stderr, "usage: gpu_check [cuda|reference] [quick]\n");
      return 2;
    }
  }
  return glint::run(backend, quick);
}
