// The server over real sockets, with an engine whose executor plays scripts of tokens.
#include "server/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/queue.h"
#include "base/random.h"
#include "base/str.h"
#include "engine/fake_executor.h"
#include "net/http_client.h"
#include "net/sse_reader.h"

namespace glint {
namespace {

const std::string kModel = GLINT_SOURCE_DIR "/models/glm5-tiny";
constexpr TokenId kEndOfText = 3655;

struct Options {
  ServerConfig config = {
      .served_names = {"tiny", "models/tiny"}, .max_model_len = 2048, .version = "1.2.3"};
  SchedulerConfig scheduler = {};
  FakeExecutorOptions executor = {.info = {.vocab_size = 3712,
                                           .max_seq_len = 4096,
                                           .num_moe_layers = 2,
                                           .num_experts = 4,
                                           .num_experts_per_tok = 2,
                                           .moe_layers = {1, 2}},
                                  .num_pages = 256,
                                  .check_rows = false};
  bool open = true;
};

class Fixture {
 public:
  explicit Fixture(std::string answer = "Hello world", Options options = {})
      : tokenizer_(Tokenizer::open(kModel).value()), answer_(std::move(answer)) {
    if (!options.executor.script)
      options.executor.script = [this](const Request&) {
        return tokenizer_.encode(answer_.load()).value();
      };
    const int pages = options.executor.num_pages;
    executor_ = std::make_unique<FakeExecutor>(options.executor);
    server = Server::listen(options.config).value();
    if (options.open) open(options.scheduler, pages);
  }

  void open(const SchedulerConfig& scheduler, int pages) {
    ServedModel model = {.tokenizer = tokenizer_,
                         .chat_template = ChatTemplate::open(kModel).value(),
                         .stop_ids = {kEndOfText, 3662, 3664},
                         .executor = executor_.get(),
                         .engine = {.scheduler = scheduler, .cache = {.num_pages = pages}}};
    const Status status = server->open(std::move(model));
    ASSERT_TRUE(status.ok()) << status.error().message;
  }

  void set_answer(std::string text) { answer_.store(std::move(text)); }
  FakeExecutor& executor() { return *executor_; }

  HttpClient client() const {
    return HttpClient({.host = "127.0.0.1", .port = server->port()}, {.read_seconds = 30});
  }
  HttpResponse send(const std::string& method, const std::string& path, std::string body = {},
                    HttpHeaders headers = {}) const {
    if (method == "POST") headers.emplace_back("content-type", "application/json");
    HttpClient c = client();
    return c.send(method, path, std::move(headers), std::move(body)).value();
  }
  HttpResponse get(const std::string& path) const { return send("GET", path); }
  // A POST that must succeed.
  Json post(const std::string& path, const std::string& body) const {
    const HttpResponse response = send("POST", path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return parse_json(response.body).value();
  }
  Json chat(const std::string& fields) const {
    return post("/v1/chat/completions",
                R"({"messages": [{"role": "user", "content": "Hi"}])" + fields + "}");
  }
  // The data of the events, in order; "NAME: DATA" where they have names.
  std::vector<std::string> events(const std::string& path, const std::string& body) const {
    std::vector<std::string> all;
    SseReader reader([&](std::string_view name, std::string_view data) {
      const bool named = !name.empty() && name != "message";
      all.push_back((named ? std::string(name) + ": " : "") + std::string(data));
      return true;
    });
    HttpClient c = client();
    const auto response = c.send("POST", path, {{"content-type", "application/json"}}, body,
                                 [&](std::string_view piece) { return reader.feed(piece); });
    EXPECT_TRUE(response.ok()) << response.error().message;
    EXPECT_EQ(response.value().status, 200);
    return all;
  }

  Tokenizer tokenizer_;

 private:
  Guarded<std::string> answer_;
  std::unique_ptr<FakeExecutor> executor_;

 public:
  std::unique_ptr<Server> server;  // last: it uses the executor
};

// "a.b.0.c" of a JSON value, dumped; "" if there is none.
std::string at(const Json& json, std::string_view path) {
  const Json* found = &json;
  for (const std::string_view part : split(path, '.')) {
    if (found->is_array()) {
      const auto index = static_cast<std::size_t>(std::stoi(std::string(part)));
      if (index >= found->as_array().size()) return "";
      found = &found->as_array()[index];
    } else {
      found = found->find(part);
    }
    if (!found) return "";
  }
  return found->is_string() ? found->as_string() : dump_json(*found);
}

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(Server, completes_a_text) {
  Fixture f(" world");
  const Json out = f.post("/v1/completions", R"({"model": "tiny", "prompt": "Hello"})");
  EXPECT_EQ(at(out, "object"), "text_completion");
  EXPECT_EQ(at(out, "model"), "tiny");
  EXPECT_EQ(at(out, "choices.0.text"), " world");
  EXPECT_EQ(at(out, "choices.0.finish_reason"), "stop");
  const int answer = static_cast<int>(f.tokenizer_.encode(" world").value().size()) + 1;
  EXPECT_EQ(at(out, "usage.completion_tokens"), str(answer));
  EXPECT_EQ(at(out, "usage.total_tokens"), str(answer + std::stoi(at(out, "usage.prompt_tokens"))));
}

TEST(Server, chat_separates_thoughts_from_the_answer) {
  Fixture f("Let me think.</think>It is 4.");
  const Json out = f.chat("");
  EXPECT_EQ(at(out, "choices.0.message.content"), "It is 4.");
  EXPECT_EQ(at(out, "choices.0.message.reasoning_content"), "Let me think.");
  EXPECT_EQ(at(out, "choices.0.message.reasoning"), "Let me think.");
  EXPECT_GT(std::stoi(at(out, "usage.completion_tokens_details.reasoning_tokens")), 0);
  f.set_answer("It is 4.");
  const Json off = f.chat(R"(, "chat_template_kwargs": {"enable_thinking": false})");
  EXPECT_EQ(at(off, "choices.0.message.content"), "It is 4.");
  EXPECT_EQ(at(off, "choices.0.message.reasoning_content"), "");
}

TEST(Server, a_streamed_chat_is_the_whole_one_in_pieces) {
  Fixture f("Hm, so.</think>One two three \xe2\x82\xac four.");
  const std::string body =
      R"({"messages": [{"role": "user", "content": "Hi"}], "stream": true,
          "stream_options": {"include_usage": true}})";
  const std::vector<std::string> events = f.events("/v1/chat/completions", body);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.back(), "[DONE]");
  std::string reasoning, content;
  int with_role = 0;
  std::set<std::string> ids;
  for (std::size_t i = 0; i + 2 < events.size(); ++i) {
    const Json chunk = parse_json(events[i]).value();
    EXPECT_EQ(at(chunk, "object"), "chat.completion.chunk");
    ids.insert(at(chunk, "id"));
    const bool role = !at(chunk, "choices.0.delta.role").empty();
    with_role += role;
    // No chunk with a role alone: it would look like the first token.
    EXPECT_EQ(role, i == 0);
    EXPECT_EQ(chunk.find("usage"), nullptr);
    reasoning += at(chunk, "choices.0.delta.reasoning_content");
    content += at(chunk, "choices.0.delta.content");
    EXPECT_EQ(at(chunk, "choices.0.finish_reason"), i + 3 == events.size() ? "stop" : "null");
  }
  EXPECT_EQ(with_role, 1);
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(reasoning, "Hm, so.");
  EXPECT_EQ(content, "One two three \xe2\x82\xac four.");
  const Json last = parse_json(events[events.size() - 2]).value();
  EXPECT_EQ(at(last, "choices"), "[]");
  EXPECT_GT(std::stoi(at(last, "usage.completion_tokens")), 5);
}

