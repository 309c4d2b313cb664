#include "engine/sampling_params.h"

#include <gtest/gtest.h>

#include <cmath>

namespace glint {
namespace {

void refused(const SamplingParams& params, const char* word) {
  const Status status = validate(params);
  ASSERT_FALSE(status.ok()) << word;
  EXPECT_NE(status.error().message.find(word), std::string::npos) << status.error().message;
}

TEST(SamplingParams, impossible_values_are_refused_by_name) {
  refused({.temperature = -1}, "temperature");
  refused({.temperature = INFINITY}, "temperature");
  refused({.top_p = 0}, "top-p");
  refused({.top_p = 1.1}, "top-p");
  refused({.top_k = -3}, "top-k");
  refused({.min_p = NAN}, "min-p");
  refused({.repetition_penalty = 0}, "repetition-penalty");
  refused({.presence_penalty = 2.1}, "presence-penalty");
  refused({.frequency_penalty = -2.1}, "frequency-penalty");
  refused({.frequency_penalty = NAN}, "frequency-penalty");
  refused({.logit_bias = {{3, 101.0f}}}, "logit-bias of token 3");
  refused({.logit_bias = {{3, NAN}}}, "logit-bias");
  refused({.logit_bias = {{3, 1.0f}, {3, 1.0f}}},
          "logit-bias names token 3 after token 3; name each once, by rising id");
  refused({.logit_bias = std::vector<std::pair<TokenId, float>>(1025)},
          "logit-bias names 1025 tokens; at most 1024 are allowed");
  refused({.bad_words = {{1}, {}}}, "bad-words");
  refused({.bad_words = std::vector<std::vector<TokenId>>(2001, {1})},
          "bad-words holds 2001 words; at most 2000 are allowed");
}

TEST(SamplingParams, the_ends_of_the_ranges_are_taken) {
  EXPECT_TRUE(validate({}).ok());
  EXPECT_TRUE(validate({.temperature = 0, .presence_penalty = -2, .frequency_penalty = 2}).ok());
  EXPECT_TRUE(validate({.min_p = 1, .logit_bias = {{3, -100.0f}}}).ok());
}

TEST(SamplingParams, ids_outside_the_vocabulary_are_refused_by_name) {
  EXPECT_TRUE(
      check_token_ids({.logit_bias = {{9, 1.0f}}, .allowed_ids = {0}, .bad_words = {{9}}}, 10)
          .ok());
  const auto message = [](const SamplingParams& params) {
    return check_token_ids(params, 10).error().message;
  };
  EXPECT_NE(message({.logit_bias = {{10, 1.0f}}}).find("logit-bias holds token 10"),
            std::string::npos);
  EXPECT_NE(message({.allowed_ids = {-1}}).find("allowed-token-ids"), std::string::npos);
  EXPECT_NE(message({.bad_words = {{1, 12}}}).find("bad-words"), std::string::npos);
}

}  // namespace
}  // namespace glint
