#include "server/asked_numbers.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "server/testing.h"

namespace glint {
namespace {

std::string refusal(const TestServer& server, const char* path, const std::string& body) {
  const HttpResponse response = server.send("POST", path, body);
  const Json json = parse_json(response.body).value();
  return str(response.status, " ", at(json, "error.param"), ": ", at(json, "error.message"));
}

TEST(AskedNumbers, log_probabilities_of_answers_are_bounded_by_what_they_may_become) {
  const TestServer server;
  EXPECT_EQ(refusal(server, "/v1/chat/completions",
                    R"({"messages": [{"role": "user", "content": "Hi"}], "n": 128,
                       "max_tokens": 1200, "logprobs": true, "top_logprobs": 20})"),
            "400 top_logprobs: the request asks for 3225600 log-probabilities of answer tokens; "
            "one may ask for 1048576: ask for fewer, or for fewer or shorter answers");
  EXPECT_EQ(refusal(server, "/v1/completions",
                    R"({"prompt": "a", "n": 128, "max_tokens": 1200, "logprobs": 20})")
                .substr(0, 13),
            "400 logprobs:");
  EXPECT_EQ(refusal(server, "/generate",
                    R"({"text": ["a", "b"], "return_logprob": true, "top_logprobs_num": 20,
                       "sampling_params": {"n": 50, "max_new_tokens": 1200}})")
                .substr(0, 21),
            "400 top_logprobs_num:");
  server.chat(R"(, "n": 128, "logprobs": true, "top_logprobs": 20)");  // shorter by themselves
}

TEST(AskedNumbers, answers_that_say_no_length_end_where_their_numbers_do) {
  ApiRequest request;
  const auto longest = [&] { return longest_told_answer(request, 101, 600); };
  EXPECT_EQ(longest(), std::numeric_limits<int>::max());
  request.facts.top_logprobs = 0;
  EXPECT_EQ(longest(), 1 << 20);
  request.facts.top_logprobs = 20;
  EXPECT_EQ(longest(), 49'932);
  request.best_of = 128;
  EXPECT_EQ(longest(), 390);
  request.best_of = 1;
  request.facts.routed_experts = true;
  EXPECT_EQ(longest(), 6'890);  // and 100 rows of the prompt before the last
  request.best_of = 128;
  EXPECT_EQ(longest(), 1);
  request.api = Api::kGenerate;
  EXPECT_EQ(longest(), 390);
  request.facts.top_logprobs = -1;
  EXPECT_EQ(longest(), 1'647);
}

TEST(AskedNumbers, those_of_an_echoed_prompt_begin_a_stream_if_they_are_few) {
  TestServerOptions options;
  options.engine.scheduler.max_step_tokens = 4;
  const TestServer server("Hello world", options);
  const std::string body = R"({"prompt": [5, 6, 7, 8, 9, 10, 11, 12, 13, 14], "echo": true,
      "logprobs": 2, "temperature": 0, "n": 2, "return_token_ids": true)";
  const Json whole = server.post("/v1/completions", body + "}");
  constexpr const char* kLists[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
  std::map<std::string, Json::Array> told[2];
  std::string texts[2];
  for (const std::string& event : server.events("/v1/completions", body + R"(, "stream": true})")) {
    const Json chunk = event == "[DONE]" ? Json() : parse_json(event).value();
    if (!chunk.is_object()) continue;
    const Json& choice = chunk.find("choices")->as_array()[0];
    const auto index = static_cast<std::size_t>(choice.find("index")->as_int());
    texts[index] += at(choice, "text");
    for (const char* list : kLists)
      for (const Json& item : choice.find("logprobs")->find(list)->as_array())
        told[index][list].push_back(item);
  }
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(texts[i], at(whole, str("choices.", i, ".text")));
    for (const char* list : kLists)
      EXPECT_EQ(dump_json(Json(told[i][list])), at(whole, str("choices.", i, ".logprobs.", list)));
  }
  std::string many = "5";
  for (int i = 1; i < 1000; ++i) many += ",5";
  EXPECT_EQ(refusal(server, "/v1/completions",
                    R"({"echo": true, "logprobs": 20, "stream": true, "prompt": [)" + many + "]}"),
            "400 echo: the request asks for 21000 log-probabilities of prompt tokens in a stream; "
            "one may ask for 16384: ask without stream");
}

TEST(AskedNumbers, pieces_that_repeat_them_come_the_more_seldom_the_more_they_are) {
  TestServerOptions options;
  options.executor.script = [](const Request&) { return std::vector<TokenId>(900, 11); };
  const TestServer server("", options);
  std::size_t before = 0, last = 0;
  for (const std::string& event :
       server.events("/generate", R"({"input_ids": [5], "stream": true, "return_logprob": true,
               "top_logprobs_num": 19, "sampling_params": {"max_new_tokens": 900}})")) {
    if (event == "[DONE]") continue;
    before = std::exchange(last, parse_json(event).value().find("output_ids")->as_array().size());
    if (last == 900 || before == 0) continue;
    EXPECT_LE(last * 20, 16384u);
    EXPECT_GE(last - before, last * 20 / 512);
  }
  EXPECT_EQ(last, 900u);
  EXPECT_LE(before * 20, 16384u);
}

TEST(AskedNumbers, routed_experts_are_bounded_by_their_form) {
  TestServerOptions options;
  options.executor.info.num_moe_layers = 3;
  options.executor.info.moe_layers = {0, 1, 2};
  options.executor.info.num_experts = 16;
  options.executor.info.num_experts_per_tok = 8;
  const TestServer server("Hello", options);
  EXPECT_EQ(refusal(server, "/v1/completions",
                    R"({"prompt": [5, 6], "n": 128, "max_tokens": 2000,
                       "return_routed_experts": true})"),
            "400 return_routed_experts: the request asks for 6147072 numbers of routed experts; "
            "one may ask for 4194304: ask for fewer or shorter answers, or ask /generate");
  server.chat(R"(, "n": 128, "return_routed_experts": true)");  // shorter by themselves
  server.post("/generate", R"({"input_ids": [5, 6], "return_routed_experts": true,
                               "sampling_params": {"n": 128, "max_new_tokens": 2000}})");
}

}  // namespace
}  // namespace glint
