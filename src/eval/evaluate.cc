#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "base/str.h"
#include "eval/divergence.h"
#include "runtime/score.h"

namespace glint {
namespace {

// `wanted` of `total` rows, evenly spaced.
class RowSample {
 public:
  RowSample(std::int64_t wanted, std::int64_t total)
      : wanted_(std::min(wanted, total)), total_(total) {}

  bool has(std::int64_t row) const { return (row + 1) * wanted_ / total_ > row * wanted_ / total_; }
  std::int64_t size() const { return wanted_; }

 private:
  std::int64_t wanted_, total_;
};

// Receives the rows of one sequence, in the same order in both passes: hidden states of sampled
// rows, then logits of the rows that predict.
struct RowVisitor {
  std::function<Status(int layer, std::span<const float> hidden)> hidden;
  std::function<Status(std::int64_t position, std::span<const float> logits)> logits;
};

Status visit_rows(LoadedModel& model, const TokenSequences& text, const EvalOptions& options,
                  const std::function<RowVisitor(const std::vector<TokenId>&)>& visitor_of) {
  const std::int64_t width = model.config().hidden_size, vocab = model.config().vocab_size;
  const RowSample sample(options.layer_rows, count_tokens(text));
  std::int64_t begin = 0;  // of the sequence, among all rows
  Status status = Ok{};    // the first failure; it ends the run after its sequence
  const auto keep = [&](Status next) {
    if (status.ok()) status = std::move(next);
  };
  std::int64_t longest = 0;
  for (const std::vector<TokenId>& ids : text) longest = std::max(longest, std::ssize(ids));
  GLINT_TRY_STATUS(reserve_scores(model, longest, {.chunk = options.chunk}));
  for (const std::vector<TokenId>& ids : text) {
    const RowVisitor visitor = visitor_of(ids);
    const std::int64_t T = static_cast<std::int64_t>(ids.size());
    ScoreSinks sinks;
    if (sample.size() > 0) {
      sinks.hidden = [&](int layer, std::int64_t first, std::span<const float> rows) {
        for (std::int64_t r = 0; r * width < static_cast<std::int64_t>(rows.size()); ++r) {
          if (sample.has(begin + first + r))
            keep(visitor.hidden(layer, rows.subspan(r * width, width)));
        }
      };
    }
    sinks.logits = [&](std::int64_t first, std::span<const float> rows) {
      const std::int64_t count = static_cast<std::int64_t>(rows.size()) / vocab;
      for (std::int64_t r = 0; r < std::min(count, T - 1 - first); ++r)
        keep(visitor.logits(first + r, rows.subspan(r * vocab, vocab)));
      if (options.progress) options.progress(count);
    };
    GLINT_TRY_STATUS(score_reserved(model, ids, {.chunk = options.chunk}, sinks));
    if (!status.ok()) return status;
    begin += T;
  }
  return Ok{};
}

// Means and errors from what the rows gave.
class Comparison {
 public:
  Comparison(int layers, std::int64_t width) : error_(layers + 1), norm_(layers + 1), ref_(width) {}

  // The reference's part is read from `file`.
  Status add_hidden(SpillFile& file, int layer, std::span<const float> hidden) {
    GLINT_TRY_STATUS(file.read(ref_));
    for (std::size_t i = 0; i < ref_.size(); ++i) {
      const double want = ref_[i], difference = hidden[i] - want;
      error_[layer] += difference * difference;
      norm_[layer] += want * want;
    }
    return Ok{};
  }

  Status add_row(std::int64_t position, TokenId target, const RowDivergence& row) {
    if (!std::isfinite(row.kl) || !std::isfinite(row.nll)) {
      return invalid(str("the ", std::isfinite(row.ref_nll) ? "model" : "reference",
                         "'s logits at position ", position,
                         " are not finite; "
                         "`glint inspect --verify` finds NaN and infinity among weights"));
    }
    ref_nll_ += row.ref_nll;
    nll_ += row.nll;
    const double difference = row.nll - row.ref_nll;
    difference_squares_ += difference * difference;
    sum_kl_ += row.kl;
    ref_hits_ += row.ref_top == target;
    hits_ += row.top == target;
    same_ += row.ref_top == row.top;
    out_.kl.push_back(static_cast<float>(row.kl));
    out_.position.push_back(static_cast<std::int32_t>(position));
    return Ok{};
  }

