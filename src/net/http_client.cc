// Wraps Asio: each step of an exchange runs on a private io_context until it is done or its time is
// over.
#include "net/http_client.h"

#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <utility>

#include "base/seconds.h"
#include "base/str.h"
#include "net/client_setup.h"
#include "net/response_parser.h"
#include "net/socket_stream.h"

namespace glint {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 64 << 10;

}  // namespace

struct HttpClient::Impl {
  Impl(Url url, HttpClientOptions o)
      : server(std::move(url)),
        options(std::move(o)),
        name(str(server.tls ? "https://" : "http://", authority(server))) {}

  struct Done {  // of one step
    error_code ec;
    std::size_t bytes = 0;
    bool timed_out = false;
  };

  template <class Start>
  Done run(double seconds, Start start);
  Error failed(const std::string& doing, const Done& step, double seconds) const;
  Status connect();
  Status handshake();
  bool is_stale();
  Status write(const std::string& bytes);
  Status read_answer(ResponseParser& parser, bool& any);

  const Url server;
  const HttpClientOptions options;
  const std::string name;
  std::unique_ptr<asio::ssl::context> tls;
  asio::io_context io{1};
  std::unique_ptr<SocketStream> stream;  // null: not connected
};

// Runs what `start` begins, which calls the function it is given when it is done.
template <class Start>
HttpClient::Impl::Done HttpClient::Impl::run(double seconds, Start start) {
  std::optional<Done> done;
  start([&done](const error_code& ec, std::size_t n = 0) { done = Done{ec, n}; });
  io.restart();
  io.run_for(from_seconds(seconds));
  if (done) return *done;
  error_code ignored;
  stream->socket().close(ignored);
  io.restart();
  io.run();
  return {.ec = asio::error::timed_out, .timed_out = true};
}

Error HttpClient::Impl::failed(const std::string& doing, const Done& step, double seconds) const {
  return {ErrorCode::kUnavailable,
          step.timed_out ? str(doing, " ", name, ": nothing came within ", seconds, " s")
                         : str(doing, " ", name, ": ", step.ec.message())};
}

Status HttpClient::Impl::connect() {
  if (server.tls && !tls) {
    GLINT_TRY(tls, client_tls(options));
  }
  error_code ec;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(server.host, std::to_string(server.port), ec);
  if (ec) {
    return Error{ErrorCode::kUnavailable,
                 str("cannot reach ", name, ": the host does not resolve: ", ec.message())};
  }
  stream = std::make_unique<SocketStream>(tcp::socket(io), tls.get());
  const Done step = run(options.connect_seconds, [&](auto done) {
    asio::async_connect(stream->socket(), found,
                        [done](const error_code& e, const tcp::endpoint&) mutable { done(e); });
  });
  if (step.ec) return failed("cannot reach", step, options.connect_seconds);
  stream->socket().set_option(tcp::no_delay(true), ec);
  return server.tls ? handshake() : Status(Ok{});
}

Status HttpClient::Impl::handshake() {
  expect_host(*stream->tls(), server);
  const Done step = run(options.connect_seconds, [&](auto done) {
    stream->tls()->async_handshake(asio::ssl::stream_base::client,
                                   [done](const error_code& e) mutable { done(e); });
  });
  if (!step.ec) return Ok{};
  GLINT_TRY_STATUS(certificate_status(*stream->tls(), name));
  return failed("no TLS with", step, options.connect_seconds);
}

// Whether a kept connection has been closed, or says something that nobody asked for.
bool HttpClient::Impl::is_stale() {
  char byte;
  return recv(stream->socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

Status HttpClient::Impl::write(const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const Done step = run(options.read_seconds, [&](auto done) {
      stream->async_write_some(asio::buffer(bytes.data() + sent, bytes.size() - sent), done);
    });
    if (step.ec) return failed("cannot send to", step, options.read_seconds);
    sent += step.bytes;
  }
  return Ok{};
}

Status HttpClient::Impl::read_answer(ResponseParser& parser, bool& any) {
  std::string buffer(kReadBytes, '\0');
  while (!parser.done()) {
    const Done step = run(options.read_seconds,
                          [&](auto done) { stream->async_read_some(asio::buffer(buffer), done); });
    any = any || step.bytes > 0;
    if (step.ec == asio::error::eof) {
      return parser.feed_end().in(name);
    }
    if (step.ec) return failed("cannot read from", step, options.read_seconds);
    GLINT_TRY_STATUS(parser.feed(std::string_view(buffer).substr(0, step.bytes)).in(name));
  }
  return Ok{};
}

HttpClient::HttpClient(Url server, HttpClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(server), std::move(options))) {}
HttpClient::~HttpClient() = default;

Result<HttpResponse> HttpClient::send(const std::string& method, const std::string& path,
                                      HttpHeaders headers, std::string body,
                                      const std::function<bool(std::string_view)>& on_piece) {
  Impl& impl = *impl_;
  GLINT_TRY(const std::string text,
            request_text(impl.server, {method, path, std::move(headers), std::move(body)}));
  if (impl.stream && impl.is_stale()) impl.stream.reset();
  for (;;) {
    const bool kept = impl.stream != nullptr;
    Status status = kept ? Status(Ok{}) : impl.connect();
    bool any = false;
    ResponseParser parser({.head = method == "HEAD",
                           .max_body_bytes = impl.options.max_body_bytes,
                           .on_piece = on_piece});
    if (status.ok()) {
      // A server that refuses a body may answer and close before it has read all.
      const Status written = impl.write(text);
      status = impl.stream->socket().is_open() ? impl.read_answer(parser, any) : Status(Ok{});
      if (!written.ok() && !any) status = written;
    }
    if (!status.ok() || !parser.keep_alive()) impl.stream.reset();
    if (status.ok()) return parser.take();
    if (!kept || any || !only_reads(method)) return std::move(status).take_error();
  }
}

}  // namespace glint
