#include "server/telemetry/otlp_exporter.h"

#include <gtest/gtest.h>

#include "net/testing.h"

namespace glint {
namespace {

Span span(int n) {
  Random random(static_cast<std::uint64_t>(n));
  return Span{.context = new_span({}, random), .name = "span " + std::to_string(n)};
}

OtlpOptions quick(int port) {
  OtlpOptions options;
  options.endpoint = "http://127.0.0.1:" + std::to_string(port);
  options.interval_seconds = options.retry_seconds = 0.01;
  return options;
}

// A collector: what it was sent, and the statuses that it answers with in turn.
struct Collector {
  explicit Collector(std::vector<int> s = {}) : statuses(std::move(s)) {
    server = serve([this](const HttpRequest& request, HttpExchange exchange) {
      const std::lock_guard lock(mutex);
      const int status = requests.size() < statuses.size() ? statuses[requests.size()] : 200;
      requests.push_back(request);
      exchange.respond({.status = status, .body = "{}"});
    });
  }
  ~Collector() { server.reset(); }

  // The names of the spans, in the order they came.
  std::vector<std::string> names() {
    const std::lock_guard lock(mutex);
    std::vector<std::string> out;
    for (const HttpRequest& request : requests) {
      const Json body = parse_json(request.body).value();
      const Json& scope =
          body.find("resourceSpans")->as_array()[0].find("scopeSpans")->as_array()[0];
      for (const Json& item : scope.find("spans")->as_array())
        out.push_back(item.find("name")->as_string());
    }
    return out;
  }

  std::mutex mutex;
  std::vector<int> statuses;
  std::vector<HttpRequest> requests;
  std::unique_ptr<HttpServer> server;
};

TEST(OtlpExporter, the_json_is_that_of_the_protocol) {
  Span sent = {.context = {.trace_id = "5b8efff798038103d269b633813fc60c",
                           .span_id = "eee19b7ec3c1b174",
                           .state = "a=b"},
               .parent_span_id = "eee19b7ec3c1b173",
               .name = "chat",
               .start_ns = 1544712660000000000,
               .end_ns = 1544712661000000000,
               .attributes = {{"n", Json(7)},
                              {"x", Json(0.5)},
                              {"on", Json(true)},
                              {"s", Json("v")},
                              {"l", Json(Json::Array{Json(1), Json("b")})}},
               .error = "it broke"};
  EXPECT_EQ(
      dump_json(otlp_request({sent}, "svc")),
      R"({"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"svc"}}]},)"
      R"("scopeSpans":[{"scope":{"name":"glint"},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",)"
      R"("spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173","traceState":"a=b","name":"chat","kind":2,)"
      R"("startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","attributes":[)"
      R"({"key":"n","value":{"intValue":"7"}},{"key":"x","value":{"doubleValue":0.5}},)"
      R"({"key":"on","value":{"boolValue":true}},{"key":"s","value":{"stringValue":"v"}},)"
      R"({"key":"l","value":{"arrayValue":{"values":[{"intValue":"1"},{"stringValue":"b"}]}}}],)"
      R"("status":{"code":2,"message":"it broke"}}]}]}]})");
}

TEST(OtlpExporter, spans_reach_the_collector_in_order) {
  Collector collector;
  OtlpOptions options = quick(collector.server->port());
  options.max_batch = 100;
  options.headers = {{"x-api-key", "k"}};
  std::vector<std::string> expected;
  {
    const auto exporter = OtlpExporter::start(options).value();
    for (int i = 0; i < 1050; ++i) {
      exporter->add(span(i));
      expected.push_back("span " + std::to_string(i));
    }
    EXPECT_TRUE(eventually([&] { return exporter->num_sent() == 1050; }));
    EXPECT_EQ(exporter->num_dropped(), 0);
  }
  EXPECT_EQ(collector.names(), expected);
  const HttpRequest& first = collector.requests[0];
  EXPECT_EQ(first.method, "POST");
  EXPECT_EQ(first.path, "/v1/traces");
  EXPECT_EQ(first.header("content-type"), "application/json");
  EXPECT_EQ(first.header("x-api-key"), "k");
}

TEST(OtlpExporter, the_end_sends_what_waits) {
  Collector collector;
  OtlpOptions options = quick(collector.server->port());
  options.endpoint += "/custom";
  options.interval_seconds = 1000;
  OtlpExporter::start(options).value()->add(span(1));
  EXPECT_EQ(collector.names(), std::vector<std::string>{"span 1"});
  EXPECT_EQ(collector.requests[0].path, "/custom");
}

TEST(OtlpExporter, a_busy_collector_is_asked_again_and_a_refusal_is_not) {
  Collector collector({503, 429, 200, 400});
  const auto exporter = OtlpExporter::start(quick(collector.server->port())).value();
  exporter->add(span(1));
  EXPECT_TRUE(eventually([&] { return exporter->num_sent() == 1; }));
  exporter->add(span(2));
  EXPECT_TRUE(eventually([&] { return exporter->num_dropped() == 1; }));
  exporter->add(span(3));
  EXPECT_TRUE(eventually([&] { return exporter->num_sent() == 2; }));
  const std::vector<std::string> expected = {"span 1", "span 1", "span 1", "span 2", "span 3"};
  EXPECT_EQ(collector.names(), expected);
}

TEST(OtlpExporter, a_silent_collector_holds_nobody_up) {
  Exchanges silent;
  const auto server = serve(silent.handler());
  OtlpOptions options = quick(server->port());
  options.max_queue = 10;
  options.max_batch = 1;
  options.timeout_seconds = 0.2;
  auto exporter = OtlpExporter::start(options).value();
  for (int i = 0; i < 10'000; ++i) exporter->add(span(1));
  EXPECT_GE(exporter->num_dropped(), 10'000 - 100);
  exporter.reset();
}

TEST(OtlpExporter, spans_that_are_not_sampled_are_left_out) {
  Collector collector;
  {
    const auto exporter = OtlpExporter::start(quick(collector.server->port())).value();
    Span quiet = span(1);
    quiet.context.sampled = false;
    exporter->add(quiet);
    exporter->add(span(2));
  }
  EXPECT_EQ(collector.names(), std::vector<std::string>{"span 2"});
}

TEST(OtlpExporter, the_port_of_grpc_is_warned_of) {
  const auto log_of = [](const char* endpoint) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(OtlpExporter::start({.endpoint = endpoint}).ok());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(log_of("http://127.0.0.1:4317").find("127.0.0.1:4317 over HTTP, but 4317 is the port"),
            std::string::npos);
  EXPECT_EQ(log_of("http://127.0.0.1:4318/v1/traces"), "");
}

TEST(OtlpExporter, an_endpoint_that_is_no_url_is_refused) {
  EXPECT_EQ(
      OtlpExporter::start({.endpoint = "localhost:4318"}).error().message,
      "the endpoint of traces: the URL \"localhost:4318\" does not begin with http:// or https://");
}

}  // namespace
}  // namespace glint
