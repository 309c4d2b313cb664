#include "bench/load.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/str.h"
#include "net/testing.h"

namespace glint {
namespace {

// Answers as a server of OpenAI's API does, with the tokens 100, 101, ...
class FakeServer {
 public:
  FakeServer() {
    auto server = HttpServer::start({}, [this](const HttpRequest& request, HttpExchange exchange) {
      handle(request, std::move(exchange));
    });
    EXPECT_TRUE(server.ok());
    server_ = std::move(server).value();
  }

  LoadGenerator connect() {
    auto generator =
        LoadGenerator::connect({.server = {.host = "127.0.0.1", .port = server_->port()}}, 64);
    EXPECT_TRUE(generator.ok());
    return std::move(generator).value();
  }

  std::atomic<int> num_streams = 0, steps = 0;
  std::atomic<bool> swaps = false, refuses = false;

 private:
  void handle(const HttpRequest& request, HttpExchange exchange) {
    if (request.path == "/v1/models")
      return exchange.respond({.body = R"({"data":[{"id":"fake"}]})"});
    if (request.path == "/engine") {
      steps += 10;
      return exchange.respond(
          {.body = str(R"({"steps":)", steps, R"(,"step_seconds":)", steps * 0.002,
                       R"(,"overhead_seconds":)", steps * 0.0001, "}")});
    }
    const Json json = parse_json(request.body).value();
    EXPECT_EQ(json.find("model")->as_string(), "fake");
    const auto count = static_cast<int>(json.find("max_tokens")->as_int());
    if (refuses) return exchange.respond({.status = 429, .body = "full"});
    if (!json.find("stream")->as_bool()) return exchange.respond({.body = whole(count)});
    ++num_streams;
    exchange.begin_stream(200, {{"content-type", "text/event-stream"}});
    for (int i = 0; i < count; ++i) {
      const int token = 100 + (swaps && i < 2 ? 1 - i : i);  // the first two the wrong way round
      exchange.write(str(R"(data: {"choices":[{"token_ids":[)", token, R"(],"finish_reason":)",
                         i + 1 == count ? "\"length\"" : "null", "}]}\n\n"));
    }
    exchange.write(str(R"(data: {"choices":[],"usage":{"completion_tokens":)", count,
                       "}}\n\ndata: [DONE]\n\n"));
    exchange.finish();
  }

  static std::string whole(int count) {
    std::string ids;
    for (int i = 0; i < count; ++i) ids += (i ? "," : "") + std::to_string(100 + i);
    return R"({"choices":[{"token_ids":[)" + ids + "]}]}";
  }

  std::unique_ptr<HttpServer> server_;
};

constexpr PromptOptions kShort = {.input_len = 4, .output_len = 6};

TEST(Load, every_request_is_sent_and_its_answer_checked) {
  FakeServer server;
  LoadGenerator generator = server.connect();
  EXPECT_EQ(generator.model(), "fake");
  const LoadResult result =
      generator.run({.prompts = kShort, .concurrency = 5, .num_prompts = 23, .num_checked = 4});
  EXPECT_EQ(server.num_streams, 23);
  EXPECT_EQ(result.summary.num_requests, 23);
  EXPECT_EQ(result.summary.num_failed, 0) << result.summary.first_failure;
  EXPECT_EQ(result.summary.output_tokens, 23 * 6);
  EXPECT_EQ(result.summary.itl_ms.count, 23u * 5);
  EXPECT_EQ(result.num_compared, 4);
  EXPECT_EQ(result.num_different, 0);
  EXPECT_EQ(result.engine.steps, 10);
  EXPECT_NEAR(result.engine.step_ms, 2, 1e-9);
  EXPECT_NEAR(result.engine.overhead_us, 100, 1e-6);
}

TEST(Load, tokens_in_a_wrong_order_are_noticed) {
  FakeServer server;
  server.swaps = true;
  const LoadResult result =
      server.connect().run({.prompts = kShort, .num_prompts = 5, .num_checked = 3});
  EXPECT_EQ(result.num_compared, 3);
  EXPECT_EQ(result.num_different, 3);
}

TEST(Load, refusals_are_failures) {
  FakeServer server;
  LoadGenerator generator = server.connect();
  server.refuses = true;
  const LoadResult result = generator.run({.prompts = kShort, .concurrency = 2, .num_prompts = 6});
  EXPECT_EQ(result.summary.num_failed, 6);
  EXPECT_EQ(result.summary.first_failure, "status 429: \"full\"");
  const LongPromptResult longs = generator.run_long_prompts(
      {.prompts = kShort, .concurrency = 2, .repeat = 2, .pause_seconds = 0});
  EXPECT_EQ(longs.num_failed, 3);  // both streams, and the first long prompt
}

TEST(Load, long_prompts_come_beside_streams_and_split_their_gaps) {
  FakeServer server;
  const LongPromptResult result = server.connect().run_long_prompts(
      {.prompts = kShort, .concurrency = 3, .repeat = 4, .pause_seconds = 0.05});
  EXPECT_EQ(result.num_failed, 0) << result.first_failure;
  EXPECT_EQ(result.prefill_ms.size(), 4u);
  EXPECT_GT(result.plain_ms.count, 0u);
}

TEST(Load, prompts_are_a_function_of_seed_and_index) {
  const PromptOptions options = {.input_len = 50, .num_ids = 90, .seed = 3};
  EXPECT_EQ(random_prompt(options, 7), random_prompt(options, 7));
  EXPECT_NE(random_prompt(options, 7), random_prompt(options, 8));
  for (const std::int64_t id : random_prompt(options, 7)) EXPECT_TRUE(id >= 0 && id < 90);
}

TEST(Load, a_server_that_is_not_there_is_one_sentence) {
  // Nobody listens on port 1.
  const auto none = LoadGenerator::connect({.server = {.host = "127.0.0.1", .port = 1}}, 1);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("cannot reach http://127.0.0.1:1"), std::string::npos);
}

}  // namespace
}  // namespace glint
