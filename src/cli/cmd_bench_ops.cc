// glint bench ops: the kernels of one layer of GLM-5, each against what memory allows.
#include <algorithm>

#include "base/str.h"
#include "cli/backends.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/option_checks.h"
#include "cli/result_file.h"
#include "ops/timing/op_cases.h"

namespace glint {
namespace {

struct Options {
  std::string backend = "auto", cpu_isa = "auto", formats = "bf16,fp8,nvfp4", figures;
  std::vector<int> batch = {1, 8, 32, 128, 512};
  int ranks = 8, context = 2304;
  std::optional<int> threads = {};
  double matrix_tflops = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("backend", backend, "whom to time; auto: a GPU that is fit for it, else the CPU",
      {"auto", "cpu", "cuda"});
    v("cpu-isa", cpu_isa, "instruction set of the cpu backend (default: the best of this machine)",
      {"auto", "avx2", "avx512", "avx512_bf16", "amx", "amx_emulated"});
    v("threads,t=N", threads, "threads (default: OMP_NUM_THREADS, else one per CPU)");
    v("batch,b=N,...", batch, "sequences that decode together");
    v("formats=NAME,...", formats, "formats of weights: bf16, fp8, nvfp4");
    v("ranks=N", ranks, "tensor-parallel ranks, of which one is timed: 1, 2, 4 or 8");
    v("context=N", context, "tokens of each sequence in the cache");
    v("matrix-tflops=X", matrix_tflops,
      "what a library reaches here with large bf16 matrices: a second limit (0: memory alone)");
    v("figures=FILE", figures, "also write the figures, the machine and the build, as JSON");
  }
};

Result<WeightFormat> parse_format(std::string_view name) {
  for (const WeightFormat format :
       {WeightFormat::kBF16, WeightFormat::kFp8Block, WeightFormat::kNvfp4}) {
    if (name == name_of(format)) return format;
  }
  return invalid(str("--formats names ", quoted(name), "; there are bf16, fp8 and nvfp4"));
}

Status check_options(const Options& options) {
  for (const int batch : options.batch) GLINT_TRY_STATUS(check_range("batch", batch, 1, 4096));
  GLINT_TRY_STATUS(check_range("context", options.context, 1, 1 << 20));
  if (options.ranks < 1 || options.ranks > 8 || 8 % options.ranks != 0)
    return invalid(str("--ranks is ", options.ranks, "; it must be 1, 2, 4 or 8"));
  for (const std::string_view name : split(options.formats, ','))
    GLINT_TRY_STATUS(parse_format(name));
  if (!(options.matrix_tflops >= 0))
    return invalid(str("--matrix-tflops is ", options.matrix_tflops, "; it must be 0 or more"));
  return check_result_file(options.figures);
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check_options(options));
  GLINT_TRY(const int threads, resolve_threads(options.threads, cli.environment));
  GLINT_TRY(
      const std::unique_ptr<Backend> backend,
      make_backend({.name = options.backend, .cpu_isa = options.cpu_isa, .threads = threads}));
  GLINT_TRY(const OpMemory memory, OpMemory::make(backend->device()));
  const double copies = copy_speed(memory);
  Console& console = cli.console;
  console.print(str(backend->device().name(), ": copies ", formatted("%.0f", copies * 1e-9),
                    " GB/s, read and written; rank of ", options.ranks, ", context ",
                    options.context, "\n"));
  console.print(formatted("%-30s %6s %10s %10s %9s %9s %7s\n", "op", "batch", "us", "MB", "GB/s",
                          "TFLOP/s", "limit"));
  std::vector<Figure> figures = {
      {.name = "device copy", .unit = "GB/s", .samples = {copies * 1e-9}}};
  for (const std::string_view name : split(options.formats, ',')) {
    GLINT_TRY(const WeightFormat format, parse_format(name));
    for (const int batch : options.batch) {
      std::vector<Buffer> keep;
      const OpSizes sizes = {options.ranks, batch, options.context};
      for (const OpCase& op : op_cases(*backend, memory, sizes, format, keep)) {
        if (!op.run) {
          console.print(formatted("%-30s %6d  left out: more memory than this benchmark has\n",
                                  op.name.c_str(), batch));
          continue;
        }
        const double seconds = seconds_of(backend->device(), op);
        const double gb = op.cost.bytes / seconds * 1e-9;
        const double tflops = op.cost.flops / seconds * 1e-12;
        double share = gb * 1e9 / copies;
        if (options.matrix_tflops > 0) share = std::max(share, tflops / options.matrix_tflops);
        console.print(formatted("%-30s %6d %10.2f %10.3f %9.0f %9.2f %6.0f%%\n", op.name.c_str(),
                                batch, seconds * 1e6, op.cost.bytes * 1e-6, gb, tflops,
                                100 * share));
        console.flush();
        const std::string head = str("batch ", batch);
        figures.push_back({.name = str(head, ", ", op.name),
                           .unit = "us",
                           .more_is_better = false,
                           .samples = {seconds * 1e6}});
        figures.push_back(
            {.name = str(head, " of the limit, ", op.name), .unit = "%", .samples = {100 * share}});
      }
    }
  }
  return write_figures(options.figures, {.benchmark = "bench ops",
                                         .options = Json::Object{{"ranks", options.ranks},
                                                                 {"context", options.context}},
                                         .figures = std::move(figures)});
}

}  // namespace

Command bench_ops_command() {
  return make_command<Options>(
      {.name = "bench ops",
       .group = "Machine",
       .summary = "the kernels of a layer of GLM-5, against the limits of memory",
       .description =
           "Times the products, the attention and the small ops of one layer of GLM-5 as one of "
           "several ranks computes them for a batch of decoding sequences, one after another, on "
           "random numbers that together exceed every cache. Bytes are the least that an op must "
           "move. The limit is the speed at which the same run copies memory, or the rate of "
           "matrices that it was told, whichever an op is nearer to. Takes 3.4 GB of memory.",
       .examples = {{"glint bench ops --backend cuda -b 1,128", "two batches"}}},
      run);
}

}  // namespace glint
