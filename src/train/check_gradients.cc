#include "train/check_gradients.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "runtime/memory_plan.h"

namespace glint {
namespace {

constexpr float kSteps[] = {1.0f / 64, 1.0f / 128};  // of an element; bf16 has 8 bits
// Changes of the loss to aim at: where they do not agree, a smaller one, by fewer elements, is
// straighter.
constexpr double kWanted[] = {2e-4, 5e-5, 1.25e-5};
constexpr double kVisible = 1e-5;  // and the smallest that says something
constexpr double kTolerance = 0.02;
constexpr double kRounding = 2e-7;  // of the difference of two losses in f32
// All of these are for means over so many tokens. Each token's loss is rounded on its own, so that
// the mean over fewer is rounded more, by the root of how many fewer they are.
constexpr double kTokens = 60;

// The mean cross-entropy, and the draft layer's.
Result<double> loss_of(const GradientCheckArgs& args, std::span<const TrainSequence> sequences) {
  GLINT_TRY(const std::vector<TokenScores> scores,
            args.pass.score(sequences, {.drafts = args.mtp_weight > 0}, args.batch_tokens));
  double sum = 0, drafted = 0;
  std::size_t tokens = 0, draft_tokens = 0;
  for (const TokenScores& one : scores) {
    for (const float log_prob : one.log_probs) sum -= log_prob;
    for (const float log_prob : one.draft_log_probs) drafted -= log_prob;
    tokens += one.log_probs.size() - 1;
    draft_tokens += std::max<std::size_t>(one.log_probs.size(), 2) - 2;
  }
  const double mean = sum / static_cast<double>(tokens);
  return args.mtp_weight > 0 ? mean + args.mtp_weight * drafted / static_cast<double>(draft_tokens)
                             : mean;
}

// Numbers from 0 to count - 1 in an order that depends on `seed` alone.
std::vector<std::size_t> random_order(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[philox(seed, 0, i)[0] % i]);
  }
  return order;
}

struct Change {
  double predicted = 0, measured = 0;
};

// Moves a parameter by `step` of `direction` and by as much against it, and back.
template <class Loss>
Result<Change> move(const GradientCheckArgs& args, const Parameter& p,
                    const std::vector<float>& original, const std::vector<float>& direction,
                    float step, const Loss& loss) {
  const std::span<const float> gradient = args.parameters.values_of(p);
  std::vector<float> moved(original.size()), found(original.size());
  Change change;
  for (const float sign : {1.0f, -1.0f}) {
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] = original[i] + sign * step * direction[i];
    }
    args.weights.write(p, moved, args.model, args.pool);
    GLINT_TRY_STATUS(args.weights.place(args.model));
    // As it was rounded to the format of the weights.
    args.weights.read(p, args.model.partition(), found, args.pool);
    for (std::size_t i = 0; i < moved.size(); ++i) {
      change.predicted += sign * double{gradient[i]} * (double{found[i]} - original[i]);
    }
    const Result<double> value = loss();
    args.weights.write(p, original, args.model, args.pool);
    GLINT_TRY_STATUS(args.weights.place(args.model));
    if (!value.ok()) return value.error();
    change.measured += sign * value.value();
  }
  return change;
}

}  // namespace

bool ParameterCheck::is_small() const { return std::fabs(predicted) < kVisible * rounding; }
bool ParameterCheck::agrees() const {
  return std::fabs(measured - predicted) <=
         kTolerance * std::fabs(predicted) + kRounding * rounding;
}

Result<std::vector<TrainSequence>> with_routes(LoadedModel& model,
                                               const TokenSequences& sequences) {
  const ModelConfig& config = model.config();
  const auto layers = static_cast<std::size_t>(config.num_moe_layers());
  const auto k = static_cast<std::size_t>(config.num_experts_per_tok);
  int most = 1;
  for (const std::vector<TokenId>& ids : sequences) {
    const std::int64_t kept = std::min<std::int64_t>(std::ssize(ids), config.index_topk);
    most = std::max(most, static_cast<int>(kept));
  }
  GLINT_TRY_STATUS(reserve(model, static_cast<int>(pages_of(most)),
                           {.max_step_tokens = most, .max_running = 1, .max_seq_len = most}));
  std::vector<TrainSequence> all;
  for (const std::vector<TokenId>& ids : sequences) {
    TrainSequence sequence = {.ids = ids};
    sequence.ids.resize(std::min(ids.size(), static_cast<std::size_t>(most)));
    const std::size_t tokens = sequence.ids.size();
    GLINT_TRY_STATUS(check_train_sequence(model, sequence));
    std::vector<PageId> pages(static_cast<std::size_t>(pages_of(std::ssize(sequence.ids))));
    std::iota(pages.begin(), pages.end(), 0);
    StepRows rows;
    rows.add(0, sequence.ids, pages, 0);
    const std::span<const std::int32_t> routed = model.step(rows, {.routed = true}).routed;
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t layer = 0; layer < layers; ++layer) {
        const auto from = routed.subspan((layer * tokens + t) * k, k);
        sequence.routes.insert(sequence.routes.end(), from.begin(), from.end());
      }
    }
    all.push_back(std::move(sequence));
  }
  return all;
}

Status add_draft_routes(GradientPass& pass, std::vector<TrainSequence>& sequences,
                        std::int64_t batch_tokens) {
  GLINT_TRY(std::vector<TokenScores> scores, pass.score(sequences, {.drafts = true}, batch_tokens));
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].draft_routes = std::move(scores[i].draft_routes);
  }
  return Ok{};
}

Result<std::vector<ParameterCheck>> check_gradients(const GradientCheckArgs& args,
                                                    std::span<const TrainSequence> sequences,
                                                    const std::function<bool()>& on_parameter) {
  const auto loss = [&] { return loss_of(args, sequences); };
  std::vector<ParameterCheck> checks;
  const auto tokens = static_cast<double>(count_targets(sequences, args.mtp_weight > 0 ? 2 : 1));
  const double rounding = std::sqrt(std::max(kTokens / tokens, 1.0));
  args.parameters.fetch();
  for (const Parameter& p : args.parameters.all()) {
    const auto count = static_cast<std::size_t>(p.count());
    const std::span<const float> gradient = args.parameters.values_of(p);
    std::vector<float> original(count);
    args.weights.read(p, args.model.partition(), original, args.pool);
    ParameterCheck check;
    for (const double wanted : kWanted) {
      check = {.name = p.tensor.name, .rounding = rounding};
      std::vector<float> direction(count);  // in which the loss rises
      double expected = 0;
      for (const std::size_t i : random_order(count, checks.size())) {
        if (expected >= wanted * rounding) break;
        direction[i] = std::copysign(original[i], gradient[i]);
        expected += 2.0 * kSteps[0] * std::fabs(double{gradient[i]} * original[i]);
        ++check.moved;
      }
      Change changes[2];
      for (int i = 0; i < 2; ++i) {
        GLINT_TRY(changes[i], move(args, p, original, direction, kSteps[i], loss));
      }
      // The ratio of the two errs by the square of the step: without that, it is this.
      const double wide = changes[0].measured / changes[0].predicted;
      const double narrow = changes[1].measured / changes[1].predicted;
      check.predicted = changes[0].predicted;
      check.measured = check.predicted == 0 ? 0 : check.predicted * (4 * narrow - wide) / 3;
      if (check.is_small() || check.agrees()) break;
    }
    checks.push_back(std::move(check));
    if (!on_parameter()) return unavailable("interrupted");
  }
  return checks;
}

}  // namespace glint
