// The server itself over real sockets: its routes, refusals, keys and states.
#include "server/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "server/testing.h"

namespace glint {
namespace {

TEST(Server, tokens_and_templates_without_the_engine) {
  TestServer server;
  const Json tokens =
      server.post("/tokenize", R"({"prompt": "Hello world", "return_token_strs": true})");
  EXPECT_EQ(at(tokens, "max_model_len"), "2048");
  EXPECT_EQ(at(tokens, "count"), str(tokens.find("tokens")->as_array().size()));
  const Json text = server.post("/detokenize", R"({"tokens": )" + at(tokens, "tokens") + "}");
  EXPECT_EQ(at(text, "prompt"), "Hello world");
  const Json none = server.post("/detokenize", R"({"tokens": [], "return_token_strs": true})");
  EXPECT_EQ(dump_json(none), R"({"prompt":"","text":"","token_strs":[]})");
  EXPECT_EQ(server.send("POST", "/detokenize", R"({"tokens": [], "model": "other"})").status, 404);
  const std::string messages = R"({"messages": [{"role": "user", "content": "Hi"}]})";
  EXPECT_EQ(at(server.post("/apply-template", messages), "prompt"),
            "[gMASK]<sop><|user|>Hi<|assistant|><think>");
  const Json chat = server.post("/v1/tokenize", messages);
  EXPECT_EQ(at(chat, "tokens"), dump_json(Json::Array([&] {
              const auto ids =
                  server.tokenizer().encode("[gMASK]<sop><|user|>Hi<|assistant|><think>").value();
              return Json::Array(ids.begin(), ids.end());
            }())));
  const std::string refused =
      R"({"messages": [{"role": "user", "content": "Hi"}], "chat_template": "{{ 1 }}"})";
  for (const char* path : {"/tokenize", "/apply-template"})
    EXPECT_NE(server.send("POST", path, refused).body.find("chat_template is not supported"),
              std::string::npos);
}

TEST(Server, tells_what_it_is) {
  TestServer server;
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/ready").status, 200);
  EXPECT_EQ(server.get("/ping").status, 200);
  EXPECT_EQ(server.get("/version").body, R"({"version":"1.2.3"})");
  const Json models = parse_json(server.get("/v1/models").body).value();
  EXPECT_EQ(at(models, "data.0.id"), "tiny");
  EXPECT_EQ(server.get("/v1/models/models/tiny").status, 200);
  EXPECT_EQ(server.get("/v1/models/other").status, 404);
  EXPECT_GT(std::stoll(at(models, "data.0.created")), 1700000000);
  EXPECT_EQ(at(models, "data.0.permission.0.allow_sampling"), "true");
  const HttpHeaders anthropic = {{"anthropic-version", "2023-06-01"}};
  const Json theirs = parse_json(server.send("GET", "/v1/models", "", anthropic).body).value();
  EXPECT_EQ(at(theirs, "data.0.type"), "model");
  EXPECT_EQ(at(theirs, "data.0.display_name"), "tiny");
  EXPECT_TRUE(at(theirs, "data.0.created_at").ends_with("Z"));
  EXPECT_EQ(at(theirs, "has_more"), "false");
  EXPECT_EQ(at(theirs, "first_id") + at(theirs, "last_id"), "tinytiny");
  EXPECT_EQ(server.get("/server_info").status, 200);
  EXPECT_EQ(server.get("/get_server_info").status, 200);
  EXPECT_EQ(server.get("/model_info").status, 200);
  const Json engine = parse_json(server.get("/engine").body).value();
  EXPECT_EQ(at(engine, "running"), "0");
  EXPECT_EQ(server.get("/health_generate").status, 200);
}

TEST(Server, lists_the_names_that_its_user_gave) {
  TestServerOptions options;
  options.config.served_names = {"a", "b", "models/tiny"};
  options.config.num_listed_names = 2;
  TestServer server("x", options);
  const Json models = parse_json(server.get("/v1/models").body).value();
  EXPECT_EQ(at(models, "data.0.id") + at(models, "data.1.id") + at(models, "data.2.id"), "ab");
}

TEST(Server, refusals_have_their_status_and_body) {
  TestServerOptions options;
  options.config.http.limits.max_body_bytes = 20000;
  TestServer server("x", options);
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
       "This model's maximum context length is 2048 tokens."},
      {400, "POST", "/generate",
       R"({"text": "x", "sampling_params": {"max_new_tokens": 2, "min_new_tokens": 3}})",
       R"("param":"sampling_params.min_new_tokens")"}};
  for (const Case& c : cases) {
    const HttpResponse response = server.send(c.method, c.path, c.body);
    EXPECT_EQ(response.status, c.status) << response.body;
    EXPECT_NE(response.body.find(c.part), std::string::npos) << response.body;
  }
  const HttpResponse large = server.send("POST", "/v1/completions", std::string(30000, ' '));
  EXPECT_EQ(large.status, 413);
  EXPECT_NE(large.body.find("\"error\""), std::string::npos) << large.body;
  HttpClient client = server.client();
  const auto xml = client.send("POST", "/v1/completions", {{"content-type", "text/xml"}}, "<a/>");
  EXPECT_EQ(xml.value().status, 415);
  const auto shouted = client.send("POST", "/v1/completions",
                                   {{"content-type", "Application/JSON ; charset=utf-8"}}, "{}");
  EXPECT_EQ(shouted.value().status, 400);
}

