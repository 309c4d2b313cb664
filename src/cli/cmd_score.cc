// glint score: the model's numbers for a given text.
#include <cmath>

#include "base/json.h"
#include "base/npy.h"
#include "base/progress.h"
#include "base/str.h"
#include "cli/id_file.h"
#include "cli/model_options.h"
#include "runtime/score.h"
#include "text/tokenizer.h"

namespace glint {
namespace {

struct Options : RunOptions {
  std::string ids, prompt, out, mtp, hidden;
  bool ppl = false, json = false;
  int chunk = 256;

  template <class Visitor>
  void visit(Visitor&& v) {
    RunOptions::visit(v);
    v.section("Text");
    v("ids=FILE", ids,
      "token ids: .npy (int32 or int64; 2-D: a sequence a row), or text (integers between blanks, "
      "a sequence a line)");
    v("prompt,p=TEXT", prompt, "text instead of ids; special tokens in it are read as such");
    v.section("Results");
    v("ppl", ppl,
      "print perplexity over positions 1.. of every sequence, and top-1; with --mtp the draft's "
      "too");
    v("out=X.npy", out, "logits, float32 [T, vocab]; several sequences one after another");
    v("mtp=Y.npy", mtp,
      "logits of the MTP layer, float32 [T-1, vocab]: row p from hidden state p and token p+1");
    v("hidden=H.npy", hidden,
      "float32 [layers+1, T, hidden]: the embedding, the stream after each layer, and last, "
      "instead of the stream "
      "after the last layer, the state after the final norm (as transformers lists them)");
    v("chunk=N", chunk, "tokens per step; no result depends on it");
    v("json", json, "print one JSON object");
  }
};

Result<TokenSequences> read_sequences(const Options& options, Cli& cli) {
  if (options.ids.empty() == options.prompt.empty())
    return invalid("give either --ids FILE or -p TEXT");
  if (!options.ids.empty()) {
    return read_ids(options.ids);
  }
  GLINT_TRY(const std::string dir, model_dir(options.model, cli));
  GLINT_TRY(const Tokenizer tokenizer, Tokenizer::open(dir));
  GLINT_TRY(std::vector<TokenId> ids, tokenizer.encode(options.prompt));
  return TokenSequences{std::move(ids)};
}

// The files asked for, open for writing, and the sinks that fill them.
struct Outputs {
  std::optional<NpyWriter> logits, mtp, hidden;

  // T rows of logits, T - S of the MTP layer: all S sequences, one after another.
  static Result<Outputs> open(const Options& options, const ModelConfig& config, std::int64_t T,
                              std::int64_t S) {
    Outputs out;
    if (!options.out.empty()) {
      GLINT_TRY(out.logits, NpyWriter::create(options.out, {T, config.vocab_size}));
    }
    if (!options.mtp.empty()) {
      GLINT_TRY(out.mtp, NpyWriter::create(options.mtp, {T - S, config.vocab_size}));
    }
    if (!options.hidden.empty()) {
      GLINT_TRY(out.hidden, NpyWriter::create(options.hidden, {config.num_hidden_layers + 1, T,
                                                               config.hidden_size}));
    }
    return out;
  }

  // For the sequence whose rows begin at `begin` of `T` in all.
  ScoreSinks sinks(std::int64_t begin, std::int64_t T, std::int64_t hidden_size) {
    ScoreSinks sinks;
    if (logits)
      sinks.logits = [this](std::int64_t, std::span<const float> rows) { logits->append(rows); };
    if (mtp) sinks.mtp = [this](std::int64_t, std::span<const float> rows) { mtp->append(rows); };
    if (hidden) {
      sinks.hidden = [=, this](int layer, std::int64_t first, std::span<const float> rows) {
        hidden->write_at((layer * T + begin + first) * hidden_size, rows);
      };
    }
    return sinks;
  }