TEST(Server, stream_interval_makes_fewer_chunks_of_the_same_text) {
  Fixture f("a b c d e f g h i j k l m n o p");
  const auto run = [&](int interval) {
    return f.events("/v1/completions",
                    str(R"({"prompt": "x", "max_tokens": 99, "stream": true, "stream_interval": )",
                        interval, "}"));
  };
  const auto text = [](const std::vector<std::string>& events) {
    std::string all;
    for (std::size_t i = 0; i + 1 < events.size(); ++i)
      all += at(parse_json(events[i]).value(), "choices.0.text");
    return all;
  };
  const std::vector<std::string> each = run(1), few = run(8);
  EXPECT_EQ(text(each), "a b c d e f g h i j k l m n o p");
  EXPECT_EQ(text(few), text(each));
  EXPECT_GT(each.size(), 2 * few.size());
}

constexpr const char* kTools =
    R"(, "tools": [{"type": "function", "function": {"name": "get_weather", "parameters":
        {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}])";
constexpr const char* kCall =
    "Check.</think>Let me see.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris"
    "</arg_value><arg_key>days</arg_key><arg_value>2</arg_value></tool_call>";

TEST(Server, tool_calls_arrive_whole_and_streamed) {
  Fixture f(kCall);
  const Json out = f.chat(kTools);
  EXPECT_EQ(at(out, "choices.0.finish_reason"), "tool_calls");
  EXPECT_EQ(at(out, "choices.0.message.content"), "Let me see.");
  EXPECT_EQ(at(out, "choices.0.message.tool_calls.0.function.name"), "get_weather");
  const std::string arguments = at(out, "choices.0.message.tool_calls.0.function.arguments");
  EXPECT_EQ(parse_json(arguments).value(), parse_json(R"({"city": "Paris", "days": 2})").value());

  std::string streamed, name, id;
  const auto events = f.events(
      "/v1/chat/completions",
      str(R"({"messages": [{"role": "user", "content": "Hi"}], "stream": true)", kTools, "}"));
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const Json chunk = parse_json(events[i]).value();
    name += at(chunk, "choices.0.delta.tool_calls.0.function.name");
    id += at(chunk, "choices.0.delta.tool_calls.0.id");
    streamed += at(chunk, "choices.0.delta.tool_calls.0.function.arguments");
  }
  EXPECT_EQ(name, "get_weather");
  EXPECT_EQ(streamed, arguments);
  EXPECT_TRUE(id.starts_with("call_")) << id;
}

