// glint synth: a checkpoint with made-up weights.
#include "base/json.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "model/synthetic.h"

namespace glint {
namespace {

struct Options {
  std::string config, out;
  Release format = Release::kBF16;
  std::uint64_t seed = 0;
  std::optional<int> threads = {};

  template <class Visitor>
  void visit(Visitor&& v) {
    v("CONFIG", config, "a config.json");
    v("OUT", out, "the directory to make");
    v("format", format, "what the weights are stored in", {"bf16", "fp8", "nvfp4"});
    v("seed", seed, "other seeds are other weights");
    v("threads,t=N", threads, "threads (default: OMP_NUM_THREADS, else one per CPU)");
  }
};

Status run(const Options& options, Cli& cli) {
  GLINT_TRY(const ModelConfig config, read_config(options.config));
  GLINT_TRY(const Json config_json, read_json_file(options.config));
  GLINT_TRY(const int threads, resolve_threads(options.threads, cli.environment));
  GLINT_TRY(const SyntheticModel model,
            SyntheticModel::plan(config, options.format, options.seed).in(options.config));
  ThreadPool pool(threads);
  Progress progress("writing", model.bytes(), Progress::Unit::kBytes);
  const InterruptGuard interrupt;
  Status written =
      write_synthetic_checkpoint(model, config_json, options.out, pool, [&](std::int64_t bytes) {
        progress.add(bytes);
        return !interrupt.interrupted();
      });
  if (written.ok() || !interrupt.interrupted()) return written;
  cli.interrupted = true;
  return Ok{};
}

}  // namespace

Command synth_command() {
  return make_command<Options>(
      {.name = "synth",
       .group = "Checkpoints",
       .summary = "write a checkpoint with made-up weights",
       .description =
           "Writes a checkpoint of any config with random weights of realistic spread, for "
           "measuring and for testing: activations stay of order one, experts and keys are chosen "
           "unevenly, a few weights are outliers. fp8 quantises what the published FP8 checkpoints "
           "do, nvfp4 the routed experts; both are the quantised bf16 weights of the same seed. "
           "The bytes depend on the seed alone. There is no tokenizer in OUT: use token ids (score "
           "--ids, bench), or copy a tokenizer.json there.",
       .examples = {{"glint synth models/glm5-tiny/config.json /tmp/tiny --format fp8",
                     "the bundled model's shape, with random FP8 weights"}}},
      run);
}

}  // namespace glint
