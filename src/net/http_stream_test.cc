// Answers that grow, and clients that go away or do not read.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <vector>

#include "net/http_server.h"
#include "net/testing.h"

namespace glint {
namespace {

const std::string kGet = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

// The body that chunks make; "<bad>" at the end if they are not well formed to the last.
std::string dechunked(std::string_view text) {
  std::string out;
  for (;;) {
    const std::size_t end = text.find("\r\n");
    if (end == text.npos) return out + "<bad>";
    const std::size_t size = std::stoul(std::string(text.substr(0, end)), nullptr, 16);
    text.remove_prefix(end + 2);
    if (text.size() < size + 2 || text.substr(size, 2) != "\r\n") return out + "<bad>";
    out += text.substr(0, size);
    text.remove_prefix(size + 2);
    if (size == 0) return text.empty() ? out : out + "<bad>";
  }
}

TEST(HttpStream, pieces_arrive_as_they_are_written) {
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  RawClient client(server->port());
  client.send(kGet);
  auto [request, exchange] = exchanges.next();
  exchange.begin_stream(200, {{"content-type", "text/event-stream"}});
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_NE(head.find("transfer-encoding: chunked\r\n"), head.npos);
  EXPECT_NE(head.find("content-type: text/event-stream\r\n"), head.npos);
  EXPECT_EQ(head.find("content-length"), head.npos);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(exchange.write("data: " + std::to_string(i)));
    EXPECT_EQ(client.read_until("\r\ndata: " + std::to_string(i) + "\r\n").substr(0, 1), "7");
  }
  EXPECT_TRUE(exchange.write(""));  // no empty chunk: it would end the body
  exchange.finish();
  EXPECT_EQ(client.read_until("0\r\n\r\n"), "0\r\n\r\n");
  EXPECT_FALSE(exchange.write("late"));
  client.send(kGet);  // the connection is kept
  exchanges.next().second.respond({.body = "next"});
  EXPECT_EQ(client.read_until("next").substr(0, 15), "HTTP/1.1 200 OK");
}

TEST(HttpStream, http_1_0_reads_to_the_end_of_the_connection) {
  const auto server = serve([](const HttpRequest&, HttpExchange exchange) {
    exchange.begin_stream(200, {});
    exchange.write("abc");
    exchange.write("def");
    exchange.finish();
  });
  RawClient client(server->port());
  const std::string answer = client.exchange("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(answer.find("chunked"), answer.npos);
  EXPECT_NE(answer.find("connection: close\r\n"), answer.npos);
  EXPECT_EQ(answer.substr(answer.size() - 10), "\r\n\r\nabcdef");
}

TEST(HttpStream, writes_of_many_threads_keep_their_order) {
  constexpr int kStreams = 20, kThreads = 4, kPieces = 500;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<HttpExchange> streams;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    clients.back()->send("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    streams.push_back(exchanges.next().second);
    streams.back().begin_stream(200, {});
  }
  std::string expected;
  for (int i = 0; i < kPieces; ++i) expected += std::to_string(i) + ";";
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPieces; ++i) {
        for (int s = t; s < kStreams; s += kThreads) {
          EXPECT_TRUE(streams[s].write(std::to_string(i) + ";"));
        }
      }
      for (int s = t; s < kStreams; s += kThreads) streams[s].finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (auto& client : clients) {
    const std::string answer = client->read_all();
    EXPECT_EQ(dechunked(answer.substr(answer.find("\r\n\r\n") + 4)), expected);
  }
}

// A function for on_disconnect that counts.
struct Counter {
  std::atomic<int> count = 0;
  std::function<void()> fn() {
    return [this] { ++count; };
  }
};

TEST(HttpStream, a_client_that_leaves_is_noticed_while_nothing_is_sent) {
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  Counter gone;
  RawClient client(server->port());
  client.send(kGet);
  auto [request, exchange] = exchanges.next();
  exchange.on_disconnect(gone.fn());
  EXPECT_EQ(gone.count, 0);
  client.close();
  ASSERT_TRUE(eventually([&] { return gone.count == 1; }));
  EXPECT_EQ(server->num_connections(), 0);
  exchange.begin_stream(200, {});
  EXPECT_FALSE(exchange.write("to nobody"));
  exchange.finish();
  exchange.on_disconnect(gone.fn());  // complete: not called
}

TEST(HttpStream, a_client_that_leaves_is_noticed_while_streaming) {
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  Counter gone, late;
  RawClient client(server->port());
  client.send(kGet);
  auto [request, exchange] = exchanges.next();
  exchange.begin_stream(200, {});
  exchange.on_disconnect(gone.fn());
  exchange.write("a");
  client.read_until("a\r\n");
  client.close();
  ASSERT_TRUE(eventually([&] { return gone.count == 1; }));
  EXPECT_FALSE(exchange.write("b"));
  exchange.on_disconnect(late.fn());  // given too late: called at once
  EXPECT_TRUE(eventually([&] { return late.count == 1; }));
  EXPECT_EQ(gone.count, 1);
}

TEST(HttpStream, a_client_that_leaves_behind_unread_requests_is_noticed) {
  HttpServerOptions options;
  options.limits.max_header_bytes = 1000;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler(), options);
  Counter gone;
  RawClient client(server->port());
  client.send(kGet);
  auto [request, exchange] = exchanges.next();
  exchange.on_disconnect(gone.fn());
  for (int i = 0; i < 1000; ++i) client.send(kGet);  // more than the server reads ahead
  client.shutdown_send();
  EXPECT_TRUE(eventually([&] { return gone.count == 1; }));
}

