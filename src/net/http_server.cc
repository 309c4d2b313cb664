// Wraps Asio: accepting, the io thread, and the clock of the connections.
#include "net/http_server.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/seconds.h"
#include "base/str.h"
#include "net/file_limit.h"
#include "net/http_connection.h"
#include "net/listener.h"

namespace glint {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr rlim_t kFewestFiles = 32;  // half of them before the first connection

// A peer whose machine is gone, not just the program, is noticed within a minute.
void tune(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  using Option = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPIDLE>;
  using Interval = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPINTVL>;
  using Count = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_KEEPCNT>;
  socket.set_option(Option(30), ignored);
  socket.set_option(Interval(10), ignored);
  socket.set_option(Count(3), ignored);
}

}  // namespace

struct HttpServer::Impl {
  ConnectionHost host;
  std::unique_ptr<asio::ssl::context> tls;
  // Destroyed before `host`: what still waits in it refers to that.
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  std::vector<tcp::acceptor> acceptors;
  asio::steady_timer tick{io};
  std::chrono::steady_clock::duration tick_period = {};
  int port = 0;
  std::thread thread;

  Impl(HttpServerOptions options, Handler handler)
      : host{.options = std::move(options), .handler = std::move(handler), .outbox = nullptr} {
    host.outbox = std::make_shared<Outbox>([this] { asio::post(io, [this] { drain_outbox(); }); });
    const HttpLimits& limits = host.options.limits;
    const double shortest = std::min({limits.header_seconds, limits.body_seconds,
                                      limits.idle_seconds, limits.write_seconds, 1.0});
    tick_period = from_seconds(std::max(shortest / 4, 0.005));
  }

  void drain_outbox();
  void run();
  asio::awaitable<void> accept_from(tcp::acceptor& acceptor);
  void accepted(tcp::socket socket);
  void check_deadlines();
  void close_acceptors();
  // As they are now: those that close leave the set.
  std::vector<std::shared_ptr<HttpConnection>> connections() const {
    return {host.connections.begin(), host.connections.end()};
  }
};

void HttpServer::Impl::drain_outbox() {
  int num_cut = 0;
  for (const auto& state : host.outbox->take()) {
    try {
      if (state->connection) {
        state->connection->flush();
      } else {
        state->call_if_gone();
      }
    } catch (const std::bad_alloc&) {  // the others are still to be written
      if (state->connection) state->connection->close(), ++num_cut;
    }
  }
  if (num_cut > 0) GLINT_LOG(kWarning, str(counted(num_cut, "answer"), " cut off: out of memory"));
}

asio::awaitable<void> HttpServer::Impl::accept_from(tcp::acceptor& acceptor) {
  while (acceptor.is_open()) {
    auto [ec, socket] = co_await acceptor.async_accept(asio::as_tuple(asio::use_awaitable));
    if (!acceptor.is_open()) co_return;
    if (!ec) {
      try {
        accepted(std::move(socket));
      } catch (const std::bad_alloc&) {
        GLINT_LOG(kWarning, "a connection was dropped: out of memory");
      }
      continue;
    }
    if (ec == asio::error::connection_aborted || ec == asio::error::interrupted) continue;
    // Out of file descriptors or memory: who waits in the backlog is served when some are free.
    GLINT_LOG(kWarning, str("cannot accept connections: ", ec.message()));
    asio::steady_timer pause(io, std::chrono::milliseconds(100));
    co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

void HttpServer::Impl::accepted(tcp::socket socket) {
  const int max = host.options.limits.max_connections;
  // Beyond the limit there is room for some refusals; who comes then is closed without a word.
  if (host.num_connections >= max + std::max(max / 8, 16)) return;
  tune(socket);
  const auto connection = std::make_shared<HttpConnection>(host, std::move(socket), tls.get());
  if (host.connections.empty()) check_deadlines();
  host.connections.insert(connection);
  host.num_connections = static_cast<int>(host.connections.size());
  if (host.num_connections > max) {
    connection->start_refused(503, str("the server has its ", max, " connections; try again soon"));
  } else {
    connection->start();
  }
}

// Runs again and again while there are connections.
void HttpServer::Impl::check_deadlines() {
  tick.expires_after(tick_period);
  tick.async_wait([this](const error_code& ec) {
    if (ec) return;
    if (host.connections.empty()) return;
    check_deadlines();  // first: a check may run out of memory
    const auto now = HttpConnection::Clock::now();
    for (const auto& connection : connections()) connection->check(now);
  });
}

void HttpServer::Impl::close_acceptors() {
  error_code ignored;
  for (tcp::acceptor& acceptor : acceptors) acceptor.close(ignored);
}

void HttpServer::Impl::run() {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& e) {
      GLINT_LOG(kError, str("the io thread goes on after: ", e.what()));
    }
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options, Handler handler) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return invalid("TLS needs both a certificate and a key, as PEM files");
  }
  auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
  const HttpServerOptions& kept = impl->host.options;
  if (!kept.tls_key.empty()) {
    GLINT_TRY(impl->tls, server_tls(kept.tls_certificate, kept.tls_key));
  }
  if (const rlim_t files = raise_file_limit(kept.limits.max_connections); files < kFewestFiles)
    return invalid(str("this process may open ", files, " files, and a server needs ", kFewestFiles,
                       "; raise the limit (ulimit -n)"));
  GLINT_TRY(impl->acceptors, listen_on(impl->io, kept.host, kept.port));
  impl->port = impl->acceptors.front().local_endpoint().port();
  for (tcp::acceptor& acceptor : impl->acceptors) {
    asio::co_spawn(impl->io, impl->accept_from(acceptor), asio::detached);
  }
  Impl* raw = impl.get();
  raw->thread = std::thread([raw] { raw->run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() {
  asio::post(impl_->io, [impl = impl_.get()] {
    impl->close_acceptors();
    for (const auto& connection : impl->connections()) connection->close();
    impl->io.stop();
  });
  impl_->thread.join();
  impl_->host.outbox->close();
}

int HttpServer::port() const { return impl_->port; }

int HttpServer::num_connections() const { return impl_->host.num_connections; }

void HttpServer::stop_accepting() {
  asio::post(impl_->io, [impl = impl_.get()] {
    impl->host.outbox->draining = true;
    impl->close_acceptors();
    for (const auto& connection : impl->connections()) {
      if (connection->idle()) connection->close();
    }
  });
}

}  // namespace glint
