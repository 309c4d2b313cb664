#include "rl/answer_piece.h"

#include <gtest/gtest.h>

#include "base/base64.h"
#include "base/str.h"

namespace glint {
namespace {

AnswerLimits limits(bool routes = false) {
  return {.prompt_tokens = 2,
          .max_tokens = 3,
          .num_token_ids = 100,
          .weight_version = "step-1",
          .routes = routes,
          .num_layers = 3,
          .experts_per_token = 1,
          .num_experts = 8,
          .moe_layers = {1, 2}};
}

std::string piece(const std::string& ids, const std::string& scores, const std::string& meta) {
  return str(R"({"text": "", "output_ids": )", ids,
             R"(, "meta_info": {"weight_version": "step-1",)", R"("output_token_logprobs": )",
             scores, ", ", meta, "}}");
}

const std::string kEnd = R"("finish_reason": {"type": "stop", "matched": 6}, "cached_tokens": 1)";
const std::string kScores = R"([[-0.125, 5, "a"], [-1.1754944e-38, 6, null]])";

// The experts of so many rows, one after another; the first layer has none.
std::string routes(int rows, std::int32_t expert = 7) {
  std::string bytes;
  for (int i = 0; i < rows * 3; ++i) {
    const std::int32_t told = i % 3 == 0 ? 0 : expert;
    bytes.append(reinterpret_cast<const char*>(&told), 4);
  }
  return str(kEnd, R"(, "routed_experts": ")", to_base64(bytes), R"(")");
}

std::string refusal(const std::string& text, bool with_routes = false) {
  const auto parsed = parse_answer_piece(text, limits(with_routes));
  return parsed.ok() ? "none" : parsed.error().message;
}

#define EXPECT_REFUSED(words, ...) \
  EXPECT_NE((__VA_ARGS__).find(words), std::string::npos) << (__VA_ARGS__)

TEST(AnswerPiece, tells_tokens_their_log_probabilities_to_the_bit_and_the_end) {
  const AnswerPiece out = parse_answer_piece(piece("[5, 6]", kScores, kEnd), limits()).value();
  EXPECT_EQ(out.tokens, (std::vector<TokenId>{5, 6}));
  EXPECT_EQ(out.log_probs, (std::vector<float>{-0.125f, -1.1754944e-38f}));
  EXPECT_EQ(out.finished, FinishReason::kStop);
  EXPECT_EQ(out.cached_tokens, 1);
  const AnswerPiece begun =
      parse_answer_piece(piece("[]", "[]", R"("finish_reason": null)"), limits()).value();
  EXPECT_TRUE(begun.tokens.empty() && !begun.finished);
}

TEST(AnswerPiece, tells_the_experts_of_each_row_but_the_last) {
  const auto out = parse_answer_piece(piece("[5, 6]", kScores, routes(3)), limits(true)).value();
  EXPECT_EQ(out.routes, std::vector<std::uint16_t>(6, 7));
  EXPECT_REFUSED("of 3 rows", refusal(piece("[5, 6]", kScores, routes(2)), true));
  EXPECT_REFUSED("of 3 rows", refusal(piece("[5, 6]", kScores, kEnd), true));
  EXPECT_REFUSED("expert 8", refusal(piece("[5, 6]", kScores, routes(3, 8)), true));
  EXPECT_REFUSED("expert -1", refusal(piece("[5, 6]", kScores, routes(3, -1)), true));
}

TEST(AnswerPiece, what_is_wrong_is_named) {
  EXPECT_REFUSED("no sound JSON", refusal("{"));
  EXPECT_REFUSED("no meta_info", refusal("[]"));
  EXPECT_REFUSED("no meta_info", refusal("{}"));
  EXPECT_REFUSED("no list", refusal(piece("7", "[]", kEnd)));
  EXPECT_REFUSED("no list", refusal(piece("[5]", "null", kEnd)));
  EXPECT_REFUSED("4 tokens; 3 were asked for", refusal(piece("[1,2,3,4]", "[]", kEnd)));
  EXPECT_REFUSED("2 log-probabilities of 1 tokens", refusal(piece("[5]", kScores, kEnd)));
  for (const char* const id : {"100", "-1", "5.5", "\"5\"", "99999999999999999999"}) {
    EXPECT_REFUSED("expected an integer from 0 to 99",
                   refusal(piece(str("[", id, "]"), str("[[0, ", id, "]]"), kEnd)));
  }
  for (const char* const score : {"[-1, 6]", "[null, 5]", "[1e39, 5]", "-1", "[-1]", "{}"}) {
    EXPECT_REFUSED("for token 5; expected its log-probability",
                   refusal(piece("[5]", str("[", score, "]"), kEnd)));
  }
  EXPECT_REFUSED("no sound JSON", refusal(piece("[5]", "[[NaN, 5]]", kEnd)));
  EXPECT_REFUSED("expected stop, length or abort",
                 refusal(piece("[5, 6]", kScores, R"("finish_reason": {"type": "odd"})")));
  EXPECT_REFUSED("without a token", refusal(piece("[]", "[]", kEnd)));
  EXPECT_REFUSED("cached_tokens",
                 refusal(piece("[5, 6]", kScores, R"("finish_reason": {"type": "length"})")));
  AnswerLimits other = limits();
  other.weight_version = "step-2";
  EXPECT_REFUSED("answers with weights \"step-1\", not with \"step-2\"",
                 parse_answer_piece(piece("[5, 6]", kScores, kEnd), other).error().message);
}

TEST(AnswerPiece, more_values_than_an_answer_has_are_not_read) {
  std::string many = "[0";
  for (int i = 0; i < 2000; ++i) many += ",0";
  EXPECT_REFUSED("no sound JSON", refusal(piece(many + "]", "[]", kEnd)));
}

TEST(AnswerPiece, the_request_leaves_nothing_to_the_defaults_of_a_server) {
  const Request request = {.id = 1,
                           .prompt = {4, 5},
                           .sampling = {.temperature = 0.5, .seed = 1ull << 63},
                           .max_tokens = 9,
                           .stop_ids = {7},
                           .want = {.top_logprobs = 0, .routed_experts = true}};
  EXPECT_EQ(dump_json(generate_body(request, "r", 16)),
            R"({"input_ids":[4,5],"sampling_params":{"temperature":0.5,"top_p":1.0,"top_k":-1,)"
            R"("min_p":0,"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":0,)"
            R"("sampling_seed":-9223372036854775808,"max_new_tokens":9,"ignore_eos":true,)"
            R"("stop_token_ids":[7]},"stream":true,"stream_interval":16,"rid":"r",)"
            R"("return_logprob":true,"return_routed_experts":true})");
}

}  // namespace
}  // namespace glint
