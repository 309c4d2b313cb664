#include "net/http_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "base/kept_environment.h"
#include "base/queue.h"
#include "net/sse_reader.h"
#include "net/testing.h"

namespace glint {
namespace {

std::string local(int port) { return "http://127.0.0.1:" + std::to_string(port); }

// A server of plain system calls, which says to its n-th connection the parts of answers[n], one
// each time that it hears something, and closes.
class Canned {
 public:
  explicit Canned(std::vector<std::vector<std::string>> answers) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this, answers = std::move(answers)] {
      for (const std::vector<std::string>& parts : answers) {
        const int peer = accept(fd_, nullptr, nullptr);
        for (const std::string& part : parts) {
          char bytes[4096];
          if (recv(peer, bytes, sizeof bytes, 0) <= 0) break;
          ++num_heard_;  // before the answer, which lets the test go on
          ::send(peer, part.data(), part.size(), MSG_NOSIGNAL);
        }
        ::close(peer);
      }
    });
  }
  ~Canned() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    ::close(fd_);
  }
  int port() const { return port_; }
  int num_heard() const { return num_heard_; }

 private:
  int fd_ = -1, port_ = 0;
  std::atomic<int> num_heard_ = 0;
  std::thread thread_;
};

std::string error_of(const Result<HttpResponse>& result) {
  return result.ok() ? "<ok>" : result.error().message;
}

TEST(HttpClient, asks_and_is_answered_on_one_connection) {
  const auto server = serve([](HttpRequest request, HttpExchange exchange) {
    exchange.respond({.status = request.path == "/x" ? 404 : 200,
                      .headers = {{"x-key", std::string(request.header("x-key"))},
                                  {"x-host", std::string(request.header("host"))},
                                  {"x-peer", request.peer}},
                      .body = request.method + request.path + "?" + request.query + request.body});
  });
  HttpClient client(local(server->port()));
  const auto first = client.send("POST", "/p%20q?a=1", {{"x-key", "v"}}, "hello");
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first.value().status, 200);
  EXPECT_EQ(first.value().body, "POST/p q?a=1hello");
  EXPECT_EQ(first.value().header("x-key"), "v");
  EXPECT_EQ(first.value().header("x-host"), "127.0.0.1:" + std::to_string(server->port()));
  const auto second = client.send("GET", "/x", {}, "");
  EXPECT_EQ(second.value().status, 404);
  EXPECT_EQ(second.value().header("x-peer"), first.value().header("x-peer"));
  EXPECT_EQ(client.send("HEAD", "/h", {}, "").value().body, "");
  EXPECT_EQ(client.send("GET", "/after", {}, "").value().body, "GET/after?");
}

TEST(HttpClient, pieces_arrive_while_the_server_still_writes) {
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  std::atomic<int> num_events = 0;
  std::thread answering([&] {
    HttpExchange exchange = exchanges.next().second;
    exchange.begin_stream(200, {});
    for (int i = 0; i < 5; ++i) {
      exchange.write("data: " + std::to_string(i) + "\n\n");
      EXPECT_TRUE(eventually([&] { return num_events == i + 1; }));
    }
    exchange.finish();
  });
  SseReader reader([&](std::string_view, std::string_view data) {
    EXPECT_EQ(data, std::to_string(num_events));
    ++num_events;
    return true;
  });
  HttpClient client(local(server->port()));
  const auto response =
      client.send("GET", "/", {}, "", [&](std::string_view piece) { return reader.feed(piece); });
  answering.join();
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(num_events, 5);
  EXPECT_EQ(response.value().body, "");
}

TEST(HttpClient, a_caller_may_stop_in_the_middle_and_ask_again) {
  std::atomic<int> num_gone = 0;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  HttpClient client(local(server->port()));
  std::thread answering([&] {
    HttpExchange exchange = exchanges.next().second;
    exchange.on_disconnect([&] { ++num_gone; });
    exchange.begin_stream(200, {});
    exchange.write("first");
    EXPECT_TRUE(eventually([&] { return num_gone == 1; }));
    exchanges.next().second.respond({.body = "again"});
  });
  EXPECT_TRUE(client.send("GET", "/", {}, "", [](std::string_view) { return false; }).ok());
  EXPECT_EQ(client.send("GET", "/", {}, "").value().body, "again");
  answering.join();
}

TEST(HttpClient, errors_are_kept_whole_though_pieces_were_asked_for) {
  const auto server = serve([](const HttpRequest&, HttpExchange exchange) {
    exchange.respond({.status = 400, .body = "why"});
  });
  HttpClient client(local(server->port()));
  const auto response = client.send("GET", "/", {}, "", [](std::string_view) -> bool {
    ADD_FAILURE() << "a piece of an error";
    return true;
  });
  EXPECT_EQ(response.value().status, 400);
  EXPECT_EQ(response.value().body, "why");
}

