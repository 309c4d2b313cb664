// glint eval: how far a model is from a reference on given text.
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/progress.h"
#include "base/str.h"
#include "cli/apart.h"
#include "cli/id_file.h"
#include "cli/option_checks.h"
#include "cli/rank_options.h"
#include "cli/result_file.h"
#include "eval/report.h"
#include "model/inventory.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {
namespace {

struct Options : RunOptions, LayoutOptions {
  std::string ref, ref_dtype, ref_kv_dtype, ref_index;
  std::string text, ids, html, tmp;
  std::optional<std::int64_t> context;
  std::int64_t layer_rows = 1024;
  int chunk = 256;
  bool json = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    RunOptions::visit(v);
    LayoutOptions::visit(v, {.dp = "replicas, each with sequences and a cache of its own"});
    v.section("Reference");
    v("ref=MODEL", ref,
      "the model to compare with; MODEL itself where only the arithmetic differs");
    v("ref-dtype", ref_dtype, "what the reference computes in (default: as --dtype)",
      {"bf16", "f32"});
    v("ref-kv-dtype", ref_kv_dtype, "its KV cache (default: that of --ref-dtype)",
      {"f32", "bf16", "fp8"});
    v("ref-index", ref_index, "its index keys (default: exact with f32, else fp8)",
      {"exact", "fp8"});
    v.section("Text");
    v("text=FILE", text, "a text; it is read in pieces of --context tokens, each on its own");
    v("context=N", context,
      "tokens of a piece of --text, at most the model's positions (default: 2048)");
    v("ids=FILE", ids,
      "token ids instead of text: .npy (2-D: a sequence a row), or integers, a sequence a line");
    v.section("Results");
    v("html=FILE", html, "also write a page with charts; it opens offline");
    v("json", json, "print one JSON object instead of the table");
    v("layer-rows=N", layer_rows,
      "positions, evenly spaced, at which the residual streams are compared; 0: none");
    v("chunk=N", chunk, "tokens per step; no result depends on it");
    v("tmp=DIR", tmp,
      "where the reference's logits wait, 4 bytes for each token and entry of the vocabulary "
      "(default: TMPDIR, else /tmp)");
  }
};

std::int64_t context_of(const Options& options) { return options.context.value_or(2048); }

Status check_options(const Options& options) {
  if (options.ref.empty()) return invalid("--ref is missing: name the model to compare with");
  if (options.text.empty() == options.ids.empty())
    return invalid("give either --text FILE or --ids FILE");
  GLINT_TRY_STATUS(check_least("chunk", options.chunk, 1));
  if (options.context && !options.ids.empty()) {
    return invalid("--context cuts --text; a sequence of --ids is as long as it is: leave it out");
  }
  GLINT_TRY_STATUS(check_least("context", context_of(options), 2));
  GLINT_TRY_STATUS(check_least("layer-rows", options.layer_rows, 0));
  return Ok{};
}

RunOptions reference_of(const Options& options) {
  RunOptions ref = options;
  ref.model = options.ref;
  if (!options.ref_dtype.empty()) ref.dtype = options.ref_dtype;
  ref.kv_dtype = options.ref_kv_dtype;
  ref.index = options.ref_index;
  return ref;
}

// One of the two models: its files are read once, before either is loaded.
struct Found {
  RunOptions run;
  ModelOptions resolved;
  OpenedModel opened;
  std::string note;  // of FittedShape
};

Result<Found> find(RunOptions run, const LayoutOptions& layout, Cli& cli) {
  GLINT_TRY(ModelOptions resolved, resolve(run, cli, /*with_mtp=*/false));
  GLINT_TRY(OpenedModel opened, open_model(resolved));
  GLINT_TRY(FittedShape fitted, fit_shape(layout, opened.config, resolved.threads));
  GLINT_TRY_STATUS(check_fitted(fitted, run));
  resolved.shape = fitted.shape;
  return Found{std::move(run), std::move(resolved), std::move(opened), std::move(fitted.note)};
}

// The tokens of --text in pieces of --context, none longer than the reference's positions.
Result<TokenSequences> tokenize_text(const Options& options, const Found& reference,
                                     const Found& model) {
  const std::string &dir = reference.resolved.dir, &other_dir = model.resolved.dir;
  GLINT_TRY(const Tokenizer tokenizer, Tokenizer::open(dir));
  GLINT_TRY(const std::string text, read_file(options.text));
  GLINT_TRY(const std::vector<TokenId> ids, tokenizer.encode(text));
  if (other_dir != dir && file_exists(other_dir + "/tokenizer.json")) {
    GLINT_TRY(const Tokenizer other, Tokenizer::open(other_dir));
    GLINT_TRY(const std::vector<TokenId> others, other.encode(text));
    if (others != ids) {
      return invalid(str("the tokenizers of ", dir, " and ", other_dir,
                         " give different tokens for ", options.text,
                         ": they are not the same model in two formats"));
    }
  }
  const std::size_t length = static_cast<std::size_t>(
      std::min(context_of(options), reference.opened.config.max_position_embeddings));
  TokenSequences pieces;
  for (std::size_t at = 0; at < ids.size(); at += length)
    pieces.emplace_back(ids.begin() + at, ids.begin() + std::min(at + length, ids.size()));
  return pieces;
}

