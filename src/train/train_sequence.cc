#include "train/train_sequence.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/ceil_div.h"
#include "base/str.h"
#include "runtime/score.h"

namespace glint {

Status check_train_sequence(const LoadedModel& model, const TrainSequence& sequence) {
  GLINT_TRY_STATUS(check_sequence(model.config(), sequence.ids));
  if (!sequence.weights.empty() && sequence.weights.size() != sequence.ids.size()) {
    return invalid(str("there are ", sequence.weights.size(), " weights for ", sequence.ids.size(),
                       " tokens; give one a token"));
  }
  for (const float weight : sequence.weights) {
    if (!std::isfinite(weight)) return invalid(str("a token's weight is ", weight));
  }
  if (sequence.routes.empty()) return Ok{};
  const ModelConfig& config = model.config();
  const auto k = static_cast<std::size_t>(config.num_experts_per_tok);
  const std::size_t a_token = static_cast<std::size_t>(config.num_moe_layers()) * k;
  const std::size_t tokens = a_token ? sequence.routes.size() / a_token : 0;
  const bool fits = tokens * a_token == sequence.routes.size() &&
                    (tokens == sequence.ids.size() || tokens + 1 == sequence.ids.size());
  if (!fits) {
    return invalid(str("there are ", sequence.routes.size(), " numbers of experts for ",
                       sequence.ids.size(), " tokens of ", a_token,
                       " each; give those of all tokens, or of all but the last"));
  }
  for (std::size_t i = 0; i < sequence.routes.size(); ++i) {
    const std::int32_t expert = sequence.routes[i];
    if (expert < 0 || expert >= config.n_routed_experts) {
      return invalid(str("token ", i / a_token, " was routed to expert ", expert,
                         ", but there are ", config.n_routed_experts));
    }
    const auto choice = sequence.routes.begin() + static_cast<std::ptrdiff_t>(i / k * k);
    if (std::find(choice, sequence.routes.begin() + static_cast<std::ptrdiff_t>(i), expert) !=
        sequence.routes.begin() + static_cast<std::ptrdiff_t>(i)) {
      return invalid(
          str("token ", i / a_token, " was routed to expert ", expert, " twice in one layer"));
    }
  }
  return Ok{};
}

Status check_train_sequences(const LoadedModel& model, std::span<const TrainSequence> all) {
  bool any_routes = false, all_routes = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    GLINT_TRY_STATUS(check_train_sequence(model, all[i]).in(str("sequence ", i + 1)));
    any_routes |= !all[i].routes.empty();
    all_routes &= !all[i].routes.empty() || all[i].size() == 1;
  }
  if (!any_routes || all_routes) return Ok{};
  return invalid("some sequences have their experts given and some have not; give all or none");
}

std::size_t common_tokens(const TrainSequence& a, const TrainSequence& b) {
  // The last token of a rollout may have no experts of its own.
  const auto last = a.ids.end() - (a.routes.empty() ? 0 : 1);
  const auto end = std::mismatch(a.ids.begin(), last, b.ids.begin(), b.ids.end());
  const auto same = static_cast<std::size_t>(end.first - a.ids.begin());
  if (same == 0 || a.routes.empty()) return same;
  // All tokens but the last have routes; where it has them, too, this is too many, and fewer are
  // shared.
  const std::size_t a_token = a.routes.size() / (a.ids.size() - 1);
  const auto routes =
      std::mismatch(a.routes.begin(), a.routes.end(), b.routes.begin(), b.routes.end());
  return std::min(same, static_cast<std::size_t>(routes.first - a.routes.begin()) / a_token);
}

std::vector<std::span<const TrainSequence>> batches_of(std::span<const TrainSequence> all,
                                                       std::int64_t batch_tokens, bool shares) {
  std::vector<std::span<const TrainSequence>> batches;
  std::size_t begin = 0;
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::int64_t more = all[i].size();
    if (shares && i > begin) {
      more -= static_cast<std::int64_t>(common_tokens(all[i - 1], all[i]));
    }
    if (i > begin && tokens + more > batch_tokens) {
      batches.push_back(all.subspan(begin, i - begin));
      begin = i;
      tokens = 0;
      more = all[i].size();
    }
    tokens += more;
  }
  if (begin < all.size()) batches.push_back(all.subspan(begin));
  return batches;
}

BatchShape larger(const BatchShape& a, const BatchShape& b) {
  return {.rows = std::max(a.rows, b.rows),
          .draft_rows = std::max(a.draft_rows, b.draft_rows),
          .targets = std::max(a.targets, b.targets),
          .sequences = std::max(a.sequences, b.sequences),
          .longest = std::max(a.longest, b.longest),
          .pages = std::max(a.pages, b.pages),
          .learns = a.learns || b.learns};
}

BatchShape shape_of(std::int64_t rows, std::int64_t sequences, std::int64_t longest, bool drafts) {
  rows = std::max(rows, longest);
  sequences = std::max(sequences, ceil_div(rows, longest));
  return {.rows = rows,
          .draft_rows = drafts ? rows : 0,
          .targets = rows,
          .sequences = sequences,
          .longest = longest,
          .pages = static_cast<int>(rows / kPageSize + sequences),
          .learns = true};
}

std::vector<std::span<const TrainSequence>> parts_of(std::span<const TrainSequence> all, int ranks,
                                                     bool shares) {
  std::vector<std::int64_t> costs;
  for (std::size_t i = 0; i < all.size(); ++i) {
    costs.push_back(all[i].size());
    if (shares && i > 0) {
      costs.back() -= static_cast<std::int64_t>(common_tokens(all[i - 1], all[i]));
    }
  }
  const std::int64_t total = std::accumulate(costs.begin(), costs.end(), std::int64_t{0});
  // A sequence belongs to the rank in whose share of all tokens its middle lies.
  std::vector<std::span<const TrainSequence>> parts;
  std::size_t begin = 0;
  std::int64_t before = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::size_t end = begin;
    while (end < all.size() && (2 * before + costs[end]) * ranks <= 2 * total * (rank + 1)) {
      before += costs[end++];
    }
    parts.push_back(all.subspan(begin, end - begin));
    begin = end;
  }
  return parts;
}

}  // namespace glint