TEST(Server, messages_stream_in_anthropics_order) {
  Fixture f(kCall);
  const std::string body = R"({"model": "tiny", "max_tokens": 99, "stream": true,
      "thinking": {"type": "enabled", "budget_tokens": 1024},
      "messages": [{"role": "user", "content": "Hi"}],
      "tools": [{"name": "get_weather", "input_schema": {"type": "object", "properties":
        {"city": {"type": "string"}, "days": {"type": "integer"}}}}]})";
  std::vector<std::string> names;
  std::string thinking, text, json;
  for (const std::string& event : f.events("/v1/messages", body)) {
    const std::string name = event.substr(0, event.find(':'));
    const Json data = parse_json(event.substr(name.size() + 2)).value();
    EXPECT_EQ(at(data, "type"), name);
    if (names.empty() || name != names.back() || name != "content_block_delta")
      names.push_back(name);
    thinking += at(data, "delta.thinking");
    text += at(data, "delta.text");
    json += at(data, "delta.partial_json");
    if (name == "message_delta") {
      EXPECT_EQ(at(data, "delta.stop_reason"), "tool_use");
      EXPECT_GT(std::stoi(at(data, "usage.output_tokens")), 3);
    }
  }
  const std::string start = "content_block_start", delta = "content_block_delta",
                    stop = "content_block_stop";
  EXPECT_EQ(names,
            (std::vector<std::string>{"message_start", start, "ping", delta, stop, start, delta,
                                      stop, start, delta, stop, "message_delta", "message_stop"}));
  EXPECT_EQ(thinking, "Check.");
  EXPECT_EQ(text, "Let me see.");
  EXPECT_EQ(parse_json(json).value(), parse_json(R"({"city": "Paris", "days": 2})").value());
}

TEST(Server, messages_whole) {
  Fixture f("Fine.");
  const Json out = f.post(
      "/v1/messages",
      R"({"model": "tiny", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(at(out, "content"), R"([{"type":"text","text":"Fine."}])");
  EXPECT_EQ(at(out, "stop_reason"), "end_turn");
  EXPECT_EQ(at(out, "role"), "assistant");
  const Json count =
      f.post("/v1/messages/count_tokens",
             R"({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(at(count, "input_tokens"), at(out, "usage.input_tokens"));
}

TEST(Server, responses_stream_ends_with_what_the_whole_one_says) {
  Fixture f(kCall);
  const std::string fields = R"("input": "Hi", "tools": [{"type": "function", "name": "get_weather",
      "parameters": {"type": "object", "properties": {"city": {"type": "string"},
      "days": {"type": "integer"}}}}])";
  const Json whole = f.post("/v1/responses", "{" + fields + "}");
  EXPECT_EQ(at(whole, "status"), "completed");
  EXPECT_EQ(at(whole, "output.0.type"), "reasoning");
  EXPECT_EQ(at(whole, "output.1.content.0.text"), "Let me see.");
  EXPECT_EQ(at(whole, "output.2.name"), "get_weather");
  std::int64_t sequence = 0;
  Json completed;
  std::string text;
  for (const std::string& event :
       f.events("/v1/responses", "{" + fields + R"(, "stream": true})")) {
    const Json data = parse_json(event.substr(event.find(": ") + 2)).value();
    EXPECT_EQ(at(data, "sequence_number"), str(sequence++));
    if (at(data, "type") == "response.output_text.delta") text += at(data, "delta");
    if (at(data, "type") == "response.completed") completed = *data.find("response");
  }
  EXPECT_EQ(text, "Let me see.");
  ASSERT_TRUE(completed.is_object());
  for (const char* path : {"output.0.content", "output.1.content", "output.2.arguments"})
    EXPECT_EQ(at(completed, path), at(whole, path)) << path;
}

TEST(Server, stop_strings_end_the_answer_where_they_begin) {
  Fixture f("one two three four five six seven eight nine ten");
  const Json out =
      f.post("/v1/completions", R"({"prompt": "x", "max_tokens": 99, "stop": ["e fo"]})");
  EXPECT_EQ(at(out, "choices.0.text"), "one two thre");
  EXPECT_EQ(at(out, "choices.0.finish_reason"), "stop");
  EXPECT_EQ(at(out, "choices.0.stop_reason"), "e fo");
  const Json kept = f.post(
      "/v1/completions",
      R"({"prompt": "x", "max_tokens": 99, "stop": "e fo", "include_stop_str_in_output": true})");
  EXPECT_EQ(at(kept, "choices.0.text"), "one two three fo");
}

TEST(Server, max_tokens_cut_with_length) {
  Fixture f("one two three four five six seven eight nine ten");
  const Json out = f.post("/v1/completions", R"({"prompt": "x", "max_tokens": 2})");
  EXPECT_EQ(at(out, "choices.0.finish_reason"), "length");
  EXPECT_EQ(at(out, "usage.completion_tokens"), "2");
}

