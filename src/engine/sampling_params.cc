#include "engine/sampling_params.h"

#include <cmath>

#include "base/str.h"

namespace glint {
namespace {

// Penalties that are subtracted, as OpenAI's API bounds them.
Status check_penalty(const char* name, double value) {
  if (value >= -2 && value <= 2) return Ok{};
  return invalid(str(name, " is ", value, "; it must be between -2 and 2"));
}

Status check_order(const std::vector<std::pair<TokenId, float>>& bias) {
  if (bias.size() > kMaxLogitBias) {
    return invalid(
        str("logit-bias names ", bias.size(), " tokens; at most ", kMaxLogitBias, " are allowed"));
  }
  for (std::size_t i = 1; i < bias.size(); ++i) {
    if (bias[i - 1].first < bias[i].first) continue;
    return invalid(str("logit-bias names token ", bias[i].first, " after token ", bias[i - 1].first,
                       "; name each once, by rising id"));
  }
  return Ok{};
}

}  // namespace

Status validate(const SamplingParams& params) {
  if (!(params.temperature >= 0) || !std::isfinite(params.temperature)) {
    return invalid(str("temperature is ", params.temperature, "; it must be 0 or more"));
  }
  if (!(params.top_p > 0 && params.top_p <= 1)) {
    return invalid(str("top-p is ", params.top_p, "; it must be above 0 and at most 1"));
  }
  if (params.top_k < 0)
    return invalid(str("top-k is ", params.top_k, "; it must be 0 (all) or more"));
  if (!(params.min_p >= 0 && params.min_p <= 1)) {
    return invalid(str("min-p is ", params.min_p, "; it must be between 0 and 1"));
  }
  if (!(params.repetition_penalty > 0) || !std::isfinite(params.repetition_penalty)) {
    return invalid(
        str("repetition-penalty is ", params.repetition_penalty, "; it must be above 0"));
  }
  GLINT_TRY_STATUS(check_penalty("presence-penalty", params.presence_penalty));
  GLINT_TRY_STATUS(check_penalty("frequency-penalty", params.frequency_penalty));
  GLINT_TRY_STATUS(check_order(params.logit_bias));
  for (const auto& [id, bias] : params.logit_bias) {
    if (!(bias >= -100 && bias <= 100)) {
      return invalid(
          str("logit-bias of token ", id, " is ", bias, "; it must be between -100 and 100"));
    }
  }
  if (params.bad_words.size() > kMaxBadWords)
    return invalid(str("bad-words holds ", params.bad_words.size(), " words; at most ",
                       kMaxBadWords, " are allowed"));
  for (const std::vector<TokenId>& word : params.bad_words) {
    if (word.empty()) return invalid("bad-words holds an empty word; leave it out");
  }
  return Ok{};
}

Status check_token_ids(std::string_view name, std::span<const TokenId> ids,
                       std::int64_t vocab_size) {
  for (const TokenId id : ids) {
    if (id >= 0 && id < vocab_size) continue;
    return invalid(str(name, " holds token ", id, ", which is not in the vocabulary of ",
                       vocab_size, " tokens"));
  }
  return Ok{};
}

Status check_token_ids(const SamplingParams& params, std::int64_t vocab_size) {
  for (const auto& [id, bias] : params.logit_bias) {
    GLINT_TRY_STATUS(check_token_ids("logit-bias", {&id, 1}, vocab_size));
  }
  GLINT_TRY_STATUS(check_token_ids("allowed-token-ids", params.allowed_ids, vocab_size));
  for (const std::vector<TokenId>& word : params.bad_words)
    GLINT_TRY_STATUS(check_token_ids("bad-words", word, vocab_size));
  return Ok{};
}

}  // namespace glint
