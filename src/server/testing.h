// For tests of server/: a server over real sockets, with an engine whose executor plays scripts of
// tokens, and the bundled model's tokenizer and template.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/queue.h"
#include "base/str.h"
#include "engine/fake_executor.h"
#include "net/http_client.h"
#include "net/sse_reader.h"
#include "net/testing.h"
#include "server/server.h"

namespace glint {

// An answer that thinks, speaks and calls a tool.
inline constexpr const char* kCall =
    "Check.</think>Let me see.<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris"
    "</arg_value><arg_key>days</arg_key><arg_value>2</arg_value></tool_call>";

struct TestServerOptions {
  ServerConfig config = {
      .served_names = {"tiny", "models/tiny"}, .max_model_len = 2048, .version = "1.2.3"};
  EngineOptions engine = {};
  FakeExecutorOptions executor = {.info = {.vocab_size = 3712,
                                           .max_seq_len = 4096,
                                           .num_layers = 3,
                                           .num_moe_layers = 2,
                                           .num_experts = 4,
                                           .num_experts_per_tok = 2,
                                           .moe_layers = {1, 2}},
                                  .num_pages = 256,
                                  .check_rows = false};
  bool open = true;
};

class TestServer {
 public:
  // Answers every request with the tokens of `answer`, unless the options have a script.
  explicit TestServer(std::string answer = "Hello world", TestServerOptions options = {}) {
    set_answer(std::move(answer));
    if (!options.executor.script)
      options.executor.script = [this](const Request&) {
        return tokenizer_.encode(answer_.load()).value();
      };
    const int pages = options.executor.num_pages;
    executor_ = std::make_unique<FakeExecutor>(options.executor);
    server_ = Server::listen(options.config).value();
    if (options.open) open(options.engine, pages);
  }

  void open(EngineOptions engine, int pages) {
    engine.cache.num_pages = pages;
    ServedModel model = {.tokenizer = tokenizer_,
                         .chat_template = ChatTemplate::open(kModel).value(),
                         .stop_ids = {3655, 3662, 3664},
                         .executor = executor_.get(),
                         .engine = std::move(engine)};
    const Status status = server_->open(std::move(model));
    ASSERT_TRUE(status.ok()) << status.error().message;
  }

  void set_answer(std::string text) { answer_.store(std::move(text)); }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  Server* operator->() const { return server_.get(); }

  HttpClient client(double read_seconds = 120) const {
    return HttpClient("http://127.0.0.1:" + std::to_string(server_->port()),
                      {.read_seconds = read_seconds});
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
  // The data of a stream's events, in order; "NAME: DATA" where they have names.
  static std::vector<std::string> events_of(const HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    std::vector<std::string> all;
    SseReader([&](std::string_view name, std::string_view data) {
      const bool named = !name.empty() && name != "message";
      all.push_back((named ? std::string(name) + ": " : "") + std::string(data));
      return true;
    }).feed(response.body);
    return all;
  }
  std::vector<std::string> events(const std::string& path, const std::string& body) const {
    return events_of(send("POST", path, body));
  }

 private:
  static constexpr const char* kModel = GLINT_SOURCE_DIR "/models/glm5-tiny";

  const Tokenizer tokenizer_ = Tokenizer::open(kModel).value();
  Guarded<std::string> answer_;
  std::unique_ptr<FakeExecutor> executor_;
  std::unique_ptr<Server> server_;  // last: it uses the executor
};

// "a.b.0.c" of a JSON value, dumped; "" if there is none.
inline std::string at(const Json& json, std::string_view path) {
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

}  // namespace glint