  Evaluation finish(const TokenSequences& text, std::int64_t layer_rows) {
    const double n = static_cast<double>(out_.kl.size());
    out_.sequences = static_cast<std::int64_t>(text.size());
    out_.rows = static_cast<std::int64_t>(out_.kl.size());
    out_.ref_perplexity = std::exp(ref_nll_ / n);
    out_.perplexity = std::exp(nll_ / n);
    out_.ref_top1 = ref_hits_ / n;
    out_.top1 = hits_ / n;
    out_.same_top1 = same_ / n;
    out_.nll_difference = (nll_ - ref_nll_) / n;
    const double variance = difference_squares_ / n - out_.nll_difference * out_.nll_difference;
    out_.nll_difference_error = std::sqrt(std::max(variance, 0.0) / n);
    out_.mean_kl = sum_kl_ / n;
    std::vector<float> sorted = out_.kl;
    out_.median_kl = quantile(sorted, 0.5);
    out_.p99_kl = quantile(sorted, 0.99);
    out_.max_kl = quantile(sorted, 1);
    out_.layer_rows = layer_rows;
    for (std::size_t i = 0; layer_rows > 0 && i < error_.size(); ++i)
      out_.layer_error.push_back(norm_[i] > 0 ? std::sqrt(error_[i] / norm_[i]) : 0);
    return std::move(out_);
  }

 private:
  Evaluation out_;
  double ref_nll_ = 0, nll_ = 0, difference_squares_ = 0, sum_kl_ = 0;
  double ref_hits_ = 0, hits_ = 0, same_ = 0;
  std::vector<double> error_, norm_;  // per layer: sums of squares
  std::vector<float> ref_;
};

Status check_comparable(const ModelConfig& ref, const std::string& dir, const ModelConfig& model,
                        const std::string& model_dir) {
  const auto same = [&](const char* what, std::int64_t of_ref, std::int64_t of_model) -> Status {
    if (of_ref == of_model) return Ok{};
    return invalid(str(dir, " has ", what, " ", of_ref, " and ", model_dir, " has ", of_model,
                       ": they are not the same model in two formats"));
  };
  GLINT_TRY_STATUS(same("vocab_size", ref.vocab_size, model.vocab_size));
  GLINT_TRY_STATUS(same("hidden_size", ref.hidden_size, model.hidden_size));
  return same("num_hidden_layers", ref.num_hidden_layers, model.num_hidden_layers);
}

Status check_predicts(const TokenSequences& text) {
  if (std::any_of(text.begin(), text.end(), [](const auto& ids) { return ids.size() > 1; }))
    return Ok{};
  return invalid("the text has no sequence of two tokens or more: nothing to predict");
}

}  // namespace

Status check_evaluation(const ModelConfig& reference, const std::string& dir,
                        const ModelConfig& model, const std::string& model_dir,
                        const TokenSequences& text) {
  GLINT_TRY_STATUS(check_comparable(reference, dir, model, model_dir));
  GLINT_TRY_STATUS(check_predicts(text));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string where = str("sequence ", i + 1, " of the text, for ");
    GLINT_TRY_STATUS(check_sequence(reference, text[i]).in(where + dir));
    GLINT_TRY_STATUS(check_sequence(model, text[i]).in(where + model_dir));
  }
  return Ok{};
}

Result<Recording> record_reference(LoadedModel& reference, const TokenSequences& text,
                                   const EvalOptions& options) {
  GLINT_TRY_STATUS(check_predicts(text));
  const ModelConfig& config = reference.config();
  const std::int64_t rows = count_tokens(text) - std::ssize(text);
  const std::int64_t sampled = std::min(options.layer_rows, count_tokens(text));
  const std::int64_t values =
      rows * config.vocab_size + sampled * (config.num_hidden_layers + 1) * config.hidden_size;
  GLINT_TRY(SpillFile file, SpillFile::create(options.tmp_dir, 4 * values));
  const auto spill = [&](const std::vector<TokenId>&) {
    return RowVisitor{
        .hidden = [&](int, std::span<const float> hidden) { return file.write(hidden); },
        .logits = [&](std::int64_t, std::span<const float> row) { return file.write(row); }};
  };
  GLINT_TRY_STATUS(visit_rows(reference, text, options, spill));
  GLINT_TRY_STATUS(file.rewind());
  return Recording{.file = std::move(file), .name = reference.options().dir, .config = config};
}

Result<Evaluation> compare_with(Recording& recording, LoadedModel& model,
                                const TokenSequences& text, const EvalOptions& options) {
  GLINT_TRY_STATUS(
      check_comparable(recording.config, recording.name, model.config(), model.options().dir));
  GLINT_TRY_STATUS(recording.file.rewind());
  Comparison comparison(recording.config.num_hidden_layers, recording.config.hidden_size);
  std::vector<float> ref(static_cast<std::size_t>(recording.config.vocab_size));
  const auto compare = [&](const std::vector<TokenId>& ids) {
    return RowVisitor{
        .hidden =
            [&](int layer, std::span<const float> hidden) {
              return comparison.add_hidden(recording.file, layer, hidden);
            },
        .logits = [&](std::int64_t position, std::span<const float> logits) -> Status {
          GLINT_TRY_STATUS(recording.file.read(ref));
          const TokenId target = ids[position + 1];
          return comparison.add_row(position, target, compare_rows(ref, logits, target));
        }};
  };
  GLINT_TRY_STATUS(visit_rows(model, text, options, compare));
  return comparison.finish(text, std::min(options.layer_rows, count_tokens(text)));
}

}  // namespace glint
