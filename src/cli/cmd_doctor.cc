// glint doctor: what this machine is, what glint will use of it, and what to fix.
#include <algorithm>

#include "backends/cuda/cuda_ops.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/backends.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "doctor/facts_json.h"
#include "doctor/findings.h"
#include "doctor/look.h"

namespace glint {
namespace {

struct Options {
  std::optional<int> threads = {};
  bool measure = true, json = false;
  std::string root;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("threads,t=N", threads,
      "threads to measure with (default: OMP_NUM_THREADS, else one per CPU)");
    v("measure", measure, "measure memory and arithmetic, which takes about a second");
    v("json", json, "print one JSON object with everything that was found");
    v("root=DIR", root,
      "look at the tree below DIR, with another machine's /proc, /sys and /etc, and measure "
      "nothing");
  }
};

// Rates of the cpu backend on this machine; its threads alone where nothing is measured.
Rates measure(const Options& options, int threads) {
  if (!options.root.empty()) return {};
  const Rates unmeasured = {.threads = threads};
  if (!options.measure) return unmeasured;
  const auto ops = make_backend({.name = "cpu", .cpu_isa = "auto", .threads = threads});
  if (!ops.ok()) return unmeasured;
  const Result<MachineLimits> limits = measure_limits(*ops.value());
  if (!limits.ok()) return unmeasured;
  return {.backend = name_of(limits.value().isa),
          .threads = limits.value().threads,
          .read_gb_s = limits.value().read_gb_s,
          .f32_gflops = limits.value().f32_gflops,
          .matrix_gflops = limits.value().matrix_gflops};
}

const char* color_of(Mark mark) {
  constexpr const char* kColors[] = {"\x1b[32m", "\x1b[36m", "\x1b[33m", "\x1b[31m"};
  return kColors[static_cast<int>(mark)];
}

void print_finding(const Finding& finding, Console& console) {
  constexpr int kIndent = 26;
  const std::string mark = formatted("  %-5s ", name_of(finding.mark));
  console.print(console.color() ? str(color_of(finding.mark), mark, "\x1b[0m") : mark);
  const int width = std::clamp(console.width(), kIndent + 40, 110);
  console.print(formatted("%-17s ", finding.subject.c_str()) + wrap(finding.text, width, kIndent) +
                "\n");
  for (const std::string& command : finding.commands) {
    console.print(str(std::string(kIndent, ' '), console.bold("$ " + command), "\n"));
  }
}

int count(const std::vector<Finding>& findings, Mark mark) {
  return static_cast<int>(std::count_if(findings.begin(), findings.end(),
                                        [&](const Finding& f) { return f.mark == mark; }));
}

void print_table(const std::vector<Finding>& findings, Console& console) {
  std::string area;
  for (const Finding& finding : findings) {
    if (finding.area != area) {
      console.print(str(area.empty() ? "" : "\n", console.bold(finding.area), "\n"));
      area = finding.area;
    }
    print_finding(finding, console);
  }
  const int fails = count(findings, Mark::kFail), fixes = count(findings, Mark::kFix),
            notes = count(findings, Mark::kNote);
  if (fails) console.print(str("\nglint does not work here until what says fail is fixed\n"));
  if (!fails && fixes) console.print(str("\nglint works here; to fix: ", fixes, "\n"));
  if (!fails && !fixes)
    console.print(str("\nglint works here; nothing to fix",
                      notes ? "; " + counted(notes, "note") : std::string(), "\n"));
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY(const int threads, resolve_threads(options.threads, cli.environment));
  if (!options.root.empty() && !is_directory(options.root))
    return invalid(str("--root is ", quoted(options.root), ", which is no directory"));
  MachineFacts machine = look_at_machine({.root = options.root,
                                          .folders = {{"models", cli.environment.hf_hub_cache},
                                                      {"temporary files", cli.environment.tmp_dir}},
                                          .variables = cli.environment.foreign});
  machine.has_bundled_model = is_directory("models/glm5-tiny");
  const Rates rates = measure(options, threads);
  const std::vector<Finding> findings = judge(
      machine, rates, {.has_cuda = built_with_cuda(), .has_kernels = built_for_cuda_capability});
  cli.failed = count(findings, Mark::kFail) > 0;
  if (options.json) {
    const Json object = Json::Object{{"works", !cli.failed},
                                     {"machine", to_json(machine)},
                                     {"rates", to_json(rates)},
                                     {"findings", to_json(findings)}};
    cli.console.print(dump_json(object, JsonStyle::kIndent2) + "\n");
  } else {
    print_table(findings, cli.console);
  }
  return Ok{};
}

}  // namespace

Command doctor_command() {
  return make_command<Options>(
      {.name = "doctor",
       .group = "Machine",
       .summary = "what this machine is, what glint will use of it, and what to fix",
       .description =
           "Looks at processor, memory, limits, disks, GPUs, the ways between them and the "
           "libraries for several of them, and measures memory and arithmetic. Every line has a "
           "mark: ok; note, to know; fix, which costs speed or lets NCCL hang, with the command "
           "that fixes it; fail, without which glint does not run. It changes nothing, asks "
           "nobody but nvidia-smi (30 seconds a question), and needs no rights: as root it also "
           "sees the registers of PCI bridges. Exit code 0, also with something to fix; 1 if "
           "anything says fail.",
       .examples = {{"glint doctor", "the table, in a few seconds"},
                    {"glint doctor --json --no-measure", "for a program, or for a report of a bug"},
                    {"sudo glint doctor", "with what only root may read"}}},
      run);
}

}  // namespace glint
