// glint selftest: does this machine compute what it should, and how near its limits?
#include <algorithm>
#include <cmath>
#include <optional>

#include "backends/reference/reference_ops.h"
#include "base/contains.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/backends.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "ops/capabilities.h"
#include "ops/conformance/conformance.h"

namespace glint {
namespace {

using conformance::CaseResult;

struct Options {
  std::string backend = "auto", cpu_isa = "auto", op;
  std::optional<int> threads = {};
  bool timing = true, all = false, json = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("op=NAME", op, "only this op or block (default: all)");
    v("backend", backend, "whom to test; auto: a GPU that is fit for it, else the CPU",
      {"auto", "cpu", "cuda"});
    v("cpu-isa", cpu_isa, "instruction set of the cpu backend (default: the best of this machine)",
      {"auto", "avx2", "avx512", "avx512_bf16", "amx", "amx_emulated"});
    v("threads,t=N", threads, "threads (default: OMP_NUM_THREADS, else one per CPU)");
    v("timing", timing, "also time the ops at large sizes");
    v("all,a", all, "a line for every case, not only for every op");
    v("json", json, "print one JSON object with every case");
  }
};

// The cases of one op, summed up.
struct Summary {
  int cases = 0, failed = 0;
  double error = 0, tolerance = 0;  // of the case nearest to its tolerance
  double share = -1;                // error / tolerance of that case

