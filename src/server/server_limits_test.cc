// Bounds of one request: lists, texts, ids, codings, and who may write profiles.
#include <gtest/gtest.h>

#include "base/test_dir.h"
#include "server/testing.h"

namespace glint {
namespace {

// The error of a request that is refused with `status`.
std::string refusal(const TestServer& server, const std::string& path, const std::string& body,
                    int status = 400) {
  const HttpResponse response = server.send("POST", path, body);
  EXPECT_EQ(response.status, status) << path << " " << body.substr(0, 100) << response.body;
  EXPECT_LT(response.body.size(), 3000u);
  return at(parse_json(response.body).value(), "error.message");
}

std::string list_of(const std::string& item, int count) {
  std::string list = "[";
  for (int i = 0; i < count; ++i) list += (i ? "," : "") + item;
  return list + "]";
}

std::string completion(const std::string& fields) {
  return R"({"prompt": "a", "max_tokens": 2, )" + fields + "}";
}

TEST(ServerLimits, lists_of_a_request_are_bounded) {
  const TestServer server;
  const auto refused = [&](const std::string& fields) {
    return refusal(server, "/v1/completions", completion(fields));
  };
  EXPECT_EQ(refused(R"("stop_token_ids": )" + list_of("5", 1025)),
            "stop_token_ids has 1025 tokens; at most 1024 are allowed");
  EXPECT_EQ(refused(R"("allowed_token_ids": )" + list_of("5", 3713)),
            "allowed_token_ids has 3713 tokens; at most 3712 are allowed");
  EXPECT_EQ(refused(R"("stop": ")" + std::string(16385, 'x') + "\""),
            "stop holds 16385 bytes; at most 16384 are allowed");
  EXPECT_EQ(refused(R"("bad_words": )" + list_of('"' + std::string(1000, 'x') + '"', 66)),
            "bad_words holds 66000 bytes; at most 65536 are allowed");
  server.post("/v1/completions",
              completion(R"("n": 128, "stop_token_ids": )" + list_of("5", 1024)));
}

TEST(ServerLimits, errors_quote_little_of_a_request) {
  const TestServer server;
  const std::string digits(3'000'000, '1');
  refusal(server, "/v1/completions", completion(R"("max_tokens": )" + digits));
  refusal(server, "/v1/completions", completion(R"("logit_bias": {"5": )" + digits + "}"));
  refusal(server, "/v1/completions", completion(R"("model": ")" + digits + "\""), 404);
  refusal(server, "/v1/completions",
          completion(R"("response_format": {"type": ")" + digits + "\"}"));
}

// Each would take seconds to look at.
TEST(ServerLimits, values_and_members_of_bodies_are_bounded) {
  const TestServer server;
  std::string members;
  for (int i = 0; i < 300'000; ++i) members += str(R"("k)", i, "\":0,");
  for (const std::string& body :
       {"{" + members + R"("prompt": "a"})", R"({"prompt": "a", "x": {)" + members + R"("y": 0}})"})
    EXPECT_NE(refusal(server, "/v1/completions", body).find("too many members"), std::string::npos);
  EXPECT_NE(refusal(server, "/v1/completions", completion(R"("x": )" + list_of("0", 4'200'000)))
                .find("too many values"),
            std::string::npos);
}

TEST(ServerLimits, conversations_and_texts_are_bounded) {
  const TestServer server;
  EXPECT_NE(refusal(server, "/v1/chat/completions",
                    R"({"messages": )" + list_of(R"({"role":"user","content":""})", 90'000) + "}")
                .find("a conversation may have 262144"),
            std::string::npos);
  const std::string word(2 << 20, 'a');
  for (const char* path : {"/tokenize", "/v1/completions"})
    refusal(server, path, R"({"prompt": ")" + word + "\"}");
  EXPECT_EQ(
      refusal(server, "/tokenize", R"({"prompt": ")" + std::string(17 << 20, ' ') + "\"}", 413),
      "the request has 17825792 bytes of text; one may have 16777216");
  EXPECT_EQ(refusal(server, "/tokenize", R"({"prompt": )" + list_of("\"\"", 4097) + "}"),
            "prompt has 4097 items; at most 4096 are allowed");
  EXPECT_EQ(refusal(server, "/detokenize", R"({"tokens": )" + list_of("[]", 4097) + "}"),
            "tokens has 4097 items; at most 4096 are allowed");
  EXPECT_EQ(refusal(server, "/v1/completions", R"({"prompt": )" + list_of("\"\"", 129) + "}"),
            "prompt has 129 items; at most 128 are allowed");
  EXPECT_NE(
      refusal(server, "/v1/completions",
              completion(R"("prompt_logprobs": 20, "n": 100, "prompt": )" + list_of("5", 1000)))
          .find("log-probabilities of prompt tokens"),
      std::string::npos);
}

// It is kept while the request waits.
TEST(ServerLimits, what_an_answer_repeats_is_bounded) {
  const TestServer server;
  EXPECT_EQ(
      refusal(server, "/v1/responses",
              R"({"input": "a", "user": "b", "metadata": {"k": ")" + std::string(2 << 20, 'a') +
                  "\"}}"),
      "the answer repeats metadata, with which that is 2097172 bytes of JSON; at most 2097152 "
      "are allowed");
}

