#include "server/errors.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(Errors, bodies_are_those_of_each_api) {
  const ApiError error = {.status = 404, .message = "no", .param = "model", .code = "c"};
  EXPECT_EQ(dump_json(error_json(error, ErrorStyle::kOpenAi)),
            R"({"error":{"message":"no","type":"not_found_error","param":"model","code":"c"}})");
  EXPECT_EQ(
      dump_json(error_json({.message = "no"}, ErrorStyle::kOpenAi)),
      R"({"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}})");
  EXPECT_EQ(
      dump_json(error_json(error, error_style("/v1/messages/count_tokens"))),
      R"({"type":"error","error":{"type":"not_found_error","message":"no"},"request_id":null})");
  EXPECT_EQ(parse_json(error_response(error, ErrorStyle::kAnthropic, "req_1").body)
                .value()
                .find("request_id")
                ->as_string(),
            "req_1");
}

TEST(Errors, what_a_result_says_has_a_status) {
  EXPECT_EQ(api_error(invalid("x")).status, 400);
  EXPECT_EQ(api_error({ErrorCode::kNotFound, "x"}).status, 404);
  EXPECT_EQ(api_error({ErrorCode::kResourceExhausted, "x"}).status, 429);
  EXPECT_EQ(api_error({ErrorCode::kUnavailable, "x"}).status, 503);
}

TEST(Errors, retry_after_is_whole_seconds_rounded_up) {
  const HttpResponse response =
      error_response({.status = 429, .message = "x", .retry_after = 1.2}, ErrorStyle::kOpenAi);
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.back(), (std::pair<std::string, std::string>("retry-after", "2")));
}

TEST(Errors, too_long_prompts_are_told_in_the_words_that_agents_look_for) {
  const ApiError error = too_long_error(4096, 100, 4000);
  EXPECT_EQ(error.message,
            "This model's maximum context length is 4096 tokens. However, you requested 100 output "
            "tokens and your prompt contains 4000 input tokens, for a total of 4100 tokens. Please "
            "reduce the length of the input prompt or the number of requested output tokens.");
  // Shortening the conversation would not help, asking for less would.
  const auto told = [](const ApiError& e) {
    return error_json(e, ErrorStyle::kAnthropic).find("error")->find("message")->as_string();
  };
  EXPECT_EQ(told(error),
            "input length and `max_tokens` exceed context limit: 4000 + 100 > 4096, decrease input "
            "length or `max_tokens` and try again");
  EXPECT_EQ(told(too_long_error(4096, 100, 5000)),
            "prompt is too long: 5000 tokens > 4096 maximum");
}

}  // namespace
}  // namespace glint
