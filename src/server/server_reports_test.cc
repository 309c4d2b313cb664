// The server's reports of its work: metrics, log lines, spans.
#include <gtest/gtest.h>

#include "base/log.h"
#include "server/testing.h"

namespace glint {
namespace {

// The log of a server of these options while `ask` runs.
template <class Ask>
std::string log_of(const TestServerOptions& options, LogFormat format, Ask&& ask) {
  set_log_level(LogLevel::kInfo);
  set_log_format(format);
  testing::internal::CaptureStderr();
  {
    TestServer server(" world", options);
    ask(server);
  }
  set_log_level(LogLevel::kWarning);
  set_log_format(LogFormat::kText);
  return testing::internal::GetCapturedStderr();
}

TEST(ServerReports, metrics_count_what_happened) {
  TestServer server(" world");
  const Json two = server.post("/v1/completions", R"({"prompt": "Hello", "n": 2})");
  const int gaps = std::stoi(at(two, "usage.completion_tokens")) - 2;
  server.get("/nothing");
  // The engine's own numbers are of its last look at itself.
  EXPECT_TRUE(eventually([&] { return server->stats().num_running == 0; }));
  const HttpResponse page = server.get("/metrics");
  EXPECT_TRUE(page.header("content-type").starts_with("text/plain; version=0.0.4"));
  for (
      const std::string& line : std::vector<std::string>{
          "vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 0",
          "vllm:request_success_total{engine=\"0\",finished_reason=\"stop\",model_name=\"tiny\"} 2",
          str("vllm:inter_token_latency_seconds_count{engine=\"0\",model_name=\"tiny\"} ", gaps),
          "vllm:request_queue_time_seconds_count{engine=\"0\",model_name=\"tiny\"} 1",
          "vllm:request_params_max_tokens_sum{engine=\"0\",model_name=\"tiny\"} 16",
          "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"tiny\"} 1",
          "vllm:e2e_request_latency_seconds_bucket{engine=\"0\",model_name=\"tiny\",le=\"7680\"} 1",
          "route=\"unknown\",status=\"404\"} 1"})
    EXPECT_NE(page.body.find(line), std::string::npos) << line << "\n" << page.body;
}

TEST(ServerReports, methods_that_strangers_make_up_are_counted_as_one) {
  TestServer server;
  for (const char* method : {"QUASH", "QUELL"}) server.send(method, "/v1/models");
  const std::string page = server.get("/metrics").body;
  EXPECT_NE(page.find("\"other\""), std::string::npos) << page;
  EXPECT_EQ(page.find("QUASH"), std::string::npos) << page;
  EXPECT_EQ(page.find("QUELL"), std::string::npos) << page;
}

TEST(ServerReports, steps_come_to_the_tokens_of_prompts_and_answers) {
  TestServerOptions options;
  options.engine.scheduler.max_step_tokens = 2;
  const TestServer server(" world", options);
  const Json out = server.post("/v1/completions", R"({"prompt": [1, 2, 3, 4, 5]})");
  const std::string page = server.get("/metrics").body;
  const std::string name = "vllm:iteration_tokens_total_";
  const std::string labels = "{engine=\"0\",model_name=\"tiny\"} ";
  const int steps = std::stoi(at(out, "usage.completion_tokens")) + 2;  // three read the prompt
  EXPECT_NE(page.find(str(name, "sum", labels, at(out, "usage.total_tokens"), "\n")),
            std::string::npos)
      << page;
  EXPECT_NE(page.find(str(name, "count", labels, steps, "\n")), std::string::npos) << page;
}

TEST(ServerReports, log_lines_hold_sizes_and_ids_but_neither_prompts_nor_keys) {
  TestServerOptions options;
  options.config.access.api_keys = {"topsecretkey"};
  const std::string line = log_of(options, LogFormat::kJson, [](TestServer& server) {
    server.send("POST", "/v1/completions", R"({"prompt": "Hello private"})",
                {{"authorization", "Bearer topsecretkey"}, {"x-request-id", "mine"}});
  });
  const Json fields = parse_json(line).value();
  EXPECT_EQ(at(fields, "event"), "request");
  EXPECT_EQ(at(fields, "request_id"), "mine");
  EXPECT_EQ(at(fields, "status"), "200");
  EXPECT_EQ(at(fields, "finish_reason"), "stop");
  EXPECT_EQ(line.find("private"), std::string::npos) << line;
  EXPECT_EQ(line.find("world"), std::string::npos) << line;
  EXPECT_EQ(line.find("topsecretkey"), std::string::npos) << line;
}

TEST(ServerReports, refused_requests_are_logged_with_the_reason) {
  TestServerOptions options;
  options.config.access.api_keys = {"key"};
  const std::string text = log_of(options, LogFormat::kJson, [](TestServer& server) {
    const HttpHeaders key = {{"authorization", "Bearer key"}, {"x-request-id", "mine"}};
    server.get("/metrics");
    server.send("POST", "/v1/completions", "{}", {{"authorization", "Bearer none"}});
    server.send("GET", "/v1/completions", {}, key);
    server.send("POST", "/v1/completions", R"({"prompt": "Hi", "n": 0})", key);
    server.send("POST", "/v1/completions", R"({"prompt": "Hi", "model": "other"})", key);
    server.send("POST", "/v1/completions",
                R"({"prompt": "Hi", "structured_outputs": {"regex": "("}})", key);
    server.send("POST", "/tokenize", R"({"prompt": "Hi"})", key);
  });
  std::string told;
  for (const std::string_view line : split(trimmed(text), '\n')) {
    const Json fields = parse_json(line).value();
    EXPECT_TRUE(at(fields, "peer").starts_with("127.0.0.1:")) << line;
    EXPECT_EQ(at(fields, "request_id") == "mine", at(fields, "status") != "401") << line;
    told += str(at(fields, "route"), " ", at(fields, "status"), " ",
                at(fields, "error").substr(0, 20), "\n");
  }
  EXPECT_EQ(told,
            "/v1/completions 401 the API key is wrong\n"
            "unknown 405 /v1/completions take\n"
            "/v1/completions 400 n is 0; it must be a\n"
            "/v1/completions 404 The model \"other\" do\n"
            "/v1/completions 400 structured_outputs.r\n"
            "/tokenize 200 \n");
}

// "METHOD ROUTE STATUS ERROR" of each line.
std::string told_by(const std::string& log) {
  std::string told;
  for (const std::string_view line : split(trimmed(log), '\n')) {
    const Json fields = parse_json(line).value();
    EXPECT_TRUE(at(fields, "peer").starts_with("127.0.0.1:")) << line;
    told += str(at(fields, "method"), " ", at(fields, "route"), " ", at(fields, "status"), " ",
                at(fields, "error").substr(0, 20), "\n");
  }
  return told;
}

TEST(ServerReports, requests_that_http_refuses_are_logged_and_counted_as_those_of_routes) {
  TestServerOptions options;
  options.config.http.limits.max_body_bytes = 1000;
  options.config.http.limits.max_header_bytes = 1000;
  options.config.http.limits.body_seconds = 0.1;
  std::string first, last, page;
  const std::string log = log_of(options, LogFormat::kJson, [&](TestServer& server) {
    const std::string post = "POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: ";
    first = RawClient(server->port())
                .exchange(post + "1001\r\nx-request-id: mine-1\r\norigin: http://page\r\n\r\n");
    for (const std::string& request :
         {post + "5\r\n\r\n", "GET / HTTP/1.1\r\nhost: a\r\nx: " + std::string(1000, 'a'),
          std::string("QUASH /nothing HTTP/1.1\r\n\r\n")})
      last = RawClient(server->port()).exchange(request);
    page = server.get("/metrics").body;
  });
  EXPECT_EQ(told_by(log),
            "POST /v1/completions 413 the body is longer t\n"
            "POST /v1/completions 408 the body did not arr\n"
            "other unknown 431 the head is longer t\n"
            "other unknown 400 there is no host fie\n");
  const std::string id = at(parse_json(log.substr(log.rfind('{'))).value(), "request_id");
  EXPECT_NE(last.find("x-request-id: " + id + "\r\n"), std::string::npos) << last;
  for (const char* header : {"x-request-id: mine-1\r\n", "traceparent: ", "x-glint-state: ready",
                             "access-control-allow-origin: *\r\n"})
    EXPECT_NE(first.find(header), std::string::npos) << first;
  EXPECT_NE(page.find("route=\"/v1/completions\",status=\"413\"} 1"), std::string::npos) << page;
}

TEST(ServerReports, connections_beyond_the_limit_are_logged) {
  TestServerOptions options;
  options.config.http.limits.max_connections = 1;
  const std::string log = log_of(options, LogFormat::kJson, [](TestServer& server) {
    HttpClient first = server.client();
    EXPECT_EQ(first.send("GET", "/v1/models", {}, {}).value().status, 200);
    RawClient(server->port()).read_all();
  });
  EXPECT_EQ(told_by(log), "other unknown 503 the server has its 1\n");
}

TEST(ServerReports, prompts_are_logged_if_the_operator_asks) {
  TestServerOptions options;
  options.config.report.log = {.prompts = true};
  options.config.max_model_len = 4096;
  const std::string lines = log_of(options, LogFormat::kText, [](TestServer& server) {
    server.post("/v1/completions", R"({"prompt": "Hello private"})");
    server.post("/v1/completions",
                R"({"max_tokens": 1, "prompt": ")" + std::string(2047, 'a') + "\u00e9 end\"}");
  });
  EXPECT_NE(lines.find("prompt \"Hello private\", answer \" world"), std::string::npos) << lines;
  EXPECT_NE(lines.find("aaa...\", answer"), std::string::npos) << lines;  // no half a character
}

TEST(ServerReports, spans_go_to_the_collector) {
  Queue<std::string> bodies;
  auto collector = HttpServer::start({}, [&](HttpRequest request, HttpExchange exchange) {
                     bodies.push(request.body);
                     exchange.respond({});
                   }).value();
  TestServerOptions options;
  options.config.report.otlp_endpoint = str("http://127.0.0.1:", collector->port());
  {
    TestServer server(" world", options);
    server.send("POST", "/v1/completions", R"({"prompt": "Hello", "max_tokens": 5})",
                {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}});
  }
  const std::optional<std::string> body = bodies.pop_for(20);
  ASSERT_TRUE(body);
  for (const char* part :
       {"0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "POST /v1/completions",
        "gen_ai.usage.output_tokens", "gen_ai.request.temperature", "gen_ai.request.top_p",
        "gen_ai.request.max_tokens", "gen_ai.request.n", "gen_ai.response.model",
        "gen_ai.latency.time_in_model_prefill", "gen_ai.latency.time_in_model_decode",
        "http.request.method", "url.path"})
    EXPECT_NE(body->find(part), std::string::npos) << part << " " << *body;
}

}  // namespace
}  // namespace glint