TEST(Server, prompts_that_cannot_fit_are_refused_unencoded) {
  TestServer server;
  const HttpResponse response =
      server.send("POST", "/v1/completions", R"({"prompt": ")" + std::string(1 << 20, 'a') + "\"}");
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("maximum context length is 2048"), std::string::npos);
  EXPECT_NE(response.body.find("prompt contains at least "), std::string::npos);
  // Unless it is only counted.
  std::string words = "\"";
  for (int i = 0; i < 100'000; ++i) words += "a ";
  words += "b\"";
  const Json tokens = server.post("/tokenize", R"({"prompt": )" + words + "}");
  const std::string message = R"([{"role": "user", "content": )" + words + "}]}";
  for (const auto& [path, body] :
       {std::pair{"/v1/messages/count_tokens", R"({"messages": )" + message},
        std::pair{"/v1/responses/input_tokens", R"({"input": )" + words + "}"}})
    EXPECT_GT(std::stoi(at(server.post(path, body), "input_tokens")),
              std::stoi(at(tokens, "count")));
}

TEST(Server, says_everywhere_that_lost_ranks_start_again) {
  struct LostRanks : FakeExecutor {
    using FakeExecutor::FakeExecutor;
    bool ready() const override { return false; }
  };
  const std::string dir = GLINT_SOURCE_DIR "/models/glm5-tiny";
  const TestServerOptions options;
  LostRanks executor(options.executor);
  const auto server = Server::listen(options.config).value();
  ASSERT_TRUE(server
                  ->open({.tokenizer = Tokenizer::open(dir).value(),
                          .chat_template = ChatTemplate::open(dir).value(),
                          .executor = &executor,
                          .engine = options.engine})
                  .ok());
  HttpClient client("http://127.0.0.1:" + std::to_string(server->port()));
  const HttpResponse health = client.send("GET", "/health", {}, {}).value();
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.header("x-glint-state"), "recovering");
  for (const char* path : {"/server_info", "/model_info"}) {
    const HttpResponse info = client.send("GET", path, {}, {}).value();
    EXPECT_EQ(at(parse_json(info.body).value(), "state"), "recovering");
  }
}

TEST(Server, starts_with_503_and_a_state) {
  TestServerOptions options;
  options.open = false;
  TestServer server("x", options);
  for (const char* path : {"/health", "/v1/models/tiny"}) {
    const HttpResponse response = server.get(path);
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.header("retry-after"), "5");
    EXPECT_EQ(response.header("x-glint-state"), "starting");
  }
  EXPECT_EQ(server.send("POST", "/v1/completions", "{}").status, 503);
  EXPECT_EQ(server.get("/version").status, 200);
  server.open({}, 64);
  EXPECT_EQ(server.get("/health").status, 200);
}

// ThreadSanitizer looks on.
TEST(Server, tells_of_itself_while_a_model_is_opened) {
  TestServerOptions options;
  options.open = false;
  TestServer server("x", options);
  std::atomic<bool> done = false;
  std::thread reader([&] {
    do {
      for (const char* path : {"/metrics", "/server_info", "/model_info"})
        EXPECT_EQ(server.get(path).status, 200);
    } while (!done);
  });
  server.open({}, 64);
  done = true;
  reader.join();
}