TEST(Server, many_prompts_and_choices_keep_their_indices) {
  Options options;
  options.executor.script = [](const Request& request) {
    return std::vector<TokenId>{request.prompt[0] + 100};
  };
  Fixture f("", options);
  const Json out =
      f.post("/v1/completions", R"({"prompt": [[1, 2], [3]], "n": 2, "return_token_ids": true})");
  ASSERT_EQ(out.find("choices")->as_array().size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(at(out, str("choices.", i, ".index")), str(i));
    EXPECT_EQ(at(out, str("choices.", i, ".token_ids.0")), i < 2 ? "101" : "103");
  }
  EXPECT_EQ(at(out, "usage.prompt_tokens"), "3");
  EXPECT_EQ(at(out, "choices.2.prompt_token_ids"), "[3]");
}

TEST(Server, echo_puts_the_prompt_first_and_can_be_all) {
  Fixture f(" world");
  EXPECT_EQ(at(f.post("/v1/completions", R"({"prompt": "Hello", "echo": true})"), "choices.0.text"),
            "Hello world");
  const Json all =
      f.post("/v1/completions", R"({"prompt": "Hello", "echo": true, "max_tokens": 0})");
  EXPECT_EQ(at(all, "choices.0.text"), "Hello");
}

TEST(Server, generate_speaks_tokens) {
  Options options;
  options.executor.script = [](const Request&) { return std::vector<TokenId>{11, 12, 13}; };
  Fixture f("", options);
  const Json out = f.post("/generate", R"({"input_ids": [5, 6],
      "sampling_params": {"max_new_tokens": 2, "temperature": 0}})");
  EXPECT_EQ(at(out, "output_ids"), "[11,12]");
  EXPECT_EQ(at(out, "meta_info.finish_reason"), R"({"type":"length","length":2})");
  EXPECT_EQ(at(out, "meta_info.prompt_tokens"), "2");
  const Json batch = f.post("/generate", R"({"input_ids": [[5], [6]],
      "sampling_params": {"max_new_tokens": 9}})");
  ASSERT_EQ(batch.as_array().size(), 2u);
  EXPECT_EQ(at(batch, "1.output_ids.0"), "11");
  EXPECT_EQ(at(batch, "1.meta_info.finish_reason.type"), "stop");
  const auto events =
      f.events("/generate", R"({"input_ids": [5], "stream": true, "sampling_params": {}})");
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(at(parse_json(events[events.size() - 2]).value(), "output_ids").substr(0, 9),
            "[11,12,13");
}

TEST(Server, tokens_and_templates_without_the_engine) {
  Fixture f;
  const Json tokens =
      f.post("/tokenize", R"({"prompt": "Hello world", "return_token_strs": true})");
  EXPECT_EQ(at(tokens, "max_model_len"), "2048");
  EXPECT_EQ(at(tokens, "count"), str(tokens.find("tokens")->as_array().size()));
  const Json text = f.post("/detokenize", R"({"tokens": )" + at(tokens, "tokens") + "}");
  EXPECT_EQ(at(text, "prompt"), "Hello world");
  const std::string messages = R"({"messages": [{"role": "user", "content": "Hi"}]})";
  EXPECT_EQ(at(f.post("/apply-template", messages), "prompt"),
            "[gMASK]<sop><|user|>Hi<|assistant|><think>");
  const Json chat = f.post("/v1/tokenize", messages);
  EXPECT_EQ(at(chat, "tokens"), dump_json(Json::Array([&] {
              const auto ids =
                  f.tokenizer_.encode("[gMASK]<sop><|user|>Hi<|assistant|><think>").value();
              return Json::Array(ids.begin(), ids.end());
            }())));
}

TEST(Server, tells_what_it_is) {
  Fixture f;
  EXPECT_EQ(f.get("/health").status, 200);
  EXPECT_EQ(f.get("/ready").status, 200);
  EXPECT_EQ(f.get("/ping").status, 200);
  EXPECT_EQ(f.get("/version").body, R"({"version":"1.2.3"})");
  const Json models = parse_json(f.get("/v1/models").body).value();
  EXPECT_EQ(at(models, "data.0.id"), "tiny");
  EXPECT_EQ(f.get("/v1/models/models/tiny").status, 200);
  EXPECT_EQ(f.get("/v1/models/other").status, 404);
  EXPECT_EQ(f.get("/server_info").status, 200);
  EXPECT_EQ(f.get("/get_server_info").status, 200);
  EXPECT_EQ(f.get("/model_info").status, 200);
  const Json engine = parse_json(f.get("/engine").body).value();
  EXPECT_EQ(at(engine, "running"), "0");
  EXPECT_EQ(f.get("/health_generate").status, 200);
}

