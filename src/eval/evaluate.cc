#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

#include "base/statistics.h"
#include "base/str.h"
#include "eval/divergence.h"
#include "runtime/score_ranks.h"

namespace glint {
namespace {

// The numbers of a text: which rows have some, and where they lie in the file, one kind behind the
// other, each in the order of the text.
class RowPlaces {
 public:
  RowPlaces(const TokenSequences& text, std::int64_t layer_rows, const ModelConfig& config)
      : total_(count_tokens(text)),
        sampled_(std::min(layer_rows, total_)),
        layers_(config.num_hidden_layers + 1),
        width_(config.hidden_size),
        vocab_(config.vocab_size) {
    for (const std::vector<TokenId>& ids : text) {
      begins_.push_back({tokens_, rows_});
      tokens_ += std::ssize(ids);
      rows_ += std::max<std::int64_t>(std::ssize(ids) - 1, 0);
    }
  }

  std::int64_t rows() const { return rows_; }  // that predict a token of the text
  std::int64_t sampled() const { return sampled_; }
  std::int64_t hidden_rows() const { return layers_ * sampled_; }
  std::int64_t size() const { return hidden_rows() * width_ + rows_ * vocab_; }

  // Which of rows() predicts from this position of sequence `i`.
  std::int64_t row(std::size_t i, std::int64_t position) const { return begins_[i].row + position; }
  // Which of hidden_rows() is this layer's there; none: it is not sampled. They are evenly spaced.
  std::optional<std::int64_t> hidden_row(int layer, std::size_t i, std::int64_t position) const {
    const std::int64_t token = begins_[i].token + position, at = token * sampled_ / total_;
    if ((token + 1) * sampled_ / total_ == at) return {};
    return layer * sampled_ + at;
  }
  std::int64_t place_of_row(std::int64_t row) const {
    return hidden_rows() * width_ + row * vocab_;
  }
  std::int64_t place_of_hidden(std::int64_t row) const { return row * width_; }

 private:
  struct Begin {
    std::int64_t token, row;
  };
  const std::int64_t total_, sampled_, layers_, width_, vocab_;
  std::int64_t tokens_ = 0, rows_ = 0;
  std::vector<Begin> begins_;  // of each sequence
};

// Receives the rows of a text, several at a time.
struct RowVisitor {
  std::function<Status(std::int64_t row, std::span<const float> hidden)> hidden;
  std::function<Status(std::size_t i, std::int64_t position, std::span<const float> logits)> logits;
};

Status visit_rows(Ranks& model, const TokenSequences& text, const EvalOptions& options,
                  const RowPlaces& places, const RowVisitor& visitor) {
  const std::int64_t width = model.model(0).config().hidden_size;
  const std::int64_t vocab = model.model(0).config().vocab_size;
  std::mutex mutex;
  std::optional<Error> failure;  // the first; it ends the run after its step
  const auto keep = [&](const Status& status) {
    const std::lock_guard lock(mutex);
    if (!status.ok() && !failure) failure = status.error();
  };
  const auto sinks_of = [&](std::size_t i) {
    ScoreSinks sinks;
    if (places.sampled() > 0) {
      sinks.hidden = [&, i](int layer, std::int64_t first, std::span<const float> rows) {
        for (std::int64_t r = 0; r * width < std::ssize(rows); ++r) {
          if (const auto row = places.hidden_row(layer, i, first + r))
            keep(visitor.hidden(*row, rows.subspan(r * width, width)));
        }
      };
    }
    sinks.logits = [&, i](std::int64_t first, std::span<const float> rows) {
      const std::int64_t count = std::ssize(rows) / vocab;
      for (std::int64_t r = 0; r < std::min(count, std::ssize(text[i]) - 1 - first); ++r)
        keep(visitor.logits(i, first + r, rows.subspan(r * vocab, vocab)));
      if (options.progress) options.progress(count);
    };
    return sinks;
  };
  const auto goes_on = [&](std::int64_t) {
    const std::lock_guard lock(mutex);
    return !failure;
  };
  const Result<std::vector<Score>> scores =
      score(model, text, {.chunk = options.chunk, .done = goes_on}, sinks_of);
  if (failure) return *failure;
  return scores.ok() ? Status(Ok{}) : scores.error();
}

// Means and errors of rows, added in the order of the text, in whichever they came.
class Comparison {
 public:
  explicit Comparison(const RowPlaces& places)
      : places_(places),
        rows_(static_cast<std::size_t>(places.rows())),
        moved_(static_cast<std::size_t>(places.hidden_rows())) {}

  Status add_hidden(std::int64_t row, std::span<const float> want, std::span<const float> hidden) {
    Moved moved;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double difference = static_cast<double>(hidden[i]) - want[i];
      moved.error += difference * difference;
      moved.norm += static_cast<double>(want[i]) * want[i];
    }
    moved_[static_cast<std::size_t>(row)] = moved;
    return Ok{};
  }

