// Wraps Asio: an exchange is a coroutine. Times are deadlines, looked at twice a second.
#include "net/async_http_client.h"

#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/seconds.h"
#include "base/str.h"
#include "net/client_setup.h"
#include "net/file_limit.h"
#include "net/response_parser.h"

namespace glint {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadBytes = 16 << 10;
constexpr auto kLookEvery = std::chrono::milliseconds(500);

struct Connection {
  Connection(asio::io_context& io, asio::ssl::context* tls) : stream(tcp::socket(io), tls) {}

  // The server has closed it, or says something that nobody asked for.
  bool is_stale() {
    char byte;
    return recv(stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
  }

  SocketStream stream;
  std::string buffer = std::string(kReadBytes, '\0');
  Clock::time_point deadline = {};
  bool timed_out = false;
};

}  // namespace

struct AsyncHttpClient::Impl {
  Impl(Url url, HttpClientOptions o)
      : server(std::move(url)),
        options(std::move(o)),
        name(str(server.tls ? "https://" : "http://", authority(server))) {}

  asio::awaitable<void> run_exchange(std::shared_ptr<Exchange> exchange);
  asio::awaitable<Status> answer(Connection& connection, const std::string& text,
                                 ResponseParser& parser);
  asio::awaitable<Status> connect(Connection& connection);
  asio::awaitable<Status> write(Connection& connection, const std::string& text);
  asio::awaitable<Status> read(Connection& connection, ResponseParser& parser);
  std::unique_ptr<Connection> take_kept();
  Error failed(const char* doing, const Connection& connection, const error_code& ec) const;
  void look_at_deadlines();

  const Url server;
  const HttpClientOptions options;
  const std::string name;
  std::unique_ptr<asio::ssl::context> tls;
  asio::io_context io{1};
  tcp::resolver::results_type endpoints;
  std::vector<std::unique_ptr<Connection>> kept;
  std::unordered_set<Connection*> busy;
  int num_open = 0;  // exchanges and timers
  bool stopped = false;
};

Error AsyncHttpClient::Impl::failed(const char* doing, const Connection& connection,
                                    const error_code& ec) const {
  return {ErrorCode::kUnavailable,
          str(doing, " ", name, ": ", connection.timed_out ? "timed out" : ec.message())};
}

std::unique_ptr<Connection> AsyncHttpClient::Impl::take_kept() {
  while (!kept.empty()) {
    std::unique_ptr<Connection> connection = std::move(kept.back());
    kept.pop_back();
    if (!connection->is_stale()) return connection;
  }
  return nullptr;
}

asio::awaitable<Status> AsyncHttpClient::Impl::connect(Connection& connection) {
  connection.deadline = Clock::now() + from_seconds(options.connect_seconds);
  SocketStream& stream = connection.stream;
  const auto [ec, end] =
      co_await asio::async_connect(stream.socket(), endpoints, asio::as_tuple(asio::use_awaitable));
  if (ec) co_return failed("cannot reach", connection, ec);
  error_code ignored;
  stream.socket().set_option(tcp::no_delay(true), ignored);
  if (!stream.tls()) co_return Ok{};
  expect_host(*stream.tls(), server);
  const auto [no_tls] = co_await stream.tls()->async_handshake(asio::ssl::stream_base::client,
                                                               asio::as_tuple(asio::use_awaitable));
  if (!no_tls) co_return Ok{};
  Status trusted = certificate_status(*stream.tls(), name);
  if (!trusted.ok()) co_return trusted;
  co_return failed("no TLS with", connection, no_tls);
}

asio::awaitable<Status> AsyncHttpClient::Impl::write(Connection& connection,
                                                     const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    connection.deadline = Clock::now() + from_seconds(options.read_seconds);
    const auto buffer = asio::buffer(text.data() + sent, text.size() - sent);
    const auto [ec, n] =
        co_await connection.stream.async_write_some(buffer, asio::as_tuple(asio::use_awaitable));
    if (ec) co_return failed("cannot send to", connection, ec);
    sent += n;
  }
  co_return Ok{};
}

