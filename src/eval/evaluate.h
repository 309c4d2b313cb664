// Evaluation: how far a model is from a reference on given text.
//
// The reference runs first and leaves its logits, and its residual stream at some positions, in a
// temporary file; then the model runs and is compared row by row as its numbers come. So the two
// are never in memory together, and memory does not grow with the text: what grows is the file, by
// 4 * vocabulary bytes for each token (0.6 MB for GLM-5).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "eval/spill_file.h"
#include "runtime/ranks.h"
#include "runtime/score.h"

namespace glint {

struct EvalOptions {
  int chunk = 256;  // tokens per step; no result depends on it, but both passes need the same
  // Positions, evenly spaced over the text, whose residual stream is compared. They cost 4 * hidden
  // * (layers + 1) bytes of the file each (1.9 MB for GLM-5).
  std::int64_t layer_rows = 1024;
  std::string tmp_dir = "/tmp";
  std::function<void(std::int64_t tokens)> progress = {};  // tokens just done; from any thread
};

// The reference's logits, and its sampled rows of the residual stream.
struct Recording {
  SpillFile file;
  std::string name;  // of its directory, for messages
  ModelConfig config;
};

struct Evaluation {
  std::int64_t sequences = 0, rows = 0;  // rows: positions that predict a token of the text
  double ref_perplexity = 0, perplexity = 0;
  double ref_top1 = 0, top1 = 0;  // shares of the rows whose most likely token is the one that came
  // Mean of nll - ref_nll over rows, and its standard error, rows taken as independent.
  double nll_difference = 0, nll_difference_error = 0;
  double mean_kl = 0, median_kl = 0, p99_kl = 0, max_kl = 0;  // KL(reference || model), nats
  double same_top1 = 0;  // share of rows where both find the same token most likely
  // |x - ref| / |ref| (L2 over the sampled rows) of the embedding, of the stream after each layer
  // but the last, and of the state after the final norm: [layers + 1]; empty without layer_rows.
  std::vector<double> layer_error;
  std::int64_t layer_rows = 0;
  std::vector<float> kl;               // of every row, in the order of the text
  std::vector<std::int32_t> position;  // of every row in its sequence
};

// All that can be said before either model is loaded: fails if they cannot be compared (another
// vocabulary, depth or width), on a text that predicts nothing (no sequence of two tokens), and on
// sequences that are not both models'. `dir`, `model_dir`: theirs, for messages.
Status check_evaluation(const ModelConfig& reference, const std::string& dir,
                        const ModelConfig& model, const std::string& model_dir,
                        const TokenSequences& text);

// Fails on a text that predicts nothing, and as score() does.
Result<Recording> record_reference(Ranks& reference, const TokenSequences& text,
                                   const EvalOptions& options);

// `recording` must be of the same text and options. Fails if the models
// cannot be compared, and where logits are not finite.
Result<Evaluation> compare_with(const Recording& recording, Ranks& model,
                                const TokenSequences& text, const EvalOptions& options);

}  // namespace glint