  void add(const CaseResult& result) {
    ++cases;
    failed += !result.failure.empty();
    const double used = result.tolerance > 0 ? result.error / result.tolerance : result.error;
    if (used <= share) return;
    share = used, error = result.error, tolerance = result.tolerance;
  }
};

std::string row(const CaseResult& result) {
  return formatted("%-18s %-62s %10.2e %10.0e  %s\n", result.op.c_str(), result.name.c_str(),
                   result.error, result.tolerance, result.failure.empty() ? "ok" : "FAILED");
}

double gb_per_s(const CaseResult& result) { return result.cost.bytes / result.seconds * 1e-9; }
double gflops(const CaseResult& result) { return result.cost.flops / result.seconds * 1e-9; }

// Share of the limit that is nearer: memory or arithmetic. NaN where no limit was measured.
double share_of_limit(const CaseResult& result, const std::optional<MachineLimits>& limits) {
  if (!limits) return NAN;
  const double peak = result.in_f32 ? limits->f32_gflops : limits->matrix_gflops;
  return std::max(gb_per_s(result) / limits->read_gb_s, gflops(result) / peak);
}

std::string timed_row(const CaseResult& result, double share) {
  return formatted("%-18s %-62s %10.1f %8.1f %9.1f %7s\n", result.op.c_str(), result.name.c_str(),
                   result.seconds * 1e6, gb_per_s(result), gflops(result),
                   std::isnan(share) ? "-" : formatted("%6.0f%%", 100 * share).c_str());
}

Json to_json(const CaseResult& result) {
  return Json::Object{{"op", result.op},
                      {"case", result.name},
                      {"error", result.error},
                      {"tolerance", result.tolerance},
                      {"failure", result.failure}};
}

Json timed_to_json(const CaseResult& result, double share) {
  return Json::Object{{"op", result.op},
                      {"case", result.name},
                      {"us", result.seconds * 1e6},
                      {"gb_per_s", gb_per_s(result)},
                      {"gflops", gflops(result)},
                      {"share_of_limit", std::isnan(share) ? Json(nullptr) : Json(share)}};
}

// Compares every op; prints as it goes, a line an op (or a case), and every failure.
int compare(const Options& options, Backend& backend, Console& console, Json::Array& cases) {
  ReferenceOps reference;
  std::vector<std::pair<std::string, Summary>> summaries;
  const auto print_summary = [&] {
    if (summaries.empty() || options.json || options.all) return;
    const auto& [op, s] = summaries.back();
    console.print(formatted("%-18s %6d %12.2e %10.0e  %s\n", op.c_str(), s.cases, s.error,
                            s.tolerance, s.failed ? str(s.failed, " FAILED").c_str() : "ok"));
    console.flush();
  };
  if (!options.json) {
    console.print(
        options.all
            ? formatted("%-18s %-62s %10s %10s\n", "op", "case", "error", "tolerance")
            : formatted("%-18s %6s %12s %10s\n", "op", "cases", "worst error", "tolerance"));
  }
  const int failed = conformance::run_conformance(
      backend, reference, {.op = options.op}, [&](const CaseResult& r) {
        if (summaries.empty() || summaries.back().first != r.op) {
          print_summary();
          summaries.emplace_back(r.op, Summary());
        }
        summaries.back().second.add(r);
        if (options.json) return cases.push_back(to_json(r));
        if (options.all) console.print(row(r));
        if (!r.failure.empty()) console.print(str("  ", r.op, ": ", r.name, ": ", r.failure, "\n"));
      });
  print_summary();
  return failed;
}

// Times every op, a line each, and returns the machine's limits in words.
std::string time(const Options& options, Backend& backend, Console& console, Json::Array& timed) {
  std::optional<MachineLimits> limits;
  if (Result<MachineLimits> measured = measure_limits(backend); measured.ok()) {
    limits = measured.value();
  }
  const std::string machine = limits ? describe(*limits, backend)
                                     : backend.capabilities().backend + ", limits not measured";
  if (!options.json) {
    console.print(str("\n", machine, "\n"));
    console.print(formatted("%-18s %-62s %10s %8s %9s %7s\n", "op", "case", "us", "GB/s", "GFLOP/s",
                            "limit"));
  }
  const auto on_case = [&](const CaseResult& result) {
    const double share = share_of_limit(result, limits);
    if (options.json) return timed.push_back(timed_to_json(result, share));
    console.print(timed_row(result, share));
    console.flush();
  };
  conformance::run_conformance(backend, backend, {.op = options.op, .timing = true}, on_case);
  return machine;
}

Status run(const Options& options, Cli& cli) {
  const std::vector<std::string> names = conformance::op_names();
  if (!options.op.empty() && !contains(names, options.op)) {
    const std::string near = did_you_mean(options.op, names);
    return invalid(
        str("no op ", quoted(options.op),
            near.empty() ? "; there are " + joined(names, ", ") : ", did you mean " + near + "?"));
  }
  GLINT_TRY(const int threads, resolve_threads(options.threads, cli.environment));
  GLINT_TRY(
      const std::unique_ptr<Backend> backend,
      make_backend({.name = options.backend, .cpu_isa = options.cpu_isa, .threads = threads}));
  Console& console = cli.console;
  Json::Array cases, timed;
  std::string machine;
  const int failed = compare(options, *backend, console, cases);
  cli.failed = failed > 0;
  if (options.timing) machine = time(options, *backend, console, timed);
  if (options.json) {
    const Json object(
        Json::Object{{"machine", machine}, {"failed", failed}, {"cases", cases}, {"timed", timed}});
    console.print(dump_json(object, JsonStyle::kIndent2) + "\n");
  } else {
    console.print(failed ? str("\n", failed, " cases FAILED\n") : "\nevery op conforms\n");
  }
  return Ok{};
}

}  // namespace

Command selftest_command() {
  return make_command<Options>(
      {.name = "selftest",
       .group = "Machine",
       .summary = "check every op on this machine, and time it",
       .description =
           "Runs every op of this machine's backend on many shapes and formats and compares it "
           "with the scalar reference: the error must stay within the op's tolerance, a token's "
           "result must have the same bits alone and in a batch, and nothing else may be written. "
           "Then times the ops at large sizes: GB/s and GFLOP/s of the least work, and the share "
           "of what this machine can do at most, measured in the same run (more than 100% where "
           "the data lies in a cache). Exit code 1 if anything fails.",
       .examples = {{"glint selftest", "everything, in less than a minute"},
                    {"glint selftest --op sparse_mla --cpu-isa avx2 --all",
                     "one op, case by case"}}},
      run);
}

}  // namespace glint