// Weight files of a checkpoint, links followed.
std::int64_t weight_file_bytes(const std::string& dir) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    if (entry.path().extension() == ".safetensors" && entry.is_regular_file(error))
      bytes += static_cast<std::int64_t>(entry.file_size(error));
  }
  return bytes;
}

Result<EvaluatedModel> describe(const Found& model) {
  const ModelOptions& options = model.resolved;
  EvaluatedModel out = {
      .name = model.run.model,
      .computed_in =
          str(options.numbers.activations == DType::kF32 ? "f32" : "bf16", ", KV ",
              name_of(options.numbers.latent), ", index keys ", name_of(options.numbers.index)),
      .file_bytes = weight_file_bytes(options.dir)};
  if (options.dummy) return out;
  Checkpoint checkpoint = model.opened.checkpoint->again();
  GLINT_TRY(const Inventory inventory, take_inventory(model.opened.config, checkpoint));
  const auto formats = inventory.bytes_by_format();
  out.format_bytes.assign(formats.begin(), formats.end());
  return out;
}

Result<std::unique_ptr<Ranks>> load(const Found& model, Cli& cli) {
  return load_ranks(model.run, model.resolved, model.opened, cli);
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check_options(options));
  // Errors of --html and MODEL are found early, before the reference runs.
  GLINT_TRY_STATUS(check_result_file(options.html));
  GLINT_TRY(const Found model, find(options, options, cli));
  GLINT_TRY(std::optional<Found> reference, find(reference_of(options), options, cli));
  GLINT_TRY_STATUS(check_apart({{"MODEL", model.resolved.dir},
                                {"--ref", reference->resolved.dir},
                                {"--text", options.text},
                                {"--ids", options.ids}},
                               {{"--html", options.html}}));
  GLINT_TRY(const TokenSequences text, options.ids.empty()
                                           ? tokenize_text(options, *reference, model)
                                           : read_ids(options.ids));
  GLINT_TRY_STATUS(check_evaluation(reference->opened.config, reference->resolved.dir,
                                    model.opened.config, model.resolved.dir, text));
  for (const std::string& note : std::set{model.note, reference->note})
    if (!note.empty()) cli.console.note(note);
  const std::int64_t tokens = count_tokens(text);
  EvalOptions eval = {.chunk = options.chunk,
                      .layer_rows = options.layer_rows,
                      .tmp_dir = options.tmp.empty() ? cli.environment.tmp_dir : options.tmp};
  EvalReport report = {.text = options.ids.empty() ? options.text : options.ids};

  // The reference is gone from memory before the model is loaded.
  std::optional<Recording> recording;
  {
    GLINT_TRY(const std::unique_ptr<Ranks> loaded, load(*reference, cli));
    GLINT_TRY(report.reference, describe(*reference));
    Progress progress("reference", tokens, Progress::Unit::kItems);
    eval.progress = [&](std::int64_t done) { progress.add(done); };
    GLINT_TRY(recording, record_reference(*loaded, text, eval));
    reference.reset();
  }
  Json ranks;  // of the model
  {
    GLINT_TRY(const std::unique_ptr<Ranks> loaded, load(model, cli));
    GLINT_TRY(report.model, describe(model));
    Progress progress("model", tokens, Progress::Unit::kItems);
    eval.progress = [&](std::int64_t done) { progress.add(done); };
    GLINT_TRY(report.result, compare_with(*recording, *loaded, text, eval));
    if (options.json) ranks = to_json(*loaded);
  }
  // Before the page: a disk that has become full costs no result.
  if (options.json) {
    Json result = eval_json(report);
    result.set("ranks", std::move(ranks));
    cli.console.print(dump_json(result) + "\n");
  } else {
    cli.console.print(eval_table(report));
  }
  return options.html.empty() ? Status(Ok{}) : write_file_atomic(options.html, eval_html(report));
}

}  // namespace

Command eval_command() {
  return make_command<Options>(
      {.name = "eval",
       .group = "Model",
       .summary = "how far a model is from a reference: perplexity, KL, top-1, layers",
       .description =
           "Runs the reference (--ref) and then MODEL over the same text and compares them token "
           "by token: perplexity of both, KL(reference || model) in nats, how often both find the "
           "same token most likely, and how far the residual stream has moved after each layer. "
           "The two are never in memory together: the reference's logits wait in a temporary file. "
           "Perplexity is exp(mean cross-entropy) over positions 1.. of every sequence.",
       .examples = {{"glint eval /tmp/tiny-nvfp4 --ref models/glm5-tiny --ids "
                     "models/record/heldout.ids.txt \\\n      --html report.html",
                     "what quantisation cost"},
                    {"glint eval models/glm5-tiny --ref models/glm5-tiny --kv-dtype fp8 \\\n      "
                     "--ids models/record/heldout.ids.txt",
                     "what the FP8 cache costs"}}},
      run);
}

}  // namespace glint
