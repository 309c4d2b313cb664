// One request and its answer: forms, limits, times, connections. Streams are in
// http_stream_test.cc.
#include "net/http_server.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <atomic>
#include <vector>

#include "net/testing.h"

namespace glint {
namespace {

std::string line_of(const std::string& answer) { return answer.substr(0, answer.find('\r')); }
std::string body_of(const std::string& answer) {
  const std::size_t at = answer.find("\r\n\r\n");
  return at == answer.npos ? "<no head>" : answer.substr(at + 4);
}
bool has(const std::string& answer, std::string_view field) {
  return answer.find("\r\n" + std::string(field) + "\r\n") != answer.npos;
}
std::string get(std::string_view fields, std::string_view line = "GET / HTTP/1.1") {
  return std::string(line) + "\r\nhost: a\r\n" + std::string(fields) + "\r\n";
}
const std::string kClose = "connection: close\r\n";

TEST(HttpServer, answers_and_closes_when_asked_to) {
  const auto server = serve(echo);
  RawClient client(server->port());
  const std::string answer = client.exchange(get(kClose, "GET /a%20b?q HTTP/1.1"));
  EXPECT_EQ(line_of(answer), "HTTP/1.1 200 OK");
  EXPECT_EQ(body_of(answer), "GET /a b ");
  EXPECT_TRUE(has(answer, "content-length: 9"));
  EXPECT_TRUE(has(answer, "connection: close"));
  EXPECT_NE(answer.find("\r\ndate: "), answer.npos);
}

TEST(HttpServer, a_request_says_what_was_sent_and_by_whom) {
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  RawClient client(server->port());
  client.send(get("X-Key: v\r\nContent-Length: 2\r\n", "PUT /p?a=1 HTTP/1.1") + "hi");
  auto [request, exchange] = exchanges.next();
  EXPECT_EQ(request.method, "PUT");
  EXPECT_EQ(request.path, "/p");
  EXPECT_EQ(request.query, "a=1");
  EXPECT_EQ(request.header("x-key"), "v");
  EXPECT_EQ(request.header("x-other"), "");
  EXPECT_EQ(request.body, "hi");
  EXPECT_EQ(request.peer.substr(0, 10), "127.0.0.1:");
}

TEST(HttpServer, connections_are_kept_and_pipelined_requests_answered_in_order) {
  const auto server = serve(echo);
  RawClient client(server->port());
  client.send(get("", "GET /1 HTTP/1.1") + get("Content-Length: 3\r\n", "POST /2 HTTP/1.1") +
              "abc" + get("", "GET /3 HTTP/1.1"));
  EXPECT_EQ(body_of(client.read_until("GET /1 ")), "GET /1 ");
  EXPECT_EQ(body_of(client.read_until("POST /2 abc")), "POST /2 abc");
  EXPECT_EQ(body_of(client.read_until("GET /3 ")), "GET /3 ");
  EXPECT_EQ(body_of(client.exchange(get(kClose, "GET /4 HTTP/1.1"))), "GET /4 ");
}

TEST(HttpServer, pipelined_requests_wait_for_slow_answers) {
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  RawClient client(server->port());
  client.send(get("", "GET /1 HTTP/1.1") + get(kClose, "GET /2 HTTP/1.1"));
  auto first = exchanges.next();
  EXPECT_EQ(first.first.path, "/1");
  first.second.respond({.body = "one"});
  EXPECT_EQ(body_of(client.read_until("one")), "one");
  auto second = exchanges.next();
  second.second.respond({.body = "two"});
  EXPECT_EQ(body_of(client.read_all()), "two");
}

TEST(HttpServer, thousands_of_pipelined_requests_are_answered) {
  const auto server = serve(echo);
  RawClient client(server->port());
  std::thread sender([&] {
    for (int i = 0; i < 5000; ++i) client.send(get(""));
    client.send(get(kClose, "GET /last HTTP/1.1"));
  });
  const std::string all = client.read_all();
  sender.join();
  std::size_t num_answers = 0;
  for (std::size_t at = 0; (at = all.find("200 OK", at)) != all.npos; ++at) ++num_answers;
  EXPECT_EQ(num_answers, 5001u);
  EXPECT_EQ(all.substr(all.size() - 10), "GET /last ");
}

TEST(HttpServer, head_and_bodyless_answers_have_no_body) {
  const auto server = serve([](const HttpRequest& request, HttpExchange exchange) {
    if (request.path == "/204") return exchange.respond({.status = 204, .body = "never"});
    if (request.path == "/stream") {
      exchange.begin_stream(200, {});
      EXPECT_TRUE(exchange.write("never"));
      return exchange.finish();
    }
    exchange.respond({.body = "never"});
  });
  for (const char* line : {"HEAD / HTTP/1.1", "GET /204 HTTP/1.1", "HEAD /stream HTTP/1.1"}) {
    RawClient client(server->port());
    client.send(get("", line));
    const std::string first = client.read_until("\r\n\r\n");
    EXPECT_EQ(has(first, "content-length: 5"), std::string(line) == "HEAD / HTTP/1.1") << first;
    EXPECT_EQ(body_of(client.exchange(get(kClose, line))), "") << line;
  }
}

TEST(HttpServer, options_and_odd_methods_reach_the_handler) {
  const auto server = serve(echo);
  RawClient client(server->port());
  client.send(get("", "OPTIONS * HTTP/1.1") + get("", "BREW /pot HTTP/1.1"));
  EXPECT_EQ(body_of(client.read_until("OPTIONS * ")), "OPTIONS * ");
  EXPECT_EQ(body_of(client.read_until("BREW /pot ")), "BREW /pot ");
}

TEST(HttpServer, http_1_0_is_closed_unless_it_asks_otherwise) {
  const auto server = serve(echo);
  RawClient plain(server->port());
  EXPECT_TRUE(has(plain.exchange("GET / HTTP/1.0\r\n\r\n"), "connection: close"));
  RawClient kept(server->port());
  kept.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_TRUE(has(kept.read_until("\r\n\r\n"), "connection: keep-alive"));
  EXPECT_EQ(line_of(kept.exchange("GET /2 HTTP/1.0\r\n\r\n").substr(6)), "HTTP/1.1 200 OK");
}

TEST(HttpServer, a_client_that_waits_for_continue_is_told) {
  const auto server = serve(echo);
  RawClient client(server->port());
  client.send(get("Expect: 100-continue\r\nContent-Length: 3\r\n" + kClose, "POST / HTTP/1.1"));
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(body_of(client.exchange("abc")), "POST / abc");
}

TEST(HttpServer, large_bodies_arrive_whole) {
  const auto server = serve([](HttpRequest request, HttpExchange exchange) {
    exchange.respond({.body = std::move(request.body)});
  });
  std::string body;
  for (int i = 0; body.size() < (3 << 20); ++i) body += std::to_string(i) + ",";
  RawClient client(server->port());
  std::thread sender([&] {
    client.send(
        get("Content-Length: " + std::to_string(body.size()) + "\r\n" + kClose, "POST / HTTP/1.1"));
    client.send(body);
  });
  const std::string answer = client.read_all();
  sender.join();
  EXPECT_TRUE(body_of(answer) == body);
}

TEST(HttpServer, refusals_have_a_status_a_body_and_an_end) {
  HttpServerOptions options;
  options.limits.max_header_bytes = 1000;
  options.limits.max_target_bytes = 100;
  options.limits.max_body_bytes = 1000;
  options.error_page = [](const HttpRefusal& r) {
    return HttpResponse{.status = 1,
                        .headers = {{"content-type", "application/json"}},
                        .body = std::to_string(r.status) + r.request.path + ": " + r.reason};
  };
  const auto server = serve(echo, options);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\x16\x03\x01", "400: this is not an HTTP request"},
      {"GET / HTTP/1.1\r\n\r\n", "400/: there is no host field"},
      {get("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
       "400/: the head is no valid HTTP: bad Transfer-Encoding"},
      {get("", "GET /" + std::string(200, 'a') + " HTTP/1.1"),
       "414/" + std::string(200, 'a') + ": the path is longer than 100 bytes"},
      {get("X: " + std::string(1000, 'a') + "\r\n"), "431: the head is longer than 1000 bytes"},
      {get("Content-Length: 1001\r\n", "POST /p HTTP/1.1"),
       "413/p: the body is longer than 1000 bytes"},
      {get("Transfer-Encoding: chunked\r\n", "POST /p HTTP/1.1") + "fff\r\n",
       "413/p: the body is longer than 1000 bytes"},
      {get("Expect: tea\r\n"), "417/: the expectation \"tea\" is not known here"},
      {"GET / HTTP/3.0\r\nhost: a\r\n\r\n", "505: only HTTP/1.1 and HTTP/1.0 are spoken here"},
      {get("Transfer-Encoding: gzip\r\n"),
       "501/: of transfer-encodings only chunked is known here"},
  };
  for (const auto& [request, body] : cases) {
    RawClient client(server->port());
    const std::string answer = client.exchange(request);
    EXPECT_EQ(body_of(answer), body);
    EXPECT_EQ(line_of(answer).substr(9, 3), body.substr(0, 3));
    EXPECT_TRUE(has(answer, "connection: close"));
    EXPECT_TRUE(has(answer, "content-type: application/json"));
  }
}

TEST(HttpServer, refusals_know_the_head_and_the_peer_of_their_own_request) {
  HttpServerOptions options;
  options.limits.max_header_bytes = 1000;
  options.limits.max_total_body_bytes = 1000;
  options.limits.body_seconds = 0.1;
  options.error_page = [](const HttpRefusal& r) {
    EXPECT_TRUE(r.request.peer.starts_with("127.0.0.1:")) << r.request.peer;
    return HttpResponse{.body = std::to_string(r.status) + r.request.method + r.request.path +
                                std::string(r.request.header("x-mine"))};
  };
  const auto server = serve(echo, options);
  const std::string with_body = get("X-Mine: /1\r\nContent-Length: 2000\r\n", "POST /p HTTP/1.1");
  RawClient late(server->port()), busy(server->port()), kept(server->port());
  late.send(with_body + "a");
  EXPECT_EQ(body_of(late.read_all()), "408POST/p/1");
  EXPECT_EQ(body_of(busy.exchange(with_body + std::string(1001, 'a'))), "503POST/p/1");
  kept.send("GET /before HTTP/1.1\r\nhost: a\r\nx-mine: /2\r\n\r\n");
  kept.read_until("GET /before ");
  EXPECT_EQ(body_of(kept.exchange(get("X: " + std::string(1000, 'a') + "\r\n"))), "431");
}

TEST(HttpServer, a_body_that_is_refused_is_freed_at_once) {
  HttpServerOptions options;
  options.limits.max_total_body_bytes = 32 << 20;
  const auto server = serve(echo, options);
  const auto allocated = [] {
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const std::size_t before = allocated();
  RawClient client(server->port());
  client.send(get("Content-Length: 40000000\r\n", "POST / HTTP/1.1"));
  client.send(std::string((32 << 20) + 1, 'a'));
  EXPECT_EQ(line_of(client.read_until("\r\n\r\n")), "HTTP/1.1 503 Service Unavailable");
  // The answer may be here before the server goes on.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (allocated() > before + (16 << 20) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LT(allocated(), before + (16 << 20));
}

TEST(HttpServer, a_refusal_reaches_a_client_that_is_still_sending) {
  HttpServerOptions options;
  options.limits.max_body_bytes = 1000;
  const auto server = serve(echo, options);
  RawClient client(server->port());
  client.send(get("Content-Length: 8000000\r\n", "POST / HTTP/1.1"));
  client.send(std::string(8'000'000, 'a'));
  EXPECT_EQ(line_of(client.read_all()), "HTTP/1.1 413 Payload Too Large");
}

TEST(HttpServer, bodies_of_all_connections_are_bounded_together) {
  HttpServerOptions options;
  options.limits.max_total_body_bytes = 100'000;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler(), options);
  const std::string head = get("Content-Length: 70000\r\n", "POST / HTTP/1.1");
  RawClient first(server->port());
  first.send(head + std::string(60'000, 'a'));
  RawClient second(server->port());
  second.send(head + std::string(60'000, 'a'));
  // Whichever comes second is refused; the other goes on.
  ASSERT_TRUE(eventually([&] { return first.is_readable() || second.is_readable(); }));
  RawClient& refused = first.is_readable() ? first : second;
  RawClient& served = first.is_readable() ? second : first;
  EXPECT_EQ(line_of(refused.read_until("\r\n\r\n")), "HTTP/1.1 503 Service Unavailable");
  served.send(std::string(10'000, 'a'));
  {
    auto [request, exchange] = exchanges.next();
    EXPECT_EQ(request.body.size(), 70'000u);
    exchange.respond({.body = "done"});
    EXPECT_EQ(body_of(served.read_until("done")), "done");
    // A body counts as long as its request is held, even after the answer.
    RawClient fourth(server->port());
    fourth.send(head + std::string(70'000, 'a'));
    EXPECT_EQ(line_of(fourth.read_until("\r\n\r\n")), "HTTP/1.1 503 Service Unavailable");
  }
  // With the request, its bytes are given back.
  RawClient third(server->port());
  third.send(head + std::string(70'000, 'a'));
  exchanges.next().second.respond({.body = "again"});
  EXPECT_EQ(body_of(third.read_until("again")), "again");
}

TEST(HttpServer, slow_senders_are_refused_and_idle_ones_closed) {
  HttpServerOptions options;
  options.limits.header_seconds = options.limits.body_seconds = 0.1;
  const auto server = serve(echo, options);
  HttpServerOptions closing;
  closing.limits.idle_seconds = 1;  // `kept` must say its first byte in this time, too
  const auto closes = serve(echo, closing);
  RawClient head(server->port()), body(server->port()), idle(closes->port()), kept(closes->port());
  head.send("GET / HT");
  body.send(get("Content-Length: 3\r\n", "POST /p HTTP/1.1") + "a");
  kept.send(get(""));
  EXPECT_EQ(body_of(head.read_all()), "the head did not arrive within 0.1 s\n");
  EXPECT_EQ(line_of(body.read_all()), "HTTP/1.1 408 Request Timeout");
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_EQ(body_of(kept.read_all()), "GET / ");
}

TEST(HttpServer, a_head_that_drips_is_slow) {
  HttpServerOptions options;
  options.limits.header_seconds = 0.2;
  const auto server = serve(echo, options);
  RawClient client(server->port());
  std::atomic<bool> done = false;
  std::thread dripper([&] {
    client.send("GET / HTTP/1.1\r\n");
    while (!done && client.send("a: b\r\n"))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  EXPECT_EQ(client.read_until("\r\n"), "HTTP/1.1 408 Request Timeout\r\n");
  done = true;
  dripper.join();
}

TEST(HttpServer, connections_beyond_the_limit_get_503) {
  HttpServerOptions options;
  options.limits.max_connections = 3;
  const auto server = serve(echo, options);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    clients.back()->send(get(""));
    clients.back()->read_until("GET / ");
  }
  RawClient refused(server->port());
  EXPECT_EQ(line_of(refused.exchange(get(""))), "HTTP/1.1 503 Service Unavailable");
  refused.close();
  clients.pop_back();
  ASSERT_TRUE(eventually([&] { return server->num_connections() < 3; }));
  RawClient served(server->port());
  EXPECT_EQ(line_of(served.exchange(get(kClose))), "HTTP/1.1 200 OK");
}

TEST(HttpServer, hundreds_of_clients_that_connect_at_once_are_served) {
  const auto server = serve(echo);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 400; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    ASSERT_TRUE(clients.back()->connected()) << i;
    ASSERT_TRUE(clients.back()->send(get(kClose, "GET /" + std::to_string(i) + " HTTP/1.1")));
  }
  for (int i = 0; i < 400; ++i) {
    EXPECT_EQ(body_of(clients[i]->read_all()), "GET /" + std::to_string(i) + " ");
  }
  clients.clear();
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }));
}

TEST(HttpServer, running_out_of_file_descriptors_is_survived) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizers look at memory through pipes, and take their lack for an error";
#endif
  const auto server = serve(echo);
  RawClient before(server->port());
  before.send(get(""));  // accepted, so that no descriptor of it is to come
  before.read_until("GET / ");
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const int next = dup(0);
  ::close(next);
  rlimit few = old;
  few.rlim_cur = static_cast<rlim_t>(next) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  RawClient waiting(server->port());  // takes `next`; the server would need one more
  EXPECT_TRUE(waiting.connected());
  before.send(get(""));
  EXPECT_EQ(body_of(before.read_until("GET / ")), "GET / ");
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_EQ(body_of(waiting.exchange(get(kClose))), "GET / ");
  RawClient after(server->port());
  EXPECT_EQ(body_of(after.exchange(get(kClose))), "GET / ");
}

TEST(HttpServer, a_handler_that_throws_or_forgets_gives_500) {
  const auto server = serve([](const HttpRequest& request, const HttpExchange&) {
    if (request.path == "/throw") std::string().at(1);
  });
  for (const char* line : {"GET /throw HTTP/1.1", "GET /forget HTTP/1.1"}) {
    RawClient client(server->port());
    const std::string answer = client.exchange(get("", line));
    EXPECT_EQ(line_of(answer), "HTTP/1.1 500 Internal Server Error");
    EXPECT_EQ(body_of(answer), "the request was dropped without an answer\n");
  }
}

TEST(HttpServer, header_values_cannot_begin_new_lines) {
  const auto server = serve([](const HttpRequest&, HttpExchange exchange) {
    exchange.respond(
        {.headers = {{"x-id", "a\r\nset-cookie: b"}, {"content-length", "7"}, {"date", "never"}}});
  });
  RawClient client(server->port());
  const std::string answer = client.exchange(get(kClose));
  EXPECT_TRUE(has(answer, "x-id: a  set-cookie: b")) << answer;
  EXPECT_TRUE(has(answer, "content-length: 0"));
  EXPECT_EQ(answer.find("content-length: 7"), answer.npos);
  EXPECT_EQ(answer.find("never"), answer.npos);
}

TEST(HttpServer, a_handler_may_close_the_connection) {
  const auto server = serve([](const HttpRequest&, HttpExchange exchange) {
    exchange.respond({.status = 401, .headers = {{"connection", "close"}}, .body = "no"});
  });
  RawClient client(server->port());
  const std::string answer = client.exchange(get(""));
  EXPECT_TRUE(has(answer, "connection: close"));
  EXPECT_EQ(body_of(answer), "no");
}

TEST(HttpServer, only_the_first_answer_counts) {
  const auto server = serve([](const HttpRequest&, HttpExchange exchange) {
    exchange.respond({.body = "one"});
    exchange.respond({.body = "two"});
    exchange.begin_stream(200, {});
    EXPECT_FALSE(exchange.write("three"));
    exchange.finish();
  });
  RawClient client(server->port());
  EXPECT_EQ(body_of(client.exchange(get(kClose))), "one");
}

TEST(HttpServer, hosts_are_addresses_and_names) {
  for (const char* host : {"127.0.0.1", "localhost", "0.0.0.0", "", "::", "[::]"}) {
    HttpServerOptions options;
    options.host = host;
    std::string peer;
    auto server = HttpServer::start(options, [&](HttpRequest request, HttpExchange exchange) {
      peer = request.peer;
      echo(std::move(request), std::move(exchange));
    });
    if (!server.ok() && std::string(host).find("::") != std::string::npos)
      continue;  // no IPv6 here
    ASSERT_TRUE(server.ok()) << host << ": " << server.error().message;
    RawClient client(server.value()->port());
    EXPECT_EQ(body_of(client.exchange(get(kClose))), "GET / ") << host;
    server.value().reset();
    EXPECT_EQ(peer.substr(0, 10), "127.0.0.1:") << host;
  }
}

TEST(HttpServer, what_cannot_be_listened_on_is_said_in_one_sentence) {
  const auto error = [](const std::string& host, int port) {
    HttpServerOptions options;
    options.host = host;
    options.port = port;
    const auto server = HttpServer::start(options, echo);
    return server.ok() ? "" : server.error().message;
  };
  const auto first = serve(echo);
  const std::string port = std::to_string(first->port());
  EXPECT_EQ(error("127.0.0.1", first->port()),
            "cannot listen on 127.0.0.1 port " + port +
                ": another program listens there; end it or choose another port");
  EXPECT_EQ(error("192.0.2.1", 0),
            "cannot listen on 192.0.2.1 port 0: this machine has no such address");
  EXPECT_EQ(error("no such host", 0),
            "the host \"no such host\" is no address and no name that resolves here");
  EXPECT_EQ(error("127.0.0.1", 65536), "the port is 65536; ports are 0 to 65535");
  EXPECT_EQ(error("127.0.0.1", -1), "the port is -1; ports are 0 to 65535");
}

TEST(HttpServer, a_port_is_free_again_at_once) {
  int port = 0;
  {
    const auto server = serve(echo);
    port = server->port();
    RawClient client(port);
    client.send(get(""));
    client.read_until("GET / ");
  }  // the server closes first: its side waits in TIME_WAIT
  HttpServerOptions options;
  options.port = port;
  const auto again = HttpServer::start(options, echo);
  EXPECT_TRUE(again.ok()) << again.error().message;
}

TEST(HttpServer, after_stop_accepting_idle_connections_close_and_answers_are_finished) {
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  RawClient idle(server->port()), half(server->port());
  half.send("GET /half HTTP/1.1\r\n");
  ASSERT_TRUE(eventually([&] { return server->num_connections() == 2; }));
  RawClient busy(server->port());
  busy.send(get(""));  // behind what `half` sent, so that is read when this is
  auto [request, exchange] = exchanges.next();
  server->stop_accepting();
  EXPECT_TRUE(idle.is_closed());
  EXPECT_FALSE(RawClient(server->port()).connected());
  exchange.respond({.body = "late"});
  const std::string answer = busy.read_all();
  EXPECT_EQ(body_of(answer), "late");
  EXPECT_TRUE(has(answer, "connection: close"));
  half.send("host: a\r\n\r\n");
  exchanges.next().second.respond({.body = "half"});
  EXPECT_EQ(body_of(half.read_all()), "half");
  busy.close();
  half.close();
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }));
}

TEST(HttpServer, garbage_of_any_kind_never_ends_it) {
  const auto server = serve(echo);
  std::uint64_t state = 1;
  const auto random = [&] {
    return state = state * 6364136223846793005u + 1442695040888963407u, state >> 33;
  };
  const std::string valid =
      get("Transfer-Encoding: chunked\r\n", "POST /p HTTP/1.1") + "3\r\nabc\r\n0\r\n\r\n";
  for (int round = 0; round < 300; ++round) {
    RawClient client(server->port());
    std::string bytes = valid;
    for (int i = 0; i < 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    client.send(bytes.substr(0, random() % bytes.size()));
    if (random() % 2) client.shutdown_send();
  }
  RawClient client(server->port());
  EXPECT_EQ(body_of(client.exchange(get(kClose))), "GET / ");
}

}  // namespace
}  // namespace glint
