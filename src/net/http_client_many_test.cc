#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "net/http_client.h"
#include "net/testing.h"

namespace glint {
namespace {

HttpClient client_of(int port, HttpClientOptions options = {}) {
  options.max_connections = 1024;
  return HttpClient("http://127.0.0.1:" + std::to_string(port), std::move(options));
}

TEST(HttpClientMany, many_exchanges_run_at_once_and_each_gets_its_own_answer) {
  // The server answers nobody before all have asked: only a client that really sends them all at
  // once gets through.
  constexpr int kExchanges = 100;  // two files each, where few may be open
  std::mutex mutex;
  std::vector<std::pair<std::string, HttpExchange>> waiting;
  auto server = serve([&](const HttpRequest& request, HttpExchange exchange) {
    const std::lock_guard lock(mutex);
    waiting.emplace_back(request.body, std::move(exchange));
    if (waiting.size() < kExchanges) return;
    for (auto& [body, each] : waiting) {
      each.begin_stream(200, {});
      each.write(body);
      each.write("!");
      each.finish();
    }
  });
  auto client = client_of(server->port());
  std::vector<std::string> heard(kExchanges);
  int num_done = 0;
  for (int i = 0; i < kExchanges; ++i) {
    client.start({.method = "POST",
                  .body = std::to_string(i),
                  .on_piece =
                      [&heard, i](std::string_view piece) {
                        heard[static_cast<std::size_t>(i)] += piece;
                        return true;
                      },
                  .on_done =
                      [&num_done](Result<HttpResponse> response) {
                        ASSERT_TRUE(response.ok()) << response.error().message;
                        EXPECT_EQ(response.value().status, 200);
                        ++num_done;
                      }});
  }
  client.run();
  EXPECT_EQ(num_done, kExchanges);
  for (int i = 0; i < kExchanges; ++i)
    EXPECT_EQ(heard[static_cast<std::size_t>(i)], std::to_string(i) + "!");
}

TEST(HttpClientMany, connections_are_kept_and_callbacks_begin_exchanges) {
  std::mutex mutex;
  std::vector<std::string> peers;
  auto server = serve([&](const HttpRequest& request, HttpExchange exchange) {
    const std::lock_guard lock(mutex);
    peers.push_back(request.peer);
    exchange.respond({.body = "ok"});
  });
  auto client = client_of(server->port());
  int left = 5;
  std::function<void()> next = [&] {
    client.start({.on_done = [&](Result<HttpResponse> response) {
      ASSERT_TRUE(response.ok());
      EXPECT_EQ(response.value().body, "ok");
      if (--left > 0) next();
    }});
  };
  next();
  client.run();
  EXPECT_EQ(peers, std::vector<std::string>(5, peers.at(0)));
}

TEST(HttpClientMany, what_fails_is_told_and_the_rest_goes_on) {
  auto server = serve([](const HttpRequest& request, HttpExchange exchange) {
    if (request.path == "/cut") {
      exchange.begin_stream(200, {});
      exchange.write("x");
      return;  // the handle is dropped within the answer
    }
    exchange.respond({.status = 503, .body = "busy"});
  });
  auto client = client_of(server->port());
  std::string cut, refused, bad;
  client.start({.target = "/cut", .on_done = [&](Result<HttpResponse> r) {
                  ASSERT_FALSE(r.ok());
                  cut = r.error().message;
                }});
  client.start({.on_done = [&](Result<HttpResponse> r) {
    ASSERT_TRUE(r.ok());
    refused = std::to_string(r.value().status) + r.value().body;
  }});
  client.start({.target = "no slash", .on_done = [&](Result<HttpResponse> r) {
                  ASSERT_FALSE(r.ok());
                  bad = r.error().message;
                }});
  client.run();
  EXPECT_FALSE(cut.empty());
  EXPECT_EQ(refused, "503busy");
  EXPECT_EQ(bad, "the path \"no slash\" cannot be asked for");
}

TEST(HttpClientMany, a_server_that_says_nothing_is_left) {
  std::mutex mutex;
  std::vector<HttpExchange> held;
  auto server = serve([&](const HttpRequest&, HttpExchange exchange) {
    const std::lock_guard lock(mutex);
    held.push_back(std::move(exchange));
  });
  auto client = client_of(server->port(), {.read_seconds = 0.05});
  std::string errors;
  for (const double seconds : {0.0, 0.07}) {
    client.start({.read_seconds = seconds, .on_done = [&](Result<HttpResponse> r) {
                    ASSERT_FALSE(r.ok());
                    errors += r.error().message;
                  }});
  }
  client.run();
  for (const char* const said : {"nothing came within 0.05 s", "nothing came within 0.07 s"}) {
    EXPECT_NE(errors.find(said), std::string::npos) << errors;
  }
}

TEST(HttpClientMany, a_reader_that_has_enough_ends_the_exchange) {
  std::atomic<bool> gone = false;
  std::mutex mutex;
  std::vector<HttpExchange> held;
  auto server = serve([&](const HttpRequest&, HttpExchange exchange) {
    exchange.on_disconnect([&] { gone = true; });
    exchange.begin_stream(200, {});
    exchange.write("enough");
    const std::lock_guard lock(mutex);
    held.push_back(std::move(exchange));
  });
  auto client = client_of(server->port());
  bool done = false;
  client.start({.on_piece = [](std::string_view) { return false; },
                .on_done = [&](const Result<HttpResponse>& r) { done = r.ok(); }});
  client.run();
  EXPECT_TRUE(done);
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

TEST(HttpClientMany, stop_ends_what_waits_and_the_server_notices) {
  std::atomic<bool> asked = false, gone = false;
  std::mutex mutex;
  std::vector<HttpExchange> held;
  auto server = serve([&](const HttpRequest&, HttpExchange exchange) {
    exchange.on_disconnect([&] { gone = true; });
    const std::lock_guard lock(mutex);
    held.push_back(std::move(exchange));
    asked = true;
  });
  auto client = client_of(server->port());
  bool done = false;
  client.start({.on_done = [&](const Result<HttpResponse>&) { done = true; }});
  const std::function<void()> look = [&] { asked ? client.stop() : client.after(0.001, look); };
  look();
  client.run();
  EXPECT_FALSE(done);
  client = HttpClient("http://127.0.0.1");
  EXPECT_TRUE(eventually([&] { return gone.load(); }));
}

TEST(HttpClientMany, what_is_cancelled_is_not_told_and_the_rest_goes_on) {
  std::atomic<int> num_gone = 0;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  HttpClient client = client_of(server->port());
  std::vector<std::string> told;
  const auto ask = [&](const std::string& name) {
    return client.start({.method = "POST", .body = name, .on_done = [&told, name](const auto&) {
                           told.push_back(name);
                         }});
  };
  const HttpClient::Id first = ask("first"), unsent = ask("unsent");
  ask("third");
  client.cancel(unsent);
  std::atomic<bool> first_is_there = false;
  std::thread answering([&] {
    for (int i = 0; i < 2; ++i) {
      auto [request, exchange] = exchanges.next();
      EXPECT_NE(request.body, "unsent");
      exchange.on_disconnect([&num_gone] { ++num_gone; });
      if (request.body == "first") {
        exchange.begin_stream(200, {});
        exchange.write("x");
        first_is_there = true;
        EXPECT_TRUE(eventually([&num_gone] { return num_gone == 1; }));
      } else {
        exchange.respond({});
      }
    }
  });
  const std::function<void()> look = [&] {
    first_is_there ? client.cancel(first) : client.after(0.001, look);
  };
  look();
  client.run();
  answering.join();
  EXPECT_EQ(told, std::vector<std::string>{"third"});
  client.cancel(first);  // again: nothing
}

TEST(HttpClientMany, timers_come_in_their_order) {
  HttpClient client("http://127.0.0.1:1");
  std::string order;
  client.after(60, [&] { order += "c"; });
  client.after(0, [&] {
    order += "a";
    client.after(0.001, [&] {
      order += "b";
      client.stop();
    });
  });
  client.run();
  EXPECT_EQ(order, "ab");
}

TEST(HttpClientMany, nobody_there_is_told) {
  int port = 0;
  {
    auto server = serve([](const HttpRequest&, HttpExchange exchange) { exchange.respond({}); });
    port = server->port();
  }
  auto client = client_of(port);
  std::string error;
  client.start({.on_done = [&](Result<HttpResponse> r) {
    ASSERT_FALSE(r.ok());
    error = r.error().message;
  }});
  client.run();
  EXPECT_NE(error.find("cannot reach http://127.0.0.1:"), std::string::npos) << error;
}

}  // namespace
}  // namespace glint
