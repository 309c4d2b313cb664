// glint train --check-gradients: gradients of a checkpoint against differences of its loss.
#include "base/progress.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "cli/id_file.h"
#include "cli/interrupt.h"
#include "cli/train_options.h"
#include "train/check_gradients.h"

namespace glint {
namespace {

constexpr std::int64_t kBatchTokens = 4096;

struct Options {
  std::string model, ids, backend = "auto";
  std::optional<int> threads = {};
  std::optional<double> mtp_loss;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model,
      "directory of a checkpoint in bf16 or f32, or an id in the Hugging Face cache");
    v("ids=FILE", ids,
      "token ids of a text, as of `glint train gradients`; of each sequence the first index_topk "
      "count");
    v("mtp-loss=W", mtp_loss,
      "how much the draft layer's loss counts beside the model's; 0: not at all (default: 1, where "
      "there is a draft layer)");
    v("threads,t=N", threads, "threads (default: OMP_NUM_THREADS, else one per CPU)");
    v("backend", backend, "who computes; auto: a GPU that is fit for it, else the CPU",
      {"auto", "cpu", "reference", "cuda"});
  }
};

std::string to_text(const std::vector<ParameterCheck>& checks) {
  std::string text = formatted("%-52s %10s %13s %13s %8s\n", "parameter", "elements", "by gradient",
                               "measured", "");
  for (const ParameterCheck& check : checks) {
    text += formatted("%-52s %10lld %13.6g %13.6g %8s\n", check.name.c_str(),
                      static_cast<long long>(check.moved), check.predicted, check.measured,
                      check.is_small() ? "small"
                      : check.agrees() ? "ok"
                                       : "WRONG");
  }
  return text;
}

Status run(const Options& options, Cli& cli) {
  if (options.ids.empty()) return invalid("give a text as token ids: --ids FILE");
  GLINT_TRY(const TokenSequences ids, read_ids(options.ids));
  TrainRunOptions how;
  how.dtype = "f32";
  how.backend = options.backend;
  how.threads = options.threads;
  if (options.mtp_loss && !(*options.mtp_loss >= 0 && *options.mtp_loss <= 1000)) {
    return invalid(
        str("--mtp-loss is ", format_double(*options.mtp_loss), "; it must be from 0 to 1000"));
  }
  const RunOptions running = how.of_model(options.model);
  GLINT_TRY(const ModelOptions resolved, resolve(running, cli, options.mtp_loss != 0.0));
  GLINT_TRY(OpenedModel opened, open_model(resolved));
  GLINT_TRY_STATUS(check_mtp(opened, options.model, options.mtp_loss.value_or(0) > 0, "mtp-loss"));
  const double mtp = opened.has_mtp() ? options.mtp_loss.value_or(1) : 0;
  GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(running, cli));
  DecoratedBackend taped(std::move(backend));
  TapeOps& tape = TapeOps::decorate(taped);
  GLINT_TRY(const std::unique_ptr<LoadedModel> model,
            load_model(resolved, std::move(taped), cli, std::move(opened)));
  GLINT_TRY(TrainedWeights weights, TrainedWeights::make(*model));
  GLINT_TRY(Parameters parameters, Parameters::make(model->weights(), tape));
  ThreadPool pool(std::max(resolved.threads, 1));
  GradientPass pass(*model, tape);
  GLINT_TRY(std::vector<TrainSequence> sequences, with_routes(*model, ids).in(options.ids));
  const std::int64_t tokens = count_targets(sequences, 1);
  const std::int64_t draft_tokens = count_targets(sequences, 2);
  if (tokens == 0) return invalid(options.ids + " has no sequence of at least 2 tokens");
  if (mtp > 0 && draft_tokens == 0) {
    return invalid(options.ids +
                   " has no sequence of at least 3 tokens, which the draft layer "
                   "needs; give --mtp-loss 0");
  }
  if (mtp > 0) {
    GLINT_TRY_STATUS(add_draft_routes(pass, sequences, kBatchTokens));
  }
  const LossTerms terms = {.scale = 1.0 / static_cast<double>(tokens),
                           .mtp_scale = mtp > 0 ? mtp / static_cast<double>(draft_tokens) : 0};
  GLINT_TRY(const LossSums sums, pass.add(sequences, terms, kBatchTokens));
  const InterruptGuard interrupt;
  std::optional<Progress> progress;
  progress.emplace("checking", std::ssize(parameters.all()), Progress::Unit::kItems);
  Result<std::vector<ParameterCheck>> checks =
      check_gradients({pass, *model, weights, parameters, pool, kBatchTokens, mtp}, sequences, [&] {
        progress->add(1);
        return !interrupt.interrupted();
      });
  cli.interrupted = interrupt.interrupted();
  progress.reset();
  if (cli.interrupted) return Ok{};
  if (!checks.ok()) return checks.error();
  cli.console.print(to_text(checks.value()));
  std::size_t small = 0, wrong = 0;
  for (const ParameterCheck& check : checks.value()) {
    small += check.is_small();
    wrong += !check.is_small() && !check.agrees();
  }
  const std::size_t all = checks.value().size();
  if (wrong > 0) {
    return invalid(
        str("the gradients of ", wrong, " of ", all, " parameters are not what the loss does"));
  }
  const std::string rest =
      small ? str("; the loss tells nothing of the other ", small, ", which move it too little")
            : std::string();
  cli.console.print(str(all - small, " of ", all, " parameters agree to 2 %", rest, ". Loss ",
                        format_double(sums.mean()),
                        mtp > 0 ? ", of the draft layer " + format_double(sums.mtp_mean()) : "",
                        ", over ", tokens, " tokens\n"));
  if (small == all) return invalid(options.ids + " tells nothing of any parameter; give more text");
  return Ok{};
}

}  // namespace

Command train_check_command() {
  return make_command<Options>(
      {.name = "train --check-gradients",
       .group = "Training",
       .summary = "gradients of your checkpoint against differences of its loss",
       .description =
           "For each trained parameter, some of its elements are moved by a 64th of themselves, "
           "once as the loss rises by its gradient and once against it, in f32, and the difference "
           "of the two losses is compared with the gradient's; a 128th more tells what is "
           "curvature. Experts and keys stay as they were "
           "chosen. The table has a line a parameter; one that is off by more than 2 % ends with "
           "exit code 2. Weights are changed in memory only.",
       .examples = {{"head -1 models/record/heldout.ids.txt > ids.txt\n"
                     "  glint train --check-gradients models/glm5-tiny --ids ids.txt",
                     "the bundled model"}}},
      run);
}

}  // namespace glint
