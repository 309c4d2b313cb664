#include "runtime/score.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/str.h"
#include "engine/sampling_params.h"
#include "ops/logit_rows.h"
#include "runtime/memory_plan.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

// [T, D] of floats as f32 on the host.
std::vector<float> to_host_f32(const Tensor& x, Device& device) {
  std::vector<std::byte> raw(static_cast<std::size_t>(x.size()) * size_of(x.dtype));
  device.copy_out(raw.data(), x.data, raw.size());
  std::vector<float> out(static_cast<std::size_t>(x.size()));
  with_float_type(x.dtype, [&]<class T>(T) {
    const T* values = reinterpret_cast<const T*>(raw.data());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_float(values[i]);
  });
  return out;
}

// How well the row of logits predicts `target`.
Prediction judge(std::span<const float> row, TokenId target) {
  // One logit that is NaN does not show in the logarithm of a sum of the others.
  const bool numbers = extent_of(row).numbers;
  return {.nll = numbers ? -static_cast<double>(logprob(row, target)) : NAN,
          .tokens = 1,
          .top1 = argmax(row) == target};
}

std::span<const TokenId> clamp_span(std::span<const TokenId> ids, std::int64_t begin,
                                    std::int64_t end) {
  const std::int64_t size = static_cast<std::int64_t>(ids.size());
  begin = std::min(begin, size);
  end = std::clamp(end, begin, size);
  return ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

Taps make_taps(LoadedModel& model, const ScoreSinks& sinks, std::int64_t first) {
  Taps taps;
  Device& device = model.ops().device();
  if (sinks.hidden) {
    taps.residual = [&model, &sinks, &device, first](int layer, const Tensor& residual) {
      if (layer == model.config().num_hidden_layers) return;
      sinks.hidden(layer, first, to_host_f32(residual, device));
    };
  }
  if (sinks.selected) {
    // Slots to positions: the sequence owns the pages in order, so they are equal.
    taps.selected = [&sinks, &device, first](int layer, const Tensor& selected) {
      sinks.selected(layer, first, download<std::int32_t>(selected, device));
    };
  }
  return taps;
}

}  // namespace

void Prediction::add(const Prediction& other) {
  nll += other.nll;
  tokens += other.tokens;
  top1 += other.top1;
}

double Prediction::perplexity() const { return std::exp(nll / static_cast<double>(tokens)); }

double Prediction::top1_share() const {
  return static_cast<double>(top1) / static_cast<double>(tokens);
}

Status check_sequence(const ModelConfig& model, std::span<const TokenId> ids) {
  if (ids.empty()) return invalid("a sequence is empty; give at least one token");
  if (static_cast<std::int64_t>(ids.size()) > model.max_position_embeddings) {
    return invalid(str("a sequence has ", ids.size(), " tokens; the model has ",
                       model.max_position_embeddings, " positions"));
  }
  return check_token_ids("a sequence", ids, model.vocab_size);
}

Status reserve_scores(LoadedModel& model, std::int64_t longest, const ScoreOptions& options) {
  longest = std::clamp<std::int64_t>(longest, 1, model.config().max_position_embeddings);
  return reserve(model, static_cast<int>(pages_of(longest)),
                 {.max_step_tokens = options.chunk,
                  .max_running = 1,
                  .max_drafts = options.mtp ? 1 : 0,
                  .max_seq_len = longest,
                  .all_logits = true});
}

Result<Score> score(LoadedModel& model, std::span<const TokenId> ids, const ScoreOptions& options,
                    const ScoreSinks& sinks) {
  GLINT_TRY_STATUS(reserve_scores(model, std::ssize(ids), options));
  return score_reserved(model, ids, options, sinks);
}

Result<Score> score_reserved(LoadedModel& model, std::span<const TokenId> ids,
                             const ScoreOptions& options, const ScoreSinks& sinks,
                             const JudgedRows& judged) {
  const bool is_alone = options.lengths.empty(), is_last = model.partition().is_last();
  const bool has_logits = model.has_logits();
  if (is_alone || !ids.empty()) GLINT_TRY_STATUS(check_sequence(model.config(), ids));
  if (options.mtp && is_last && !model.has_mtp())
    return invalid("this checkpoint has no MTP layer");
  const std::int64_t T = static_cast<std::int64_t>(ids.size());
  const std::vector<std::int64_t> lengths = is_alone ? std::vector{T} : options.lengths;
  const std::int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<PageId> pages(static_cast<std::size_t>(pages_of(T)));
  std::iota(pages.begin(), pages.end(), 0);
  // Rows of the chunk from `first` on in a sequence of `length` tokens; the MTP layer leaves out
  // the last, which has no next token.
  const auto rows_of = [&](std::int64_t length, std::int64_t first) {
    return std::clamp<std::int64_t>(length - first, 0, options.chunk);
  };
  // The first of them that this rank runs.
  const auto begin_of = [&](std::int64_t first, int part) {
    return first + rows_of(T, first) * part / options.parts;
  };
  const auto make_plan = [&](std::int64_t first, std::int64_t skip) {
    StepRows plan;
    const std::int64_t begin = begin_of(first, options.part);
    const std::int64_t end = std::min(begin_of(first, options.part + 1), T - skip);
    if (begin < end) {
      plan.add(static_cast<int>(begin), ids.subspan(begin + skip, end - begin), pages,
               has_logits ? static_cast<int>(end - begin) : 0);
    }
    for (const std::int64_t length : lengths) plan.all_tokens += rows_of(length - skip, first);
    return plan;
  };
  // Row `begin` of the sequence is the first of `out`, and predicts the first of `targets`; the
  // last rows predict nothing known.
  const auto judge_all = [](const StepOutput& out, std::int64_t begin,
                            std::span<const TokenId> targets, const auto& told, Prediction& total) {
    for (std::size_t r = 0; r < targets.size(); ++r) {
      const auto row = static_cast<std::int64_t>(r);
      const Prediction one = judge(out.row(row), targets[r]);
      total.add(one);
      if (told) told(begin + row, one);
    }
  };

  Score total;
  for (std::int64_t first = 0; first < longest; first += options.chunk) {
    const StepRows plan = make_plan(first, 0);
    const std::int64_t begin = begin_of(first, options.part);
    const std::int64_t count = static_cast<std::int64_t>(plan.tokens.size());
    const Taps taps = count > 0 ? make_taps(model, sinks, begin) : Taps();
    const StepOutput out = model.step(plan, {.taps = &taps});
    if (has_logits) {
      if (sinks.hidden && count > 0) {
        sinks.hidden(model.config().num_hidden_layers, begin,
                     to_host_f32(out.hidden, model.ops().device()));
      }
      judge_all(out, begin, clamp_span(ids, begin + 1, begin + count + 1), judged.model,
                total.model);
      if (sinks.logits && count > 0) sinks.logits(begin, out.logits);
    }

    const StepRows drafts = make_plan(first, 1);
    if (options.mtp && is_last && drafts.all_tokens > 0) {
      const std::int64_t rows = static_cast<std::int64_t>(drafts.tokens.size());
      const StepOutput guess = model.draft(drafts, {.on_device = out.hidden.slice(0, 0, rows)});
      judge_all(guess, begin, clamp_span(ids, begin + 2, begin + rows + 2), judged.mtp, total.mtp);
      if (sinks.mtp && rows > 0) sinks.mtp(begin, guess.logits);
    }
    if (options.done && !options.done(count)) {
      return unavailable("interrupted");
    }
  }
  return total;
}

}  // namespace glint