asio::awaitable<Status> AsyncHttpClient::Impl::read(Connection& connection,
                                                    ResponseParser& parser) {
  while (!parser.done()) {
    connection.deadline = Clock::now() + from_seconds(options.read_seconds);
    const auto [ec, n] = co_await connection.stream.async_read_some(
        asio::buffer(connection.buffer), asio::as_tuple(asio::use_awaitable));
    if (ec == asio::error::eof) co_return parser.feed_end();
    if (ec) co_return failed("cannot read from", connection, ec);
    Status fed = parser.feed(std::string_view(connection.buffer).substr(0, n));
    if (!fed.ok()) co_return fed;
  }
  co_return Ok{};
}

asio::awaitable<Status> AsyncHttpClient::Impl::answer(Connection& connection,
                                                      const std::string& text,
                                                      ResponseParser& parser) {
  if (!connection.stream.socket().is_open()) {
    Status connected = co_await connect(connection);
    if (!connected.ok()) co_return connected;
  }
  Status written = co_await write(connection, text);
  // A server that refuses a body may answer and close before it has read all.
  Status status = co_await read(connection, parser);
  co_return status.ok() || written.ok() ? status : written;
}

asio::awaitable<void> AsyncHttpClient::Impl::run_exchange(std::shared_ptr<Exchange> exchange) {
  Result<std::string> text = request_text(
      server, {exchange->method, exchange->path, exchange->headers, std::move(exchange->body)});
  Status status = Ok{};
  ResponseParser parser({.head = exchange->method == "HEAD",
                         .max_body_bytes = options.max_body_bytes,
                         .on_piece = exchange->on_piece});
  if (text.ok()) {
    std::unique_ptr<Connection> connection = take_kept();
    if (!connection) connection = std::make_unique<Connection>(io, tls.get());
    busy.insert(connection.get());
    status = co_await answer(*connection, text.value(), parser);
    busy.erase(connection.get());
    if (status.ok() && parser.keep_alive()) kept.push_back(std::move(connection));
  } else {
    status = std::move(text).take_error();
  }
  if (exchange->on_done) {
    if (status.ok()) {
      exchange->on_done(parser.take());
    } else {
      exchange->on_done(std::move(status).take_error());
    }
  }
}

void AsyncHttpClient::Impl::look_at_deadlines() {
  const Clock::time_point now = Clock::now();
  for (Connection* connection : busy) {
    if (now < connection->deadline) continue;
    connection->timed_out = true;
    error_code ignored;
    connection->stream.socket().close(ignored);
  }
}

AsyncHttpClient::AsyncHttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AsyncHttpClient::~AsyncHttpClient() = default;

Result<std::unique_ptr<AsyncHttpClient>> AsyncHttpClient::open(Url server,
                                                               HttpClientOptions options,
                                                               int max_connections) {
  raise_file_limit(max_connections);
  auto impl = std::make_unique<Impl>(std::move(server), std::move(options));
  if (impl->server.tls) {
    GLINT_TRY(impl->tls, client_tls(impl->options));
  }
  error_code ec;
  tcp::resolver resolver(impl->io);
  impl->endpoints = resolver.resolve(impl->server.host, std::to_string(impl->server.port), ec);
  if (ec) {
    return Error{ErrorCode::kUnavailable,
                 str("cannot reach ", impl->name, ": the host does not resolve: ", ec.message())};
  }
  return std::unique_ptr<AsyncHttpClient>(new AsyncHttpClient(std::move(impl)));
}

void AsyncHttpClient::send(Exchange exchange) {
  ++impl_->num_open;
  // What a callback throws (there is no memory, say) comes out of run().
  asio::co_spawn(impl_->io, impl_->run_exchange(std::make_shared<Exchange>(std::move(exchange))),
                 [impl = impl_.get()](const std::exception_ptr& thrown) {
                   --impl->num_open;
                   if (thrown) std::rethrow_exception(thrown);
                 });
}

void AsyncHttpClient::after(double delay, std::function<void()> fn) {
  ++impl_->num_open;
  auto timer = std::make_shared<asio::steady_timer>(impl_->io, from_seconds(delay));
  timer->async_wait([impl = impl_.get(), timer, fn = std::move(fn)](const error_code&) {
    fn();
    --impl->num_open;
  });
}

void AsyncHttpClient::run() {
  while (impl_->num_open > 0 && !impl_->stopped) {
    impl_->io.restart();
    impl_->io.run_for(kLookEvery);
    impl_->look_at_deadlines();
  }
}

void AsyncHttpClient::stop() {
  impl_->stopped = true;
  impl_->io.stop();
}

}  // namespace glint
