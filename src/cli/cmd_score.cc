// glint score: the model's numbers for a given text.
#include <cmath>
#include <mutex>

#include "base/json_number.h"
#include "base/npy.h"
#include "base/progress.h"
#include "base/str.h"
#include "cli/apart.h"
#include "cli/id_file.h"
#include "cli/interrupt.h"
#include "cli/option_checks.h"
#include "cli/rank_options.h"
#include "cli/result_file.h"
#include "runtime/score_ranks.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {
namespace {

struct Options : RunOptions, LayoutOptions {
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
      "print perplexity over positions 1.. of every sequence, and top-1; the draft layer's too, if "
      "there is one");
    v("out=X.npy", out, "logits, float32 [T, vocab]; several sequences one after another");
    v("mtp=Y.npy", mtp,
      "logits of the MTP layer, float32 [T-1, vocab]: row p from hidden state p and token p+1");
    v("hidden=H.npy", hidden,
      "float32 [layers+1, T, hidden]: the embedding, the stream after each layer, and last, "
      "instead of the stream after the last layer, the state after the final norm (as transformers "
      "lists them)");
    v("chunk=N", chunk, "tokens per step; no result depends on it");
    v("json", json,
      "print one JSON object; with the ranks: layers, experts, heads, bytes, collectives");
    LayoutOptions::visit(
        v, {.tp = "ranks that divide heads, inner rows, experts and vocabulary; they are threads",
            .pp = "stages of whole layers",
            .dp = "replicas, each with sequences and a cache of its own"});
  }
};

Result<TokenSequences> read_sequences(const Options& options, Cli& cli) {
  if (options.ids.empty() == options.prompt.empty())
    return invalid("give either --ids FILE or -p TEXT");
  if (!options.ids.empty()) {
    return read_ids(options.ids);
  }
  GLINT_TRY(const std::string dir, model_dir(options.model, cli, part_of(options)));
  GLINT_TRY(const Tokenizer tokenizer, Tokenizer::open(dir));
  GLINT_TRY(std::vector<TokenId> ids, tokenizer.encode(options.prompt));
  return TokenSequences{std::move(ids)};
}

// The files asked for, open for writing, and the sinks that fill them.
struct Outputs {
  std::optional<NpyWriter> logits, mtp, hidden;
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();

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