TEST(Server, refusals_have_their_status_and_body) {
  Options options;
  options.config.http.limits.max_body_bytes = 20000;
  Fixture f("x", options);
  struct Case {
    int status;
    const char *method, *path, *body, *part;
  };
  const Case cases[] = {
      {400, "POST", "/v1/completions", "{", "the body is no JSON"},
      {400, "POST", "/v1/completions", "{}", "prompt is missing"},
      {400, "POST", "/v1/completions", "", "the body is no JSON"},
      {404, "POST", "/v1/completions", R"({"model": "gpt", "prompt": "x"})", "model_not_found"},
      {404, "GET", "/nothing", "", "there is nothing at"},
      {404, "POST", "/v1/messages/batches", "",
       R"({"type":"error","error":{"type":"not_found_error")"},
      {405, "GET", "/v1/completions", "", "takes POST only"},
      {400, "POST", "/v1/messages", "{}", R"("type":"invalid_request_error")"},
      {400, "POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 5000})",
       "This model's maximum context length is 2048 tokens."}};
  for (const Case& c : cases) {
    const HttpResponse response = f.send(c.method, c.path, c.body);
    EXPECT_EQ(response.status, c.status) << response.body;
    EXPECT_NE(response.body.find(c.part), std::string::npos) << response.body;
  }
  const HttpResponse large = f.send("POST", "/v1/completions", std::string(30000, ' '));
  EXPECT_EQ(large.status, 413);
  EXPECT_NE(large.body.find("\"error\""), std::string::npos) << large.body;
  HttpClient client = f.client();
  const auto xml = client.send("POST", "/v1/completions", {{"content-type", "text/xml"}}, "<a/>");
  EXPECT_EQ(xml.value().status, 415);
}

TEST(Server, prompts_that_cannot_fit_are_refused_unencoded) {
  Fixture f;
  const HttpResponse response =
      f.send("POST", "/v1/completions", R"({"prompt": ")" + std::string(1 << 20, 'a') + "\"}");
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("maximum context length is 2048"), std::string::npos);
}

std::string header(const HttpResponse& response, std::string_view name) {
  for (const auto& [key, value] : response.headers)
    if (key == name) return value;
  return "";
}

TEST(Server, starts_with_503_and_a_state) {
  Options options;
  options.open = false;
  Fixture f("x", options);
  for (const char* path : {"/health", "/v1/models/tiny"}) {
    const HttpResponse response = f.get(path);
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(header(response, "retry-after"), "5");
    EXPECT_EQ(header(response, "x-glint-state"), "starting");
  }
  EXPECT_EQ(f.send("POST", "/v1/completions", "{}").status, 503);
  EXPECT_EQ(f.get("/version").status, 200);
  f.open({}, 64);
  EXPECT_EQ(f.get("/health").status, 200);
}

TEST(Server, keys_guard_all_but_health) {
  Options options;
  options.config.api_keys = {"k1", "k2"};
  Fixture f("x", options);
  EXPECT_EQ(f.get("/health").status, 200);
  EXPECT_EQ(f.get("/v1/models").status, 401);
  EXPECT_EQ(f.send("GET", "/v1/models", "", {{"authorization", "Bearer k2"}}).status, 200);
  EXPECT_EQ(f.send("POST", "/v1/completions", R"({"prompt": "x"})", {{"x-api-key", "k1"}}).status,
            200);
  EXPECT_EQ(f.send("POST", "/flush_cache", "", {{"x-api-key", "k3"}}).status, 401);
}

