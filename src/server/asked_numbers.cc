#include "server/asked_numbers.h"

#include <algorithm>
#include <limits>

#include "base/str.h"
#include "server/prepare.h"

namespace glint {
namespace {

// Half a kilobyte of JSON each, or a kilobyte while it is written.
constexpr std::int64_t kMaxScores = std::int64_t{1} << 20;
constexpr std::int64_t kMaxExpertsInJson = std::int64_t{1} << 22;
// Base64 of /generate is six bytes a number: a context of 202,752 tokens has 122 million.
constexpr std::int64_t kMaxExpertsInBase64 = std::int64_t{1} << 27;

ApiStatus check_count(std::int64_t count, std::int64_t most, const char* what, const char* remedy,
                      const char* param) {
  if (count <= most) return Ok{};
  return ApiError{.message = str("the request asks for ", count, " ", what, "; one may ask for ",
                                 most, ": ", remedy),
                  .param = param};
}

const char* field_of_scores(Api api) {
  if (api == Api::kCompletions) return "logprobs";
  return api == Api::kGenerate ? "top_logprobs_num" : "top_logprobs";
}

std::int64_t most_experts(Api api) {
  return api == Api::kGenerate ? kMaxExpertsInBase64 : kMaxExpertsInJson;
}

}  // namespace

void AskedNumbers::add(const ApiRequest& request, const Prepared& prepared, int row_experts) {
  const TokenFacts& facts = request.facts;
  for (const Request& one : prepared.requests) {
    const auto prompt = static_cast<std::int64_t>(one.prompt.size());
    prompt_scores += prompt * (facts.prompt_logprobs + 1);
    if (request.echo && request.form.stream) echoed_scores += prompt * (facts.prompt_logprobs + 1);
    answer_scores += std::int64_t{one.max_tokens} * (facts.top_logprobs + 1);
    if (facts.routed_experts) experts += (prompt + one.max_tokens - 1) * row_experts;
  }
}

ApiStatus AskedNumbers::check(Api api) const {
  GLINT_TRY_STATUS(check_count(prompt_scores, kMaxScores, "log-probabilities of prompt tokens",
                               "send fewer prompts, or ask for fewer", "prompt_logprobs"));
  GLINT_TRY_STATUS(check_count(echoed_scores, kMostNumbersAtOnce,
                               "log-probabilities of prompt tokens in a stream",
                               "ask without stream", "echo"));
  GLINT_TRY_STATUS(check_count(answer_scores, kMaxScores, "log-probabilities of answer tokens",
                               "ask for fewer, or for fewer or shorter answers",
                               field_of_scores(api)));
  const bool is_base64 = api == Api::kGenerate;
  return check_count(experts, most_experts(api), "numbers of routed experts",
                     is_base64 ? "ask for fewer or shorter answers"
                               : "ask for fewer or shorter answers, or ask /generate",
                     "return_routed_experts");
}

int longest_told_answer(const ApiRequest& request, int prompt_tokens, int row_experts) {
  constexpr std::int64_t kAny = std::numeric_limits<int>::max();
  const std::int64_t scores = std::int64_t{request.best_of} * (request.facts.top_logprobs + 1);
  const std::int64_t experts =
      request.facts.routed_experts ? std::int64_t{request.best_of} * row_experts : 0;
  std::int64_t most = kAny;
  if (scores > 0) most = std::min(most, kMaxScores / scores);
  // The last token of an answer is no row.
  if (experts > 0) most = std::min(most, most_experts(request.api) / experts - prompt_tokens + 1);
  return static_cast<int>(std::max<std::int64_t>(most, 1));
}

}  // namespace glint