TEST(HttpStream, what_was_read_ahead_does_not_hide_the_rest) {
  HttpServerOptions options;
  options.limits.max_header_bytes = 1000;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler(), options);
  RawClient client(server->port());
  for (int i = 0; i < 1000; ++i) client.send(kGet);
  for (int i = 0; i < 1000; ++i) exchanges.next().second.respond({.status = 204});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(client.read_until("\r\n\r\n").substr(0, 12), "HTTP/1.1 204");
  }
}

TEST(HttpStream, disconnects_of_finished_answers_are_nobody_s_business) {
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  Counter gone;
  RawClient client(server->port());
  client.send(kGet);
  auto [request, exchange] = exchanges.next();
  exchange.on_disconnect(gone.fn());
  exchange.respond({.body = "x"});
  client.read_until("\r\n\r\nx");
  client.close();
  ASSERT_TRUE(eventually([&] { return server->num_connections() == 0; }));
  EXPECT_EQ(gone.count, 0);
}

TEST(HttpStream, a_reader_that_takes_nothing_is_closed_when_the_buffer_is_full) {
  HttpServerOptions options;
  options.limits.max_stream_buffer = 100'000;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler(), options);
  Counter gone;
  RawClient client(server->port(), 4096);
  client.send(kGet);
  auto [request, exchange] = exchanges.next();
  exchange.on_disconnect(gone.fn());
  exchange.begin_stream(200, {});
  const std::string piece(10'000, 'x');
  EXPECT_TRUE(eventually([&, &exchange = exchange] { return !exchange.write(piece); }));
  EXPECT_TRUE(eventually([&] { return gone.count == 1; }));
  EXPECT_EQ(server->num_connections(), 0);
  const std::string got = client.read_all();
  EXPECT_EQ(got.substr(got.size() - 7), "<reset>");
}

TEST(HttpStream, a_piece_may_be_larger_than_the_buffer) {
  HttpServerOptions options;
  options.limits.max_stream_buffer = 1000;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler(), options);
  RawClient client(server->port());
  client.send(kGet);
  auto [request, exchange] = exchanges.next();
  exchange.begin_stream(200, {});
  EXPECT_TRUE(exchange.write(std::string(1'000'000, 'x')));
  EXPECT_TRUE(exchange.write("the end"));
  client.read_until("the end\r\n");
  // The client may have it all before the server goes on.
  EXPECT_TRUE(eventually([&, &exchange = exchange] { return exchange.num_unsent() == 0; }));
  EXPECT_TRUE(exchange.write(std::string(1'000'000, 'y')));
  exchange.finish();
  const std::string rest = client.read_until("y\r\n0\r\n\r\n");
  EXPECT_EQ(std::count(rest.begin(), rest.end(), 'y'), 1'000'000);
}

TEST(HttpStream, a_reader_that_takes_nothing_for_too_long_is_closed) {
  HttpServerOptions options;
  options.limits.write_seconds = 0.2;
  options.limits.max_stream_buffer = std::size_t{64} << 20;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler(), options);
  RawClient client(server->port(), 4096);
  client.send(kGet);
  auto [request, exchange] = exchanges.next();
  exchange.respond({.body = std::string(20'000'000, 'x')});
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }));
}

TEST(HttpStream, answers_that_nobody_reads_are_bounded_together) {
  HttpServerOptions options;
  options.limits.max_total_body_bytes = 30'000'000;
  const auto server =
      serve([](const HttpRequest&,
               HttpExchange exchange) { exchange.respond({.body = std::string(20'000'000, 'x')}); },
            options);
  RawClient slow(server->port(), 4096), next(server->port(), 4096);
  slow.send(kGet);
  ASSERT_TRUE(eventually([&] { return slow.is_readable(); }));
  next.send(kGet);
  const std::string cut = slow.read_all();
  EXPECT_EQ(cut.substr(cut.size() - 7), "<reset>");
  EXPECT_EQ(next.read_until("xxxx").substr(0, 15), "HTTP/1.1 200 OK");
}