TEST(ServerLimits, what_waiting_requests_keep_of_their_bodies_is_bounded_together) {
  TestServerOptions options;
  options.config.http.limits.max_total_body_bytes = 150'000;
  const TestServer server("Hello world", options);
  server.post("/pause_generation", "{}");
  const std::string kept =
      R"({"input": "a", "metadata": {"k": ")" + std::string(100'000, 'a') + "\"}}";
  std::thread client([&] { server.post("/v1/responses", kept); });
  EXPECT_TRUE(eventually([&] { return server->stats().num_waiting > 0; }));
  EXPECT_EQ(server.send("POST", "/v1/responses", kept).status, 503);
  server.post("/continue_generation", "{}");
  client.join();
  const auto is_taken = [&] { return server.send("POST", "/v1/responses", kept).status == 200; };
  EXPECT_TRUE(eventually(is_taken));
}

// They are texts of the body, and values of the conversation.
TEST(ServerLimits, arguments_of_calls_are_bounded_together) {
  const TestServer server;
  const std::string fields =
      R"("name": "f", "arguments": "{\"a\":)" + list_of("0", 150'000) + R"(}")";
  const std::string calls = list_of(R"({"function": {)" + fields + "}}", 2);
  EXPECT_EQ(refusal(server, "/v1/chat/completions",
                    R"({"messages": [{"role": "assistant", "tool_calls": )" + calls + "}]}"),
            "messages[0].tool_calls[1].function.arguments are no JSON object: line 1, column "
            "224292: too many values");
  const std::string items = list_of(R"({"type": "function_call", )" + fields + "}", 2);
  EXPECT_EQ(refusal(server, "/v1/responses", R"({"input": )" + items + "}"),
            "input[1].arguments is no JSON object: line 1, column 224292: too many values");
}

TEST(ServerLimits, ids_of_clients_are_harmless_everywhere) {
  const TestServer server;
  for (const char* id : {"a\\nb", "a b", "\\u001b[31m", "\\u0000"}) {
    refusal(server, "/v1/completions", completion(str(R"("rid": ")", id, "\"")));
    refusal(server, "/generate", str(R"({"text": "a", "rid": ")", id, "\"}"));
  }
  EXPECT_EQ(at(server.post("/generate", R"({"text": "a", "rid": "mine-1"})"), "meta_info.id"),
            "mine-1");
}

TEST(ServerLimits, encoded_bodies_are_told_apart_from_broken_ones) {
  const TestServer server;
  const std::string body = completion(R"("seed": 1)");
  EXPECT_EQ(server.send("POST", "/v1/completions", body, {{"content-encoding", "gzip"}}).status,
            415);
  EXPECT_EQ(server.send("POST", "/v1/completions", body, {{"content-encoding", "identity"}}).status,
            200);
}

TEST(ServerLimits, profiles_go_where_the_server_was_told) {
  const TestServer closed;
  EXPECT_EQ(refusal(closed, "/start_profile", R"({"output_dir": "/tmp/x"})"),
            "profiles have no folder; start the server with --profile-dir DIR");
  TestServerOptions options;
  const TestDir dir;
  options.config.profile_dir = dir.path();
  const TestServer open("a", options);
  EXPECT_NE(refusal(open, "/start_profile", R"({"output_dir": "/home"})").find("leave it out"),
            std::string::npos);
  EXPECT_TRUE(at(open.post("/start_profile", ""), "profile").starts_with(dir.path()));
}

TEST(ServerLimits, names_of_models_are_looked_up) {
  TestServerOptions options;
  options.config.trainers.find_model = [](const std::string& name) -> Result<std::string> {
    return invalid("no model " + name);
  };
  const TestServer server("a", options);
  EXPECT_EQ(refusal(server, "/update_weights_from_disk", R"({"model_path": "a/b"})"),
            "no model a/b");
  EXPECT_EQ(refusal(server, "/update_weights_from_disk",
                    str(R"({"model_path": ")", std::string(100000, 'a'), "\"}")),
            "model_path has 100000 bytes; a path has less than 4096");
}

}  // namespace
}  // namespace glint