TEST(HttpClient, every_form_of_answer) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", "abc"},
      {"HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x\r\nbc\r\n0\r\nT: "
       "x\r\n\r\n",
       "abc"},
      {"HTTP/1.0 200 OK\r\n\r\nabc", "abc"},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 "
       "OK\r\ncontent-length: 3\r\n\r\nabc",
       "abc"},
      {"HTTP/1.1 204 No Content\r\n\r\n", ""},
  };
  for (const auto& [answer, body] : cases) {
    Canned server({{answer}});
    HttpClient client(local(server.port()));
    const auto response = client.send("GET", "/", {}, "");
    ASSERT_TRUE(response.ok()) << answer << response.error().message;
    EXPECT_EQ(response.value().body, body);
  }
}

TEST(HttpClient, what_goes_wrong_is_said_in_one_sentence) {
  const auto answered = [](const std::string& answer, HttpClientOptions options = {}) {
    Canned server({{answer}});
    const std::string name = "http://127.0.0.1:" + std::to_string(server.port());
    HttpClient client(local(server.port()), std::move(options));
    std::string error = error_of(client.send("POST", "/", {}, ""));
    if (const std::size_t at = error.find(name); at != error.npos)
      error.replace(at, name.size(), "URL");
    return error;
  };
  EXPECT_EQ(answered("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"),
            "URL: the connection was closed within the answer");
  EXPECT_EQ(answered("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"),
            "URL: the connection was closed within the answer");
  EXPECT_EQ(answered("HTTP/1.1 200 OK\r\nx: "), "URL: the connection was closed within the answer");
  EXPECT_EQ(answered(""), "URL: the connection was closed without an answer");
  EXPECT_EQ(answered("SSH-2.0\r\n\r\n"),
            "URL: the answer is not valid HTTP: Received HTTP/0.9 when not allowed");
  EXPECT_EQ(answered("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", {.max_body_bytes = 2}),
            "URL: the answer is longer than 2 bytes");

  const std::string too_long = "URL: the head of the answer is longer than 262144 bytes";
  const std::string field = std::string(1000, 'x') + ": y\r\n";
  std::string fields;
  for (int i = 0; i < 270; ++i) fields += field;
  EXPECT_EQ(answered("HTTP/1.1 200 OK\r\n" + fields + "\r\n"), too_long);
  EXPECT_EQ(answered("HTTP/1.1 200 OK\r\n" + std::string(270'000, 'x') + ": y\r\n\r\n"), too_long);

  int port = 0;
  { port = serve(echo)->port(); }
  HttpClient nobody(local(port));
  EXPECT_EQ(error_of(nobody.send("GET", "/", {}, "")),
            "cannot reach http://127.0.0.1:" + std::to_string(port) + ": Connection refused");
  HttpClient nowhere("http://no-such-host.invalid");
  EXPECT_EQ(error_of(nowhere.send("GET", "/", {}, "")).substr(0, 71),
            "cannot reach http://no-such-host.invalid: the host does not resolve: Co");
  EXPECT_EQ(error_of(nobody.send("GET", "x", {}, "")), "the path \"x\" cannot be asked for");
  EXPECT_EQ(error_of(nobody.send("GET", "/a b", {}, "")), "the path \"/a b\" cannot be asked for");
  EXPECT_EQ(error_of(nobody.send("GET", "/", {{"x", "a\r\nb: c"}}, "")),
            "the header \"x\" cannot be sent: it has control characters");
}

TEST(HttpClient, a_silent_server_is_not_waited_for_for_ever) {
  std::vector<HttpExchange> held;  // the io thread's
  const auto server = serve([&](const HttpRequest&, HttpExchange exchange) {
    if (held.empty()) {
      held.push_back(std::move(exchange));
    } else {
      exchange.respond({.body = "late"});
    }
  });
  HttpClient client(local(server->port()), {.read_seconds = 0.1});
  EXPECT_EQ(error_of(client.send("GET", "/", {}, "")),
            "cannot read from http://127.0.0.1:" + std::to_string(server->port()) +
                ": nothing came within 0.1 s");
  EXPECT_TRUE(eventually(
      [&] { return client.send("GET", "/", {}, "").ok(); }));  // the next one is a new connection
}

TEST(HttpClient, what_came_while_a_callback_worked_was_no_silence) {
  Queue<HttpExchange> held;
  const auto server = serve([&](const HttpRequest& request, HttpExchange exchange) {
    if (request.path == "/held") {
      held.push(std::move(exchange));
    } else {
      exchange.respond({.body = "now"});
    }
  });
  HttpClient client(local(server->port()), {.read_seconds = 2});
  std::string answer = "none";
  client.start({.method = "GET", .target = "/held", .on_done = [&](Result<HttpResponse> result) {
                  answer = result.ok() ? result.value().body : error_of(result);
                }});
  std::optional<HttpExchange> late;
  const std::function<void()> look = [&] {
    late = held.pop_for(0);
    if (!late) return client.after(0.01, look);
    client.start({.method = "GET", .target = "/", .on_done = [&](const Result<HttpResponse>&) {
                    late->respond({.body = "in time"});
                    std::this_thread::sleep_for(std::chrono::milliseconds(2200));
                  }});
  };
  look();
  client.run();
  EXPECT_EQ(answer, "in time");
}

TEST(HttpClient, a_kept_connection_that_the_server_closed_is_replaced) {
  HttpServerOptions options;
  options.limits.idle_seconds = 1;  // the client must say its first byte in this time, too
  const auto server = serve(echo, options);
  HttpClient client(local(server->port()));
  EXPECT_EQ(client.send("POST", "/", {}, "x").value().body, "POST / x");
  ASSERT_TRUE(eventually([&] { return server->num_connections() == 0; }));
  EXPECT_EQ(client.send("POST", "/", {}, "x").value().body, "POST / x");
}

TEST(HttpClient, a_request_that_changes_something_is_sent_once) {
  const std::string answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
  Canned server({{""}, {answer}});
  HttpClient client(local(server.port()));
  EXPECT_FALSE(client.send("POST", "/", {}, "x").ok());
  EXPECT_EQ(server.num_heard(), 1);
  EXPECT_TRUE(client.send("POST", "/", {}, "x").ok());
}

TEST(HttpClient, on_a_kept_connection_that_dies_only_reading_is_tried_again) {
  const std::string answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
  Canned server({{answer, ""}, {answer, ""}});
  HttpClient client(local(server.port()));
  EXPECT_TRUE(client.send("GET", "/", {}, "").ok());
  EXPECT_TRUE(client.send("GET", "/", {}, "").ok());
  EXPECT_EQ(server.num_heard(), 3);
  EXPECT_EQ(error_of(client.send("POST", "/", {}, "x")),
            local(server.port()) + ": the connection was closed without an answer");
  EXPECT_EQ(server.num_heard(), 4);
}

TEST(HttpClient, redirections_are_told_and_other_servers_can_be_asked) {
  const auto other = serve(echo);
  const auto server = serve([&](const HttpRequest&, HttpExchange exchange) {
    exchange.respond({.status = 302, .headers = {{"location", local(other->port()) + "/there"}}});
  });
  HttpClient client(local(server->port()));
  const HttpResponse answer = client.send("GET", "/", {}, "").value();
  EXPECT_EQ(answer.status, 302);
  EXPECT_EQ(client.send("GET", std::string(answer.header("location")), {}, "").value().body,
            "GET /there ");
}

TEST(HttpClient, proxies_of_the_environment_count_where_they_are_asked_for) {
  const auto proxy = serve([](const HttpRequest& request, HttpExchange exchange) {
    exchange.respond({.body = "proxy for " + std::string(request.header("host"))});
  });
  const KeptEnvironment kept;
  for (const char* name : {"no_proxy", "NO_PROXY"}) unsetenv(name);
  setenv("http_proxy", local(proxy->port()).c_str(), 1);
  HttpClient with("http://no-such-host.invalid", {.use_proxy = true});
  EXPECT_EQ(with.send("GET", "/", {}, "").value().body, "proxy for no-such-host.invalid");
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  HttpClient dead("http://no-such-host.invalid", {.use_proxy = true});
  EXPECT_NE(dead.send("GET", "/", {}, "").error().message.find("127.0.0.1 port 1"),
            std::string::npos);
  HttpClient without("http://no-such-host.invalid");
  EXPECT_FALSE(without.send("GET", "/", {}, "").ok());
  const auto server = serve(echo);
  HttpClient here(local(server->port()), {.use_proxy = true});
  EXPECT_EQ(here.send("GET", "/", {}, "").value().body, "GET / ");
}

TEST(HttpClient, a_refusal_is_read_though_the_body_was_not_taken) {
  HttpServerOptions options;
  options.limits.max_body_bytes = 1000;
  const auto server = serve(echo, options);
  HttpClient client(local(server->port()));
  const auto response = client.send("POST", "/", {}, std::string(8'000'000, 'x'));
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response.value().status, 413);
}

}  // namespace
}  // namespace glint
