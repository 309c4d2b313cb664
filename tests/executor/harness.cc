#include "executor/harness.h"

#include <sstream>

#include "base/file.h"

namespace glint {

std::vector<TokenId> prompt_of(int index, int length) {
  static const std::string text =
      read_file(str(GLINT_SOURCE_DIR, "/models/record/heldout.ids.txt")).value();
  static const std::vector<std::string_view> lines = split(text, '\n');
  std::istringstream in{std::string(lines[static_cast<std::size_t>(index) % (lines.size() - 1)])};
  std::vector<TokenId> ids;
  for (TokenId id; static_cast<int>(ids.size()) < length && in >> id;) ids.push_back(id);
  return ids;
}

std::vector<TokenId> whole(const Request& request, const Outcome& outcome) {
  std::vector<TokenId> tokens = request.prompt;
  tokens.insert(tokens.end(), outcome.tokens.begin(), outcome.tokens.end());
  return tokens;
}

void expect_same(const std::map<RequestId, Outcome>& outcomes,
                 const std::map<RequestId, Outcome>& expected) {
  for (const auto& [id, one] : expected) {
    SCOPED_TRACE(str("request ", id));
    const Outcome& other = outcomes.at(id);
    EXPECT_EQ(other.tokens, one.tokens);
    EXPECT_EQ(other.finished, one.finished);
    ASSERT_EQ(other.logprobs.size(), one.logprobs.size());
    for (std::size_t i = 0; i < one.logprobs.size(); ++i) {
      EXPECT_EQ(other.logprobs[i].logprob, one.logprobs[i].logprob) << "token " << i;
    }
    EXPECT_EQ(other.extras.prompt_logprobs.size(), one.extras.prompt_logprobs.size());
    EXPECT_EQ(other.extras.routed_experts, one.extras.routed_experts);
    // Ranks that share layers or sequences tell none.
    if (!other.extras.selected_keys.empty()) {
      EXPECT_EQ(other.extras.selected_keys, one.extras.selected_keys);
    }
  }
}

std::vector<Request> mixed_requests(int count, int prompt_tokens, int max_tokens) {
  const SamplingParams kinds[] = {
      {.temperature = 0},
      {},
      {.temperature = 0.8, .top_p = 0.9},
      {.top_k = 20, .repetition_penalty = 1.2, .presence_penalty = 0.5, .frequency_penalty = 0.3},
      {.temperature = 0, .repetition_penalty = 1.1, .logit_bias = {{11, -5.0f}, {13, 2.0f}}},
      {.min_p = 0.05, .bad_words = {{13}, {264, 11}}},
  };
  std::vector<Request> requests;
  for (int i = 0; i < count; ++i) {
    Request request = {.id = static_cast<RequestId>(i + 1),
                       .prompt = prompt_of(i, prompt_tokens + i % 7),
                       .sampling = kinds[static_cast<std::size_t>(i) % std::size(kinds)],
                       .max_tokens = max_tokens};
    request.sampling.seed = static_cast<std::uint64_t>(i);
    requests.push_back(request);
  }
  return requests;
}

}  // namespace glint
