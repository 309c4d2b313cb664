// glint train gradients: what a checkpoint's parameters would change for a given text.
#include <chrono>

#include "base/progress.h"
#include "base/seconds.h"
#include "base/str.h"
#include "cli/apart.h"
#include "cli/id_file.h"
#include "cli/interrupt.h"
#include "cli/option_checks.h"
#include "cli/train_layout.h"
#include "cli/train_options.h"
#include "train/gradient_file.h"
#include "train/train_ranks.h"

namespace glint {
namespace {

struct Options {
  std::string model, ids, out;
  float mtp_loss = 0;
  int batch_tokens = 8192;
  bool json = false;
  TrainLayoutOptions layout;
  TrainRunOptions how;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model,
      "directory of a checkpoint in bf16 or f32, or an id in the Hugging Face cache");
    v.section("Loss");
    v("ids=FILE", ids,
      "token ids: .npy (int32 or int64; 2-D: a sequence a row), or text (integers between blanks, "
      "a sequence a line); sequences are packed without padding and do not see each other");
    v("mtp-loss=W", mtp_loss,
      "add W times the draft layer's mean cross-entropy to the loss; with 0 the draft layer does "
      "not run and has no gradients in the file");
    v("batch-tokens=N", batch_tokens,
      "tokens that go through the model together: memory grows with it, and gradients change by "
      "their rounding only; a longer sequence is a batch of its own");
    v.section("Result");
    v("out=G.safetensors", out,
      "the gradient of every trained parameter, in f32 under its name in the checkpoint: experts "
      "one by one, kv_b_proj in one piece; the indexer and e_score_correction_bias have none");
    v("json", json, "the numbers as JSON, with what each rank holds and tells the others");
    layout.visit(v);
    how.visit(v);
  }
};

Status check(const Options& options) {
  if (options.ids.empty()) return invalid("give the text as token ids: --ids FILE");
  if (options.out.empty()) return invalid("give a file for the gradients: --out G.safetensors");
  GLINT_TRY_STATUS(check_range("mtp-loss", options.mtp_loss, 0, 1000));
  return check_least("batch-tokens", options.batch_tokens, 1);
}

Json ranks_of(TrainRanks& ranks) {
  Json::Array all;
  for (int rank = 0; rank < ranks.size(); ++rank) all.push_back(ranks.describe(rank));
  return all;
}

std::string to_json(const LossSums& loss, double norm, TrainRanks& ranks) {
  Json json = Json::Object{{"loss", loss.mean()}, {"tokens", loss.tokens}};
  if (loss.mtp_tokens > 0) {
    json.set("mtp_loss", loss.mtp_mean());
    json.set("mtp_tokens", loss.mtp_tokens);
  }
  json.set("gradient_norm", norm);
  json.set("parameters", ranks.num_trained());
  json.set("ranks", ranks_of(ranks));
  return dump_json(json, JsonStyle::kIndent2) + "\n";
}

std::string to_text(const Options& options, const LossSums& loss, double norm,
                    const TokenSequences& sequences, double seconds, TrainRanks& ranks) {
  std::string text =
      formatted("loss: %.7g over %lld tokens\n", loss.mean(), static_cast<long long>(loss.tokens));
  if (loss.mtp_tokens > 0) {
    text += formatted("mtp loss: %.7g over %lld tokens, counted %g times\n", loss.mtp_mean(),
                      static_cast<long long>(loss.mtp_tokens), double{options.mtp_loss});
  }
  text += formatted("gradient norm: %.7g of %lld parameters\n", norm,
                    static_cast<long long>(ranks.num_trained()));
  const std::int64_t tokens = count_tokens(sequences);
  text += formatted("%lld tokens in %.2f s, %.0f tokens/s\n", static_cast<long long>(tokens),
                    seconds, static_cast<double>(tokens) / seconds);
  return text + ranks_text(ranks_of(ranks));
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check(options));
  const RunOptions how = options.how.of_model(options.model);
  const bool mtp = options.mtp_loss > 0;
  GLINT_TRY(const ModelOptions resolved, resolve(how, cli, mtp));
  GLINT_TRY_STATUS(
      check_apart({{"MODEL", resolved.dir}, {"--ids", options.ids}}, {{"--out", options.out}}));
  GLINT_TRY(const TokenSequences sequences, read_ids(options.ids));
  GLINT_TRY(OpenedModel opened, open_model(resolved));
  GLINT_TRY_STATUS(check_mtp(opened, options.model, mtp, "mtp-loss"));
  GLINT_TRY(LaidOutRanks layout, lay_out(options.layout.shape(), how, resolved, cli));
  GLINT_TRY(const std::unique_ptr<TrainRanks> ranks,
            TrainRanks::open(layout.model, std::move(layout.backends), {}, std::move(opened)));
  note_unused(ranks->model().options().dir, ranks->model().load_stats().unused, cli);
  GLINT_TRY_STATUS(ranks->make_parameters());
  GLINT_TRY_STATUS(check_gradient_file(ranks->trained(), options.out));

  const int batches = ranks->num_batches(plain(sequences), options.batch_tokens, mtp);
  const InterruptGuard interrupt;
  const auto start = std::chrono::steady_clock::now();
  std::optional<Progress> progress;
  progress.emplace("gradients", std::int64_t{batches} * ranks->parts_of_batch(),
                   Progress::Unit::kItems);
  const auto on_part = [&] {
    progress->add(1);
    return !interrupt.interrupted();
  };
  Result<LossSums> sums =
      ranks->run(sequences, {.mtp_weight = options.mtp_loss}, options.batch_tokens, on_part);
  cli.interrupted = interrupt.interrupted();
  progress.reset();
  if (cli.interrupted) return Ok{};
  GLINT_TRY(const LossSums loss, std::move(sums).in(options.ids));
  ranks->sum_gradients();
  const double seconds = seconds_since(start);
  GLINT_TRY_STATUS(write_gradients(*ranks, options.out));
  const double norm = norm_of(*ranks);
  cli.console.print(options.json ? to_json(loss, norm, *ranks)
                                 : to_text(options, loss, norm, sequences, seconds, *ranks));
  return Ok{};
}

}  // namespace

Command train_gradients_command() {
  return make_command<Options>(
      {.name = "train gradients",
       .group = "Training",
       .summary = "the gradient of every parameter, for a given text",
       .description =
           "Computes the mean cross-entropy of given tokens and its gradient, through the very "
           "ops that serve the model: the forward pass gives the bits that `glint score` gives. "
           "Experts and keys are chosen once and count as constants. Half a layer at a time "
           "is computed again for its gradient, so that memory hardly grows with the depth. For "
           "comparing with another implementation, and for looking at what a text would change.",
       .examples =
           {{"glint train gradients models/glm5-tiny --ids models/record/heldout.ids.txt \\\n"
             "      --out g.safetensors --dtype f32",
             "nothing rounded to bf16"},
            {"glint train gradients models/glm5-tiny --ids models/record/heldout.ids.txt \\\n"
             "      --out g.safetensors --mtp-loss 0.3",
             "the draft layer trained along"}}},
      run);
}

}  // namespace glint