  Status add_row(std::size_t i, std::int64_t position, const RowDivergence& row) {
    if (!std::isfinite(row.kl) || !std::isfinite(row.nll)) {
      return invalid(str("the ", std::isfinite(row.ref_nll) ? "model" : "reference",
                         "'s logits at position ", position,
                         " are not finite; "
                         "`glint inspect --verify` finds NaN and infinity among weights"));
    }
    rows_[static_cast<std::size_t>(places_.row(i, position))] = row;
    return Ok{};
  }

  Evaluation finish(const TokenSequences& text) const {
    Evaluation out;
    out.sequences = std::ssize(text);
    out.rows = places_.rows();
    double ref_nll = 0, nll = 0, kl = 0, squares = 0, ref_hits = 0, hits = 0, same = 0;
    for (const std::vector<TokenId>& ids : text) {
      for (std::size_t position = 0; position + 1 < ids.size(); ++position) {
        const RowDivergence& row = rows_[out.kl.size()];
        ref_nll += row.ref_nll;
        nll += row.nll;
        squares += (row.nll - row.ref_nll) * (row.nll - row.ref_nll);
        kl += row.kl;
        ref_hits += row.ref_top == ids[position + 1];
        hits += row.top == ids[position + 1];
        same += row.ref_top == row.top;
        out.kl.push_back(static_cast<float>(row.kl));
        out.position.push_back(static_cast<std::int32_t>(position));
      }
    }
    const double n = static_cast<double>(out.rows);
    out.ref_perplexity = std::exp(ref_nll / n);
    out.perplexity = std::exp(nll / n);
    out.ref_top1 = ref_hits / n;
    out.top1 = hits / n;
    out.same_top1 = same / n;
    out.nll_difference = (nll - ref_nll) / n;
    const double variance = squares / n - out.nll_difference * out.nll_difference;
    out.nll_difference_error = std::sqrt(std::max(variance, 0.0) / n);
    out.mean_kl = kl / n;
    std::vector<float> sorted = out.kl;
    out.median_kl = quantile(sorted, 0.5);
    out.p99_kl = quantile(sorted, 0.99);
    out.max_kl = quantile(sorted, 1);
    out.layer_rows = places_.sampled();
    const auto sampled = static_cast<std::size_t>(places_.sampled());
    for (std::size_t begin = 0; begin < moved_.size(); begin += sampled) {
      Moved layer;
      for (std::size_t row = begin; row < begin + sampled; ++row) {
        layer.error += moved_[row].error;
        layer.norm += moved_[row].norm;
      }
      out.layer_error.push_back(layer.norm > 0 ? std::sqrt(layer.error / layer.norm) : 0);
    }
    return out;
  }

 private:
  struct Moved {
    double error = 0, norm = 0;  // sums of squares
  };
  const RowPlaces& places_;
  std::vector<RowDivergence> rows_;
  std::vector<Moved> moved_;  // by layer and sampled row
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

Result<Recording> record_reference(Ranks& reference, const TokenSequences& text,
                                   const EvalOptions& options) {
  GLINT_TRY_STATUS(check_predicts(text));
  const ModelConfig& config = reference.model(0).config();
  const RowPlaces places(text, options.layer_rows, config);
  GLINT_TRY(
      SpillFile file,
      SpillFile::create(options.tmp_dir, places.size() * static_cast<std::int64_t>(sizeof(float))));
  const RowVisitor spill = {
      .hidden = [&](std::int64_t row,
                    auto hidden) { return file.write(places.place_of_hidden(row), hidden); },
      .logits =
          [&](std::size_t i, std::int64_t position, auto logits) {
            return file.write(places.place_of_row(places.row(i, position)), logits);
          }};
  GLINT_TRY_STATUS(visit_rows(reference, text, options, places, spill));
  return Recording{
      .file = std::move(file), .name = reference.model(0).options().dir, .config = config};
}

Result<Evaluation> compare_with(const Recording& recording, Ranks& model,
                                const TokenSequences& text, const EvalOptions& options) {
  GLINT_TRY_STATUS(check_comparable(recording.config, recording.name, model.model(0).config(),
                                    model.model(0).options().dir));
  const RowPlaces places(text, options.layer_rows, recording.config);
  Comparison comparison(places);
  const auto read = [&](std::int64_t place, std::size_t size) -> Result<std::vector<float>> {
    std::vector<float> values(size);
    GLINT_TRY_STATUS(recording.file.read(place, values));
    return values;
  };
  const RowVisitor compare = {
      .hidden = [&](std::int64_t row, std::span<const float> hidden) -> Status {
        GLINT_TRY(const auto want, read(places.place_of_hidden(row), hidden.size()));
        return comparison.add_hidden(row, want, hidden);
      },
      .logits = [&](std::size_t i, std::int64_t position, std::span<const float> logits) -> Status {
        GLINT_TRY(const auto ref,
                  read(places.place_of_row(places.row(i, position)), logits.size()));
        const TokenId target = text[i][static_cast<std::size_t>(position) + 1];
        return comparison.add_row(i, position, compare_rows(ref, logits, target));
      }};
  GLINT_TRY_STATUS(visit_rows(model, text, options, places, compare));
  return comparison.finish(text);
}

}  // namespace glint