TEST(HttpStream, what_a_stream_gathers_behind_a_write_is_bounded_with_them) {
  HttpServerOptions options;
  options.limits.max_total_body_bytes = 40'000'000;
  options.limits.max_stream_buffer = 100'000'000;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler(), options);
  RawClient slow(server->port(), 4096), next(server->port(), 4096);
  slow.send(kGet);
  HttpExchange stream = exchanges.next().second;
  stream.begin_stream(200, {});
  stream.write(std::string(20'000'000, 'x'));
  ASSERT_TRUE(eventually([&] { return slow.is_readable(); }));  // the socket is full
  stream.write(std::string(15'000'000, 'y'));
  next.send(kGet);
  exchanges.next().second.respond({.body = std::string(10'000'000, 'x')});
  const std::string cut = slow.read_all();
  EXPECT_EQ(cut.substr(cut.size() - 7), "<reset>");
  EXPECT_EQ(next.read_until("xxxx").substr(0, 15), "HTTP/1.1 200 OK");
}

TEST(HttpStream, a_slow_reader_that_reads_gets_everything) {
  constexpr int kParts = 16;  // more together than sockets hold
  const std::string part = std::string(1'500'000, 'x') + "\n";
  const auto is_read = [&](double write_seconds) {  // in a longer time than that
    HttpServerOptions options;
    options.limits.write_seconds = write_seconds;
    const auto server = serve(
        [&](const HttpRequest&, HttpExchange exchange) {
          std::string body;
          for (int i = 0; i < kParts; ++i) body += part;
          exchange.respond({.headers = {{"connection", "close"}}, .body = std::move(body)});
        },
        options);
    RawClient client(server->port(), 64 << 10);
    client.send(kGet);
    client.read_until("\r\n\r\n");
    for (int i = 0; i < kParts; ++i) {
      if (client.read_until("\n") != part) return false;
      std::this_thread::sleep_for(std::chrono::duration<double>(1.5 * write_seconds / kParts));
    }
    return client.read_all().empty();
  };
  // On a busy machine the reader may not run for so long.
  EXPECT_TRUE(is_read(0.8) || is_read(3) || is_read(12));
}

TEST(HttpStream, a_stream_that_is_dropped_is_cut_off) {
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  RawClient client(server->port());
  client.send(kGet);
  {
    auto [request, exchange] = exchanges.next();
    exchange.begin_stream(200, {});
    exchange.write("part");
    client.read_until("part\r\n");
  }
  EXPECT_EQ(client.read_all(), "<reset>");
}

TEST(HttpStream, shutdown_with_open_streams_tells_their_owners) {
  Exchanges exchanges;
  auto server = serve(exchanges.handler());
  Counter gone;
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<HttpExchange> streams;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    clients.back()->send(kGet);
    streams.push_back(exchanges.next().second);
    streams.back().on_disconnect(gone.fn());
    if (i % 2) streams.back().begin_stream(200, {});
  }
  std::atomic<bool> done = false;
  std::thread writer([&] {
    while (!done) {
      for (HttpExchange& stream : streams) stream.write("x");
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  server.reset();
  EXPECT_EQ(gone.count, 10);
  for (HttpExchange& stream : streams) EXPECT_FALSE(stream.write("x"));
  done = true;
  writer.join();
  for (HttpExchange& stream : streams) stream.respond({});
  streams[0].on_disconnect(gone.fn());
  for (auto& client : clients) EXPECT_FALSE(client->read_all().ends_with("<waits>"));
}

TEST(HttpStream, sigpipe_does_not_end_the_process) {
  const auto old = std::signal(SIGPIPE, SIG_DFL);
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  for (int i = 0; i < 20; ++i) {
    RawClient client(server->port());
    client.send(kGet);
    auto [request, exchange] = exchanges.next();
    exchange.begin_stream(200, {});
    client.close();
    while (exchange.write(std::string(1000, 'x'))) {
    }
  }
  std::signal(SIGPIPE, old);
}

TEST(HttpStream, clients_that_come_and_go_leave_nothing) {
  std::atomic<int> num_gone = 0;
  Exchanges exchanges;
  const auto server = serve(exchanges.handler());
  std::vector<HttpExchange> streams;
  for (int i = 0; i < 200; ++i) {
    RawClient client(server->port());
    client.send(kGet);
    streams.push_back(exchanges.next().second);
    streams.back().on_disconnect([&] { ++num_gone; });
    streams.back().begin_stream(200, {});
    streams.back().write("x");
  }
  EXPECT_TRUE(eventually([&] { return num_gone == 200 && server->num_connections() == 0; }));
}

}  // namespace
}  // namespace glint
