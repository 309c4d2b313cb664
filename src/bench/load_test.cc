#include "bench/load.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "base/str.h"

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

  LoadGenerator connect(bool chat = false) {
    auto generator = try_connect("", chat);
    EXPECT_TRUE(generator.ok());
    return std::move(generator).value();
  }

  Result<LoadGenerator> try_connect(const std::string& model, bool chat = false) {
    return LoadGenerator::connect(
        {.server = "http://127.0.0.1:" + std::to_string(server_->port()),
         .model = model,
         .chat = chat,
         .fields = Json::Object{{"ignore_eos", true}, {"temperature", 0}}},
        64);
  }

  std::atomic<int> num_streams = 0, steps = 0;
  std::atomic<bool> swaps = false, refuses = false, refuses_whole = false, lists = true;
  std::mutex mutex;
  std::vector<std::string> asked;
  std::vector<int> num_messages;

 private:
  void handle(const HttpRequest& request, HttpExchange exchange) {
    if (request.path == "/v1/models" && !lists)
      return exchange.respond({.status = 404, .body = "none"});
    if (request.path == "/v1/models")
      return exchange.respond({.body = R"({"data":[{"id":"fake"}]})"});
    if (request.path == "/engine") {
      steps += 10;
      return exchange.respond(
          {.body = str(R"({"steps":)", steps.load(), R"(,"step_seconds":)", steps * 0.002,
                       R"(,"overhead_seconds":)", steps * 0.0001, "}")});
    }
    const Json json = parse_json(request.body).value();
    EXPECT_EQ(json.find("model")->as_string(), "fake");
    EXPECT_TRUE(json.find("ignore_eos")->as_bool());
    if (request.path == "/v1/chat/completions") return chat(json, std::move(exchange));
    const auto count = static_cast<int>(json.find("max_tokens")->as_int());
    if (refuses) return exchange.respond({.status = 429, .body = "full"});
    if (!json.find("stream")->as_bool())
      return exchange.respond({.status = refuses_whole ? 429 : 200, .body = whole(count)});
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

  // Says how many messages it was asked with, in a chunk for each token.
  void chat(const Json& json, HttpExchange exchange) {
    const auto count = static_cast<int>(json.find("max_completion_tokens")->as_int());
    const Json::Array& messages = json.find("messages")->as_array();
    {
      const std::lock_guard lock(mutex);
      asked.push_back(dump_json(messages.back()));
      num_messages.push_back(static_cast<int>(messages.size()));
    }
    exchange.begin_stream(200, {{"content-type", "text/event-stream"}});
    for (int i = 0; i < count; ++i) {
      exchange.write(str(R"(data: {"choices":[{"delta":{"content":"w"},"finish_reason":)",
                         i + 1 == count ? "\"length\"" : "null", "}]}\n\n"));
    }
    exchange.write(str(R"(data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":)",
                       count, "}}\n\ndata: [DONE]\n\n"));
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

TEST(Load, a_server_that_lists_no_model_is_measured_by_the_name_that_is_given) {
  FakeServer server;
  server.lists = false;
  EXPECT_EQ(server.try_connect("").error().message,
            "the server lists no model: it answers GET /v1/models with 404; name one with --model");
  LoadGenerator generator = server.try_connect("fake").value();
  const LoadResult result = generator.run({.prompts = kShort, .concurrency = 1, .num_prompts = 2});
  EXPECT_EQ(result.summary.num_failed, 0) << result.summary.first_failure;
}

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

TEST(Load, progress_is_told_while_no_answer_comes) {
  FakeServer server;
  int num_answers = 0, num_looks = 0;
  server.connect().run({.prompts = kShort,
                        .num_prompts = 4,
                        .arrivals = {.rate = 20},
                        .num_checked = 0,
                        .on_answers = [&](int count) {
                          num_answers += count;
                          num_looks += count == 0 ? 1 : 0;
                        }});
  EXPECT_EQ(num_answers, 4);
  EXPECT_GT(num_looks, 0);
}

TEST(Load, tokens_in_a_wrong_order_are_noticed) {
  FakeServer server;
  server.swaps = true;
  const LoadResult result =
      server.connect().run({.prompts = kShort, .num_prompts = 5, .num_checked = 3});
  EXPECT_EQ(result.num_compared, 3);
  EXPECT_EQ(result.num_different, 3);
  server.refuses_whole = true;  // nothing to compare with
  EXPECT_EQ(server.connect().run({.prompts = kShort, .num_prompts = 5}).num_compared, 0);
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
  const PromptOptions shorter = {.input_len = 4, .output_len = 2};
  EXPECT_EQ(server.connect().run_long_prompts({.prompts = shorter, .repeat = 1}).num_failed, 0);
}

TEST(Load, in_an_open_loop_requests_come_at_their_times) {
  FakeServer server;
  const Arrivals arrivals = {.rate = 200, .burstiness = 2, .seed = 5};
  const LoadResult result = server.connect().run(
      {.prompts = kShort, .concurrency = 0, .num_prompts = 40, .arrivals = arrivals});
  EXPECT_EQ(result.summary.num_failed, 0) << result.summary.first_failure;
  const std::vector<double> times = arrival_times(arrivals, 40);
  ASSERT_EQ(result.records.size(), 40u);
  for (std::size_t i = 1; i < times.size(); ++i)
    EXPECT_LE(result.records[i - 1].start, result.records[i].start);
  // Never early: the last comes at 40 / 200 s.
  EXPECT_GE(result.summary.seconds, 0.2);
  EXPECT_GT(result.lag_ms.count, 0u);
}

TEST(Load, conversations_go_on_with_the_answers_before) {
  FakeServer server;
  const Conversation talk = {{"one", 2}, {"two", 3}, {"three", 1}};
  const LoadResult result =
      server.connect(true).run({.conversations = {talk, talk}, .concurrency = 1, .num_prompts = 2});
  EXPECT_EQ(result.summary.num_failed, 0) << result.summary.first_failure;
  EXPECT_EQ(result.summary.num_requests, 6);
  EXPECT_EQ(result.summary.output_tokens, 12);
  EXPECT_EQ(result.summary.input_tokens, 6 * 9);
  EXPECT_EQ(server.num_messages, (std::vector<int>{1, 3, 5, 1, 3, 5}));
  EXPECT_EQ(server.asked[1], R"({"role":"user","content":"two"})");
  EXPECT_EQ(result.records[1].text, "www");
}

TEST(Load, warm_ups_are_sent_and_not_counted) {
  FakeServer server;
  const LoadResult result = server.connect().run(
      {.prompts = kShort, .concurrency = 2, .num_prompts = 6, .num_warmups = 3, .num_checked = 0});
  EXPECT_EQ(server.num_streams, 9);
  EXPECT_EQ(result.summary.num_requests, 6);
}

TEST(Load, warm_ups_of_conversations_are_not_those_that_are_measured) {
  FakeServer server;
  const LoadResult result =
      server.connect(true).run({.conversations = {{{"one", 1}}, {{"two", 1}}, {{"warm", 1}}},
                                .num_prompts = 2,
                                .num_warmups = 1});
  EXPECT_EQ(result.summary.num_requests, 2);
  EXPECT_EQ(server.asked, (std::vector<std::string>{R"({"role":"user","content":"warm"})",
                                                    R"({"role":"user","content":"one"})",
                                                    R"({"role":"user","content":"two"})"}));
}

TEST(Load, a_server_that_is_not_there_is_one_sentence) {
  // Nobody listens on port 1.
  const auto none = LoadGenerator::connect({.server = "http://127.0.0.1:1"}, 1);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("cannot reach http://127.0.0.1:1"), std::string::npos);
}

}  // namespace
}  // namespace glint