  Status finish() {
    for (std::optional<NpyWriter>* file : {&logits, &mtp, &hidden}) {
      if (*file) GLINT_TRY_STATUS((*file)->finish());
    }
    return Ok{};
  }
};

double share(std::int64_t part, std::int64_t whole) {
  return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

void print(const Options& options, const Score& score, std::size_t sequences, bool with_mtp,
           Cli& cli) {
  const double ppl = std::exp(score.nll / static_cast<double>(score.predicted));
  const double mtp_ppl = std::exp(score.mtp_nll / static_cast<double>(score.mtp_predicted));
  const double top1 = share(score.top1, score.predicted);
  const double mtp_top1 = share(score.mtp_top1, score.mtp_predicted);
  if (options.json) {
    Json result(Json::Object{{"perplexity", ppl},
                             {"top1", top1},
                             {"predicted", score.predicted},
                             {"sequences", static_cast<std::int64_t>(sequences)}});
    if (with_mtp) {
      result.set("mtp_perplexity", mtp_ppl);
      result.set("mtp_top1", mtp_top1);
    }
    cli.console.print(dump_json(result) + "\n");
  } else if (options.ppl) {
    cli.console.print(
        str("perplexity: ", format_double(ppl), "\ntop-1: ", format_double(top1), "\n"));
    if (with_mtp) {
      cli.console.print(str("mtp perplexity: ", format_double(mtp_ppl),
                            "\nmtp top-1: ", format_double(mtp_top1), "\n"));
    }
  }
}

Status run(const Options& options, Cli& cli) {
  const bool writes = !(options.out + options.mtp + options.hidden).empty();
  if (!writes && !options.ppl && !options.json) {
    return invalid("nothing to do; give --ppl, --json, --out, --mtp or --hidden");
  }
  if (options.chunk < 1)
    return invalid(str("--chunk is ", options.chunk, "; it must be 1 or more"));
  GLINT_TRY(const TokenSequences sequences, read_sequences(options, cli));
  GLINT_TRY(const std::unique_ptr<LoadedModel> model, load_model(options, cli, true));
  const bool with_mtp = model->has_mtp() && (!options.mtp.empty() || options.ppl || options.json);
  if (!options.mtp.empty() && !model->has_mtp()) {
    return invalid(
        str(options.model, " has no MTP layer (num_nextn_predict_layers is 0); leave --mtp out"));
  }
  std::int64_t T = 0, begin = 0;
  for (const std::vector<TokenId>& ids : sequences) T += static_cast<std::int64_t>(ids.size());
  GLINT_TRY(Outputs outputs, Outputs::open(options, model->config(), T,
                                           static_cast<std::int64_t>(sequences.size())));
  Score total;
  Progress progress("scoring", T, Progress::Unit::kItems);
  for (const std::vector<TokenId>& ids : sequences) {
    const ScoreSinks sinks = outputs.sinks(begin, T, model->config().hidden_size);
    GLINT_TRY(const Score one,
              score(*model, ids, {.chunk = options.chunk, .mtp = with_mtp}, sinks));
    total.add(one);
    begin += static_cast<std::int64_t>(ids.size());
    progress.add(static_cast<std::int64_t>(ids.size()));
  }
  GLINT_TRY_STATUS(outputs.finish());
  print(options, total, sequences.size(), with_mtp, cli);
  return Ok{};
}

}  // namespace

Command score_command() {
  return make_command<Options>(
      {.name = "score",
       .group = "Model",
       .summary = "logits, hidden states and perplexity of a given text",
       .description = "Runs given tokens through the model and writes what it says of each: the "
                      "way to compare glint with "
                      "another implementation. Perplexity is exp(mean cross-entropy) over "
                      "positions 1.. of every "
                      "sequence, each sequence on its own.",
       .examples =
           {{"glint score models/glm5-tiny --ids models/record/heldout.ids.txt --ppl --dtype f32",
             "perplexity, nothing rounded"},
            {"glint score models/glm5-tiny -p 'Once upon a time' --out logits.npy",
             "logits of one text"}}},
      run);
}

}  // namespace glint