TEST(Server, keys_guard_all_but_health) {
  TestServerOptions options;
  options.config.access.api_keys = {"k1", "k2"};
  TestServer server("x", options);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/v1/models").status, 401);
  EXPECT_EQ(server.send("GET", "/v1/models", "", {{"authorization", "Bearer k2"}}).status, 200);
  EXPECT_EQ(
      server.send("POST", "/v1/completions", R"({"prompt": "x"})", {{"x-api-key", "k1"}}).status,
      200);
  EXPECT_EQ(server.send("POST", "/flush_cache", "", {{"x-api-key", "k3"}}).status, 401);
}

TEST(Server, ids_and_traces_are_handed_on) {
  TestServer server;
  const HttpResponse response =
      server.send("GET", "/version", "",
                  {{"x-request-id", "mine"},
                   {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}});
  EXPECT_EQ(response.header("x-request-id"), "mine");
  EXPECT_TRUE(response.header("traceparent").starts_with("00-0af7651916cd43dd8448eb211c80319c-"));
  EXPECT_TRUE(server.get("/version").header("x-request-id").starts_with("req_"));
}

TEST(Server, browsers_of_other_origins_are_answered) {
  TestServer server;
  const HttpResponse preflight = server.send("OPTIONS", "/v1/chat/completions", "",
                                             {{"origin", "https://app.example"},
                                              {"access-control-request-method", "POST"},
                                              {"access-control-request-headers", "authorization"}});
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "*");
  // Browsers refuse an answer that says it twice.
  EXPECT_EQ(std::ranges::count(preflight.headers, "access-control-allow-origin",
                               &HttpHeaders::value_type::first),
            1);
  EXPECT_EQ(preflight.header("access-control-allow-methods"), "POST");
  EXPECT_EQ(server.send("POST", "/flush_cache", "", {{"origin", "https://evil.example"}}).status,
            403);
  EXPECT_EQ(server.send("POST", "/flush_cache", "").status, 200);
  // Pausing takes no GET, which a link or an image could send.
  EXPECT_EQ(server.get("/pause_generation").status, 405);
}

TEST(Server, openapi_names_every_route_with_its_fields) {
  TestServer server;
  const Json api = parse_json(server.get("/openapi.json").body).value();
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
  for (const auto& [path, required] : {std::pair("/pause_generation", "false"),
                                       {"/start_profile", "false"},
                                       {"/update_weights_from_disk", "true"},
                                       {"/abort_request", "true"},
                                       {"/v1/completions", "true"}})
    EXPECT_EQ(at(paths, str(path, ".post.requestBody.required")), required) << path;
}

// Two fields that replace each other are both named, and neither is required.
TEST(Server, openapi_names_fields_that_replace_each_other) {
  TestServer server;
  const Json api = parse_json(server.get("/openapi.json").body).value();
  const auto schema = [&](const char* path) {
    return *api.find("paths")
                ->find(path)
                ->find("post")
                ->find("requestBody")
                ->find("content")
                ->find("application/json")
                ->find("schema");
  };
  for (const auto& [path, one, other] : {std::tuple("/generate", "input_ids", "text"),
                                         std::tuple("/tokenize", "messages", "prompt")}) {
    EXPECT_NE(schema(path).find("properties")->find(one), nullptr) << path;
    EXPECT_NE(schema(path).find("properties")->find(other), nullptr) << path;
    EXPECT_EQ(schema(path).find("required"), nullptr) << path;
  }
  EXPECT_EQ(at(schema("/v1/chat/completions"), "required.0"), "messages");
  EXPECT_EQ(at(schema("/apply-template"), "required.0"), "messages");
}

TEST(Server, refuses_what_it_cannot_be) {
  const auto error = [](ServerConfig config) {
    const auto server = Server::listen(std::move(config));
    return server.ok() ? std::string() : server.error().message;
  };
  EXPECT_EQ(error({.served_names = {"x"}, .parsers = {.reasoning = "qwen3"}}),
            "there is no reasoning parser \"qwen3\"; the model's are glm45 and glm47");
  EXPECT_EQ(error({.served_names = {"x"}, .parsers = {.tools = "hermes"}}),
            "there is no tool parser \"hermes\"; the model's are glm45 and glm47");
}

}  // namespace
}  // namespace glint
