#include "runtime/score.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/str.h"
#include "runtime/logits.h"

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

// Rows that predict `targets` (fewer than the rows: the last ones predict nothing known).
Prediction judge(const StepOutput& out, std::span<const TokenId> targets) {
  Prediction result = {.tokens = static_cast<std::int64_t>(targets.size())};
  for (std::int64_t r = 0; r < result.tokens; ++r) {
    const std::span<const float> row = out.row(r);
    // One logit that is NaN does not show in the logarithm of a sum of the others.
    result.nll -= extent_of(row).numbers ? static_cast<double>(logprob(row, targets[r])) : NAN;
    result.top1 += argmax(row) == targets[r];
  }
  return result;
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
      std::vector<std::int32_t> positions(static_cast<std::size_t>(selected.size()));
      device.copy_out(positions.data(), selected.data, positions.size() * sizeof positions[0]);
      sinks.selected(layer, first, positions);
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

Status check_sequence(const LoadedModel& model, std::span<const TokenId> ids) {
  const ModelConfig& config = model.config();
  if (ids.empty()) return invalid("a sequence is empty; give at least one token");
  if (static_cast<std::int64_t>(ids.size()) > config.max_position_embeddings) {
    return invalid(str("a sequence has ", ids.size(), " tokens; the model has ",
                       config.max_position_embeddings, " positions"));
  }
  return check_vocabulary(model, ids);
}

Result<Score> score(LoadedModel& model, std::span<const TokenId> ids, const ScoreOptions& options,
                    const ScoreSinks& sinks) {
  GLINT_TRY_STATUS(check_sequence(model, ids));
  if (options.mtp && !model.has_mtp()) return invalid("this checkpoint has no MTP layer");
  const std::int64_t T = static_cast<std::int64_t>(ids.size());
  const int num_pages = static_cast<int>((T + kPageSize - 1) / kPageSize);
  GLINT_TRY_STATUS(model.reserve_pages(num_pages));
  std::vector<PageId> pages(static_cast<std::size_t>(num_pages));
  std::iota(pages.begin(), pages.end(), 0);

  Score total;
  for (std::int64_t first = 0; first < T; first += options.chunk) {
    const std::int64_t count = std::min<std::int64_t>(options.chunk, T - first);
    StepPlan plan;
    plan.add(static_cast<int>(first), ids.subspan(first, count), pages, static_cast<int>(count));
    const Taps taps = make_taps(model, sinks, first);
    const StepOutput out = model.step(plan, {.taps = &taps});
    if (sinks.hidden) {
      sinks.hidden(model.config().num_hidden_layers, first,
                   to_host_f32(out.hidden, model.ops().device()));
    }
    total.model.add(judge(out, clamp_span(ids, first + 1, first + count + 1)));
    if (sinks.logits) sinks.logits(first, out.logits);

    // The last position has no next token.
    const std::int64_t rows = std::min(count, T - 1 - first);
    if (options.mtp && rows > 0) {
      StepPlan drafts;
      drafts.add(static_cast<int>(first), ids.subspan(first + 1, rows), pages,
                 static_cast<int>(rows));
      const StepOutput guess = model.draft(drafts, {.on_device = out.hidden.slice(0, 0, rows)});
      total.mtp.add(judge(guess, clamp_span(ids, first + 2, first + rows + 2)));
      if (sinks.mtp) sinks.mtp(first, guess.logits);
    }
    if (options.done && !options.done(count)) {
      return Error{ErrorCode::kUnavailable, "interrupted"};
    }
  }
  return total;
}

}  // namespace glint
