// glint eval: how far a model is from a reference on given text.
#include <algorithm>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/progress.h"
#include "base/str.h"
#include "cli/id_file.h"
#include "cli/rank_options.h"
#include "eval/report.h"
#include "model/inventory.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {
namespace {

struct Options : RunOptions, LayoutOptions {
  std::string ref, ref_dtype, ref_kv_dtype, ref_index;
  std::string text, ids, html, tmp;
  std::int64_t context = 2048, layer_rows = 1024;
  int chunk = 256;
  bool json = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    RunOptions::visit(v);
    LayoutOptions::visit(v);
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
    v("context=N", context, "tokens of a piece of --text");
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

Status check_options(const Options& options) {
  if (options.ref.empty()) return invalid("--ref is missing: name the model to compare with");
  if (options.text.empty() == options.ids.empty())
    return invalid("give either --text FILE or --ids FILE");
  if (options.chunk < 1)
    return invalid(str("--chunk is ", options.chunk, "; it must be 1 or more"));
  if (options.context < 2)
    return invalid(str("--context is ", options.context, "; it must be 2 or more"));
  if (options.layer_rows < 0)
    return invalid(str("--layer-rows is ", options.layer_rows, "; it must be 0 or more"));
  if (options.layer_rows > 0 && (options.pp > 1 || options.cp > 1)) {
    return invalid(str(options.pp > 1 ? "--pp is " : "--cp is ", std::max(options.pp, options.cp),
                       ", and each stage has the residual streams of its "
                       "own layers; set --layer-rows to 0"));
  }
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

// The tokens of --text in pieces of --context, none longer than the model's positions.
Result<TokenSequences> tokenize_text(const Options& options, Cli& cli) {
  GLINT_TRY(const std::string dir, model_dir(options.ref, cli));
  GLINT_TRY(const ModelConfig config, read_config(dir + "/config.json"));
  GLINT_TRY(const Tokenizer tokenizer, Tokenizer::open(dir));
  GLINT_TRY(const std::string text, read_file(options.text));
  GLINT_TRY(const std::vector<TokenId> ids, tokenizer.encode(text));
  GLINT_TRY(const std::string other_dir, model_dir(options.model, cli));
  if (other_dir != dir && file_exists(other_dir + "/tokenizer.json")) {
    GLINT_TRY(const Tokenizer other, Tokenizer::open(other_dir));
    GLINT_TRY(const std::vector<TokenId> others, other.encode(text));
    if (others != ids) {
      return invalid(str("the tokenizers of ", dir, " and ", other_dir,
                         " give different tokens for ", options.text,
                         ": they are not the same model in two formats"));
    }
  }
  const std::size_t length =
      static_cast<std::size_t>(std::min(options.context, config.max_position_embeddings));
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

Result<EvaluatedModel> describe(const std::string& name, const LoadedModel& model) {
  const ModelOptions& options = model.options();
  EvaluatedModel out = {
      .name = name,
      .computed_in = str(options.activations == DType::kF32 ? "f32" : "bf16", ", KV ",
                         name_of(options.latent), ", index keys ", name_of(options.index)),
      .file_bytes = weight_file_bytes(options.dir)};
  if (options.dummy) return out;
  GLINT_TRY(Checkpoint checkpoint, Checkpoint::open(options.dir));
  GLINT_TRY(const Inventory inventory, take_inventory(model.config(), checkpoint));
  std::map<std::string, std::int64_t> formats;
  for (const Inventory::Row& row : inventory.rows) formats[row.format] += row.bytes;
  out.format_bytes.assign(formats.begin(), formats.end());
  return out;
}

// A model, and the other ranks' parts of it.
Result<LedRanks> load(const RunOptions& run, const LayoutOptions& layout, Cli& cli) {
  GLINT_TRY(const ModelOptions resolved, resolve(run, cli, /*with_mtp=*/false));
  return load_led_ranks(layout, run, resolved, cli);
}

// Finds errors of MODEL and --html early, before the reference runs.
Status check_ahead(const Options& options, Cli& cli) {
  if (!options.html.empty()) {
    GLINT_TRY_STATUS(find_replaceable(options.html));
  }
  GLINT_TRY(const ModelOptions model, resolve(options, cli, false));
  if (model.dummy) return Ok{};
  GLINT_TRY_STATUS(open_model(model.dir, ModelFiles::kAll));
  return Ok{};
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check_options(options));
  GLINT_TRY_STATUS(check_ahead(options, cli));
  GLINT_TRY(const TokenSequences text,
            options.ids.empty() ? tokenize_text(options, cli) : read_ids(options.ids));
  std::int64_t tokens = 0;
  for (const std::vector<TokenId>& ids : text) tokens += static_cast<std::int64_t>(ids.size());
  EvalOptions eval = {.chunk = options.chunk,
                      .layer_rows = options.layer_rows,
                      .tmp_dir = options.tmp.empty() ? cli.environment.tmp_dir : options.tmp};
  EvalReport report = {.text = options.ids.empty() ? options.text : options.ids};

  // The reference is gone from memory before the model is loaded.
  std::optional<Recording> recording;
  {
    GLINT_TRY(const LedRanks reference, load(reference_of(options), options, cli));
    GLINT_TRY(report.reference, describe(options.ref, reference.first()));
    Progress progress("reference", tokens, Progress::Unit::kItems);
    eval.progress = [&](std::int64_t done) { progress.add(done); };
    GLINT_TRY(recording, record_reference(reference.first(), text, eval));
  }
  {
    GLINT_TRY(const LedRanks model, load(options, options, cli));
    GLINT_TRY(report.model, describe(options.model, model.first()));
    Progress progress("model", tokens, Progress::Unit::kItems);
    eval.progress = [&](std::int64_t done) { progress.add(done); };
    GLINT_TRY(report.result, compare_with(*recording, model.first(), text, eval));
  }
  if (!options.html.empty()) {
    GLINT_TRY_STATUS(write_file_atomic(options.html, eval_html(report)));
  }
  cli.console.print(options.json ? dump_json(eval_json(report)) + "\n" : eval_table(report));
  return Ok{};
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
       .examples = {{"glint eval /tmp/tiny-nvfp4 --ref models/glm5-tiny --text README.md --html "
                     "report.html",
                     "what quantisation cost"},
                    {"glint eval models/glm5-tiny --ref models/glm5-tiny --kv-dtype fp8 --text "
                     "README.md",
                     "what the FP8 cache costs"}}},
      run);
}

}  // namespace glint