  // For sequence `i`, whose rows begin at `begin` of `T` in all. From any thread.
  ScoreSinks sinks(std::size_t i, std::int64_t begin, std::int64_t T, const ModelConfig& model) {
    const std::int64_t vocab = model.vocab_size, hidden_size = model.hidden_size;
    const auto write = [this](NpyWriter& file, std::int64_t index, std::span<const float> rows) {
      const std::lock_guard lock(*mutex);
      file.write_at(index, rows);
    };
    ScoreSinks sinks;
    if (logits) {
      sinks.logits = [=, this](std::int64_t first, std::span<const float> rows) {
        write(*logits, (begin + first) * vocab, rows);
      };
    }
    if (mtp) {  // a row less for each sequence
      const std::int64_t before = begin - static_cast<std::int64_t>(i);
      sinks.mtp = [=, this](std::int64_t first, std::span<const float> rows) {
        write(*mtp, (before + first) * vocab, rows);
      };
    }
    if (hidden) {
      sinks.hidden = [=, this](int layer, std::int64_t first, std::span<const float> rows) {
        write(*hidden, (layer * T + begin + first) * hidden_size, rows);
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

// null where no token was predicted, as in a text of one token.
Json perplexity_json(const Prediction& p) {
  return p.tokens ? finite_or_null(p.perplexity()) : Json();
}
Json top1_json(const Prediction& p) { return p.tokens ? Json(p.top1_share()) : Json(); }

Json to_json(const Score& score, std::size_t sequences, bool with_mtp) {
  Json result(Json::Object{{"perplexity", perplexity_json(score.model)},
                           {"top1", top1_json(score.model)},
                           {"predicted", score.model.tokens},
                           {"sequences", static_cast<std::int64_t>(sequences)}});
  if (with_mtp) {
    result.set("mtp_perplexity", perplexity_json(score.mtp));
    result.set("mtp_top1", top1_json(score.mtp));
  }
  return result;
}

std::string to_lines(const char* who, const Prediction& p) {
  if (p.tokens == 0) return {};
  return str(who, "perplexity: ", format_double(p.perplexity()), "\n", who,
             "top-1: ", format_double(p.top1_share()), "\n");
}

// All that can be said before weights are read, which may take long.
Status check(const Options& options, const OpenedModel& model, const TokenSequences& sequences) {
  if (!options.mtp.empty() && !model.has_mtp()) {
    return invalid(options.model + " has no MTP layer; leave --mtp out");
  }
  bool predicts = false;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    Status fits = check_sequence(model.config, sequences[i]);
    if (!fits.ok() && options.ids.empty()) return fits;
    if (!fits.ok()) {
      return std::move(fits).take_error().in(str(options.ids, ", sequence ", i + 1));
    }
    predicts |= sequences[i].size() > 1;
  }
  if (options.ppl && !predicts)
    return invalid("there is nothing to predict; --ppl needs a sequence of at least 2 tokens");
  return Ok{};
}

// Results need places of their own.
Status check_names(const Options& options, const std::string& dir) {
  for (const std::string& name : {options.out, options.mtp, options.hidden})
    GLINT_TRY_STATUS(check_result_file(name));
  return check_apart(
      {{"MODEL", dir}, {"--ids", options.ids}},
      {{"--out", options.out}, {"--mtp", options.mtp}, {"--hidden", options.hidden}});
}

bool wants_mtp(const Options& options) {
  return !options.mtp.empty() || options.ppl || options.json;
}

Result<std::unique_ptr<Ranks>> load(const Options& options, ModelOptions resolved,
                                    const OpenedModel& opened, Cli& cli) {
  resolved.shape = options.shape();
  const MeshShape& shape = resolved.shape;
  RunOptions each = options;
  // Ranks and slices are the CPU's, whatever else the machine has.
  const bool adds_up = shape.num_ranks() > 1 || shape.num_slices() > 1;
  if (adds_up && each.backend == "auto") each.backend = "cpu";
  return load_ranks(each, resolved, opened, cli);
}

// Scores every sequence and writes the files. What it returns after Ctrl-C is a part.
Result<Score> score_all(const Options& options, bool with_mtp, Ranks& ranks,
                        const TokenSequences& sequences, Cli& cli) {
  const ModelConfig& config = ranks.model(0).config();
  std::int64_t T = 0;
  std::vector<std::int64_t> begins;
  for (const std::vector<TokenId>& ids : sequences) {
    begins.push_back(T);
    T += static_cast<std::int64_t>(ids.size());
  }
  const InterruptGuard interrupt;  // before the first file
  GLINT_TRY(Outputs outputs,
            Outputs::open(options, config, T, static_cast<std::int64_t>(sequences.size())));
  Progress progress("scoring", T, Progress::Unit::kItems);
  const auto done = [&](std::int64_t tokens) {
    progress.add(tokens);
    return !interrupt.interrupted();
  };
  const ScoreOptions how = {.chunk = options.chunk, .mtp = with_mtp, .done = done};
  const Result<std::vector<Score>> scores = score(
      ranks, sequences, how, [&](std::size_t i) { return outputs.sinks(i, begins[i], T, config); });
  cli.interrupted = interrupt.interrupted();
  if (cli.interrupted) return Score();
  if (!scores.ok()) return scores.error();
  Score total;
  for (const Score& one : scores.value()) total.add(one);
  GLINT_TRY_STATUS(outputs.finish());
  return total;
}

Status run(const Options& options, Cli& cli) {
  const bool writes = !(options.out + options.mtp + options.hidden).empty();
  if (!writes && !options.ppl && !options.json) {
    return invalid("nothing to do; give --ppl, --json, --out, --mtp or --hidden");
  }
  GLINT_TRY_STATUS(check_least("chunk", options.chunk, 1));
  GLINT_TRY(ModelOptions resolved, resolve(options, cli, wants_mtp(options)));
  GLINT_TRY_STATUS(check_names(options, resolved.dir));
  GLINT_TRY(const TokenSequences sequences, read_sequences(options, cli));
  GLINT_TRY(const OpenedModel opened, open_model(resolved));
  GLINT_TRY_STATUS(check(options, opened, sequences));
  const bool with_mtp = wants_mtp(options) && opened.has_mtp();
  GLINT_TRY(const std::unique_ptr<Ranks> ranks, load(options, std::move(resolved), opened, cli));
  GLINT_TRY(const Score total, score_all(options, with_mtp, *ranks, sequences, cli));
  if (cli.interrupted) return Ok{};
  if ((options.ppl || options.json) && (std::isnan(total.model.nll) || std::isnan(total.mtp.nll))) {
    return invalid(
        str("the logits of ", options.model,
            " are not all numbers; `glint inspect --verify` finds NaN and infinity among weights"));
  }
  if (options.json) {
    Json result = to_json(total, sequences.size(), with_mtp);
    result.set("ranks", to_json(*ranks));
    cli.console.print(dump_json(result) + "\n");
  } else if (options.ppl) {
    cli.console.print(to_lines("", total.model) + (with_mtp ? to_lines("mtp ", total.mtp) : ""));
  }
  return Ok{};
}

}  // namespace

Command score_command() {
  return make_command<Options>(
      {.name = "score",
       .group = "Model",
       .summary = "logits, hidden states and perplexity of a given text",
       .description =
           "Runs given tokens through the model and writes what it says of each: the way to "
           "compare glint with another implementation. Perplexity is exp(mean cross-entropy) over "
           "positions 1.. of every sequence, each sequence on its own.",
       .examples =
           {{"glint score models/glm5-tiny --ids models/record/heldout.ids.txt --ppl --dtype f32",
             "perplexity, nothing rounded"},
            {"glint score models/glm5-tiny -p 'Once upon a time' --out logits.npy",
             "logits of one text"}}},
      run);
}

}  // namespace glint