TEST(Server, ids_and_traces_are_handed_on) {
  Fixture f;
  const HttpResponse response =
      f.send("GET", "/version", "",
             {{"x-request-id", "mine"},
              {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}});
  EXPECT_EQ(header(response, "x-request-id"), "mine");
  EXPECT_TRUE(header(response, "traceparent").starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
  EXPECT_TRUE(header(f.get("/version"), "x-request-id").starts_with("req_"));
}

TEST(Server, browsers_of_other_origins_are_answered) {
  Fixture f;
  const HttpResponse preflight = f.send("OPTIONS", "/v1/chat/completions", "",
                                        {{"origin", "https://app.example"},
                                         {"access-control-request-method", "POST"},
                                         {"access-control-request-headers", "authorization"}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(header(preflight, "access-control-allow-origin"), "*");
  EXPECT_EQ(header(preflight, "access-control-allow-methods"), "POST");
  EXPECT_EQ(f.send("POST", "/flush_cache", "", {{"origin", "https://evil.example"}}).status, 403);
  EXPECT_EQ(f.send("POST", "/flush_cache", "").status, 200);
}

// An executor that takes 20 ms a step, and answers that never end by themselves.
Options slow_options() {
  Options options;
  options.executor.script = [](const Request&) { return std::vector<TokenId>(1500, 11); };
  options.executor.step_seconds = 0.02;
  options.executor.sleep = true;
  return options;
}

TEST(Server, a_client_that_vanishes_frees_its_place) {
  Fixture f("", slow_options());
  for (const bool stream : {true, false}) {
    std::thread client([&] {
      HttpClient c({.host = "127.0.0.1", .port = f.server->port()}, {.read_seconds = 0.3});
      int pieces = 0;
      (void)c.send(
          "POST", "/v1/completions", {{"content-type", "application/json"}},
          str(R"({"prompt": "x", "max_tokens": 1500, "stream": )", stream ? "true" : "false", "}"),
          [&](std::string_view) { return ++pieces < 3; });
    });
    EXPECT_TRUE(eventually([&] { return f.server->stats().num_running == 1; }));
    client.join();
    EXPECT_TRUE(eventually([&] { return f.server->stats().num_running == 0; }));
    EXPECT_TRUE(eventually([&] { return f.server->stats().used_pages == 0; }));
  }
}

TEST(Server, a_vanished_client_is_noticed_in_prefill) {
  Options options = slow_options();
  options.scheduler.max_step_tokens = 16;
  options.executor.step_seconds = 0.05;
  Fixture f("", options);
  std::thread client([&] {
    HttpClient c({.host = "127.0.0.1", .port = f.server->port()}, {.read_seconds = 0.3});
    std::string ids = "[1";
    for (int i = 0; i < 1900; ++i) ids += ",1";
    (void)c.send("POST", "/v1/completions", {{"content-type", "application/json"}},
                 R"({"max_tokens": 5, "prompt": )" + ids + "]}");
  });
  client.join();
  EXPECT_TRUE(eventually([&] { return f.server->stats().num_running == 0; }));
  EXPECT_EQ(f.server->stats().generated_tokens, 0u);
}

TEST(Server, requests_can_be_aborted_by_name) {
  Fixture f("", slow_options());
  std::thread client([&] {
    const Json out =
        f.post("/v1/completions", R"({"prompt": "x", "max_tokens": 1500, "rid": "me"})");
    EXPECT_EQ(at(out, "choices.0.finish_reason"), "abort");
  });
  EXPECT_TRUE(eventually([&] { return f.server->stats().num_running == 1; }));
  EXPECT_EQ(at(f.post("/abort_request", R"({"rid": "other"})"), "aborted"), "0");
  EXPECT_EQ(at(f.post("/abort_request", R"({"rid": "me"})"), "aborted"), "1");
  client.join();
}

TEST(Server, a_full_queue_is_429_with_retry_after) {
  Options options = slow_options();
  options.scheduler.max_running = 1;
  options.scheduler.max_waiting = 1;
  Fixture f("", options);
  std::vector<std::thread> clients;
  std::atomic<int> refused = 0, served = 0;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      const HttpResponse r =
          f.send("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 20})");
      if (r.status == 429) {
        EXPECT_NE(header(r, "retry-after"), "");
        ++refused;
      } else {
        EXPECT_EQ(r.status, 200) << r.body;
        ++served;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_GE(refused, 1);
  EXPECT_GE(served, 1);
  EXPECT_EQ(f.get("/health").status, 200);
}

TEST(Server, drains_what_runs_and_refuses_what_comes) {
  Fixture f("", slow_options());
  std::thread client([&] {
    const Json out = f.post("/v1/completions", R"({"prompt": "x", "max_tokens": 30})");
    EXPECT_EQ(at(out, "choices.0.finish_reason"), "length");
  });
  EXPECT_TRUE(eventually([&] { return f.server->stats().num_running == 1; }));
  std::thread drainer([&] { EXPECT_EQ(f.server->drain(30), 0); });
  EXPECT_TRUE(eventually([&] { return f.get("/health").status == 503; }));
  const HttpResponse refused = f.send("POST", "/v1/completions", R"({"prompt": "x"})");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(header(refused, "x-glint-state"), "draining");
  EXPECT_NE(header(refused, "retry-after"), "");
  client.join();
  drainer.join();
}

TEST(Server, a_drain_cancels_what_takes_longer) {
  Fixture f("", slow_options());
  std::thread client([&] {
    const Json out = f.post("/v1/completions", R"({"prompt": "x", "max_tokens": 1500})");
    EXPECT_EQ(at(out, "choices.0.finish_reason"), "abort");
  });
  EXPECT_TRUE(eventually([&] { return f.server->stats().num_running == 1; }));
  EXPECT_EQ(f.server->drain(0.1), 1);
  client.join();
}

TEST(Server, a_failing_request_is_told_and_the_others_go_on) {
  Options options;
  options.executor.fails = [](RequestId, int position) { return position > 20; };
  Fixture f(" a b c d", options);
  const HttpResponse failed =
      f.send("POST", "/v1/completions",
             R"({"prompt": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], "max_tokens": 9})");
  EXPECT_EQ(failed.status, 500) << failed.body;
  EXPECT_NE(failed.body.find("engine_error"), std::string::npos);
  EXPECT_EQ(at(f.post("/v1/completions", R"({"prompt": "x"})"), "choices.0.text"), " a b c d");
}

TEST(Server, generation_can_pause) {
  Fixture f("x");
  EXPECT_EQ(f.send("POST", "/pause_generation", "").status, 200);
  std::thread client([&] { f.post("/v1/completions", R"({"prompt": "x"})"); });
  EXPECT_TRUE(eventually([&] { return f.server->stats().num_waiting == 1; }));
  EXPECT_EQ(at(parse_json(f.get("/engine").body).value(), "paused"), "true");
  EXPECT_EQ(f.send("POST", "/continue_generation", "").status, 200);
  client.join();
}

TEST(Server, metrics_count_what_happened) {
  Fixture f(" world");
  f.post("/v1/completions", R"({"prompt": "Hello"})");
  f.get("/nothing");
  // The engine's own numbers are of its last look at itself.
  EXPECT_TRUE(eventually([&] { return f.server->stats().num_running == 0; }));
  const HttpResponse page = f.get("/metrics");
  EXPECT_TRUE(header(page, "content-type").starts_with("text/plain; version=0.0.4"));
  for (const char* line :
       {"vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 0",
        "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"tiny\"} 1",
        "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"tiny\"} 1",
        "vllm:e2e_request_latency_seconds_bucket{engine=\"0\",model_name=\"tiny\",le=\"7680\"} 1",
        "route=\"unknown\",status=\"404\"} 1"})
    EXPECT_NE(page.body.find(line), std::string::npos) << line << "\n" << page.body;
}

TEST(Server, timings_come_on_request) {
  Fixture f(" world");
  const std::string body = R"({"prompt": "Hello"})";
  EXPECT_EQ(f.post("/v1/completions", body).find("timings"), nullptr);
  const HttpResponse r = f.send("POST", "/v1/completions", body, {{"x-return-timings", "1"}});
  const Json out = parse_json(r.body).value();
  EXPECT_NE(at(out, "timings.predicted_n"), "");
  EXPECT_EQ(at(out, "timings.predicted_n"), at(out, "usage.completion_tokens"));
}

TEST(Server, a_reader_that_takes_nothing_does_not_hold_the_others) {
  Options options;
  options.executor.script = [](const Request&) { return std::vector<TokenId>(2000, 11); };
  options.config.http.limits.max_stream_buffer = 20000;
  options.config.http.limits.write_seconds = 1;
  Fixture f("", options);
  Queue<int> release;
  std::thread slow([&] {
    HttpClient c({.host = "127.0.0.1", .port = f.server->port()}, {.read_seconds = 30});
    bool waited = false;
    (void)c.send("POST", "/v1/completions", {{"content-type", "application/json"}},
                 R"({"prompt": "x", "max_tokens": 2000, "n": 8, "stream": true})",
                 [&](std::string_view) {
                   if (!std::exchange(waited, true)) release.pop();
                   return true;
                 });
  });
  EXPECT_EQ(at(f.post("/v1/completions", R"({"prompt": "x", "max_tokens": 9})"),
               "usage.completion_tokens"),
            "9");
  release.close();
  slow.join();
  EXPECT_TRUE(eventually([&] { return f.server->stats().num_running == 0; }));
}

TEST(Server, a_hundred_clients_at_once_each_get_their_own) {
  Options options;
  options.executor.script = [](const Request& request) {
    return std::vector<TokenId>(20, request.prompt[0]);
  };
  Fixture f("", options);
  std::vector<std::thread> clients;
  for (int c = 0; c < 100; ++c)
    clients.emplace_back([&f, c] {
      const Json out = f.post("/generate", str(R"({"input_ids": [)", 1000 + c,
                                               R"(], "sampling_params": {"max_new_tokens": 50}})"));
      EXPECT_EQ(at(out, "output_ids.0"), str(1000 + c));
      EXPECT_EQ(at(out, "output_ids.19"), str(1000 + c));
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(f.server->stats().used_pages, 0);
}

TEST(Server, what_would_wait_too_long_is_refused_beforehand) {
  Options options = slow_options();
  options.scheduler.max_running = 1;
  options.config.max_queue_seconds = 0.5;
  Fixture f("", options);
  std::vector<std::thread> clients;
  std::atomic<bool> refused = false;
  // Each of these takes a second; a prediction needs one to have ended.
  for (int i = 0; i < 3 && !refused; ++i)
    clients.emplace_back(
        [&] { f.post("/v1/completions", R"({"prompt": "x", "max_tokens": 50})"); });
  EXPECT_TRUE(eventually([&] { return f.server->stats().predicted_wait_seconds > 0.5; }));
  const HttpResponse r = f.send("POST", "/v1/completions", R"({"prompt": "x", "max_tokens": 5})");
  EXPECT_EQ(r.status, 429) << r.body;
  EXPECT_NE(r.body.find("would wait about"), std::string::npos) << r.body;
  EXPECT_NE(header(r, "retry-after"), "");
  f.post("/abort_request", R"({"abort_all": true})");
  for (std::thread& client : clients) client.join();
}

TEST(Server, log_lines_hold_sizes_and_ids_but_neither_prompts_nor_keys) {
  Options options;
  options.config.api_keys = {"topsecretkey"};
  options.config.log.json = true;
  set_log_level(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  {
    Fixture f(" world", options);
    f.send("POST", "/v1/completions", R"({"prompt": "Hello private"})",
           {{"authorization", "Bearer topsecretkey"}, {"x-request-id", "mine"}});
  }
  set_log_level(LogLevel::kWarning);
  set_log_format(LogFormat::kText);
  const std::string line = testing::internal::GetCapturedStderr();
  const Json fields = parse_json(line).value();
  EXPECT_EQ(at(fields, "event"), "request");
  EXPECT_EQ(at(fields, "request_id"), "mine");
  EXPECT_EQ(at(fields, "status"), "200");
  EXPECT_EQ(at(fields, "finish_reason"), "stop");
  EXPECT_EQ(line.find("private"), std::string::npos) << line;
  EXPECT_EQ(line.find("world"), std::string::npos) << line;
  EXPECT_EQ(line.find("topsecretkey"), std::string::npos) << line;
}

TEST(Server, prompts_are_logged_if_the_operator_asks) {
  Options options;
  options.config.log = {.prompts = true, .max_prompt_chars = 8};
  set_log_level(LogLevel::kInfo);
  testing::internal::CaptureStderr();
  {
    Fixture f(" world", options);
    f.post("/v1/completions", R"({"prompt": "Hello private"})");
  }
  set_log_level(LogLevel::kWarning);
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("prompt \"Hello pr...\", answer \" world"), std::string::npos) << line;
}

TEST(Server, spans_go_to_the_collector) {
  Queue<std::string> bodies;
  auto collector = HttpServer::start({}, [&](HttpRequest request, HttpExchange exchange) {
                     bodies.push(request.body);
                     exchange.respond({});
                   }).value();
  Options options;
  options.config.otlp_endpoint = str("http://127.0.0.1:", collector->port());
  {
    Fixture f(" world", options);
    f.send("POST", "/v1/completions", R"({"prompt": "Hello"})",
           {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}});
  }
  const std::optional<std::string> body = bodies.pop_for(20);
  ASSERT_TRUE(body);
  for (const char* part : {"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331",
                           "POST /v1/completions", "gen_ai.usage.output_tokens"})
    EXPECT_NE(body->find(part), std::string::npos) << part << " " << *body;
}

// Few pages, so that requests are preempted; many clients, most of which leave early.
TEST(Server, impatient_clients_leave_nothing_behind) {
  Options options;
  options.scheduler.max_running = 16;
  options.scheduler.max_waiting = 24;
  options.executor.num_pages = 24;
  options.executor.check_rows = true;
  options.executor.step_seconds = 0.0005;
  options.executor.sleep = true;
  options.executor.script = [](const Request& request) {
    return std::vector<TokenId>(150, request.prompt[0]);
  };
  Fixture f("", options);
  std::atomic<int> finished = 0, refused = 0;
  std::vector<std::thread> clients;
  for (int c = 0; c < 48; ++c)
    clients.emplace_back([&, c] {
      Random random(static_cast<std::uint64_t>(c));
      for (int round = 0; round < 6; ++round) {
        const bool stream = random.below(2) == 0;
        int patience = static_cast<int>(random.below(120));
        HttpClient client({.host = "127.0.0.1", .port = f.server->port()},
                          {.read_seconds = random.below(2) == 0 ? 0.05 : 20});
        const auto response =
            client.send("POST", "/v1/completions", {{"content-type", "application/json"}},
                        str(R"({"max_tokens": 150, "n": )", 1 + random.below(3), R"(, "prompt": [)",
                            100 + c, R"(, 1, 2, 3], "stream": )", stream ? "true" : "false", "}"),
                        [&](std::string_view) { return patience-- > 0; });
        if (response.ok() && response.value().status == 200) ++finished;
        if (response.ok() && response.value().status == 429) ++refused;
        EXPECT_TRUE(!response.ok() || response.value().status < 500);
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(eventually([&] {
    const EngineStats stats = f.server->stats();
    return stats.num_running == 0 && stats.num_waiting == 0 && stats.used_pages == 0;
  }));
  EXPECT_GT(finished, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(at(f.post("/generate", R"({"input_ids": [7]})"), "output_ids.99"), "7");
  EXPECT_EQ(f.get("/health").status, 200);
}

TEST(Server, openapi_names_every_route_with_its_fields) {
  Fixture f;
  const Json api = parse_json(f.get("/openapi.json").body).value();
  const Json& paths = *api.find("paths");
  for (const char* path :
       {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/generate",
        "/tokenize", "/health", "/v1/models/{id}", "/flush_cache", "/metrics"})
    EXPECT_NE(paths.find(path), nullptr) << path;
  const Json& schema = *paths.find("/v1/chat/completions")
                            ->find("post")
                            ->find("requestBody")
                            ->find("content")
                            ->find("application/json")
                            ->find("schema");
  EXPECT_NE(schema.find("properties")->find("temperature"), nullptr);
}

TEST(Server, refuses_what_it_cannot_be) {
  const auto error = [](ServerConfig config) {
    const auto server = Server::listen(std::move(config));
    return server.ok() ? std::string() : server.error().message;
  };
  EXPECT_EQ(error({.served_names = {"x"}, .reasoning_parser = "qwen3"}),
            "there is no reasoning parser \"qwen3\"; the model's are glm45 and glm47");
  EXPECT_EQ(error({.served_names = {"x"}, .tool_parser = "hermes"}),
            "there is no tool parser \"hermes\"; the model's are glm45 and glm47");
}

}  // namespace
}  // namespace glint
