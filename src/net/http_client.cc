// Wraps Asio: each step of an exchange runs on a private io_context until it is done or its time is
// over.
#include "net/http_client.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "base/str.h"
#include "net/response_parser.h"
#include "net/socket_stream.h"

namespace glint {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 64 << 10;

bool only_reads(std::string_view method) {
  return method == "GET" || method == "HEAD" || method == "OPTIONS";
}

bool has_control(std::string_view text) {
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) return true;
  }
  return false;
}

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
  Status make_tls_context();
  Status connect();
  Status handshake();
  bool is_stale();
  Status write(const std::string& bytes);
  Status read_answer(ResponseParser& parser, bool& any);
  Result<std::string> request_text(const std::string& method, const std::string& path,
                                   const HttpHeaders& headers, const std::string& body) const;

  const Url server;
  const HttpClientOptions options;
  const std::string name;
  std::optional<asio::ssl::context> tls;
  asio::io_context io{1};
  std::unique_ptr<SocketStream> stream;  // null: not connected
};

// Runs what `start` begins, which calls the function it is given when it is done.
template <class Start>
HttpClient::Impl::Done HttpClient::Impl::run(double seconds, Start start) {
  std::optional<Done> done;
  start([&done](const error_code& ec, std::size_t n = 0) { done = Done{ec, n}; });
  io.restart();
  io.run_for(std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds)));
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

Status HttpClient::Impl::make_tls_context() {
  error_code ec;
  tls.emplace(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  if (!options.verify_tls) {
    tls->set_verify_mode(asio::ssl::verify_none, ec);
    return Ok{};
  }
  tls->set_verify_mode(asio::ssl::verify_peer, ec);
  if (options.ca_file.empty()) {
    tls->set_default_verify_paths(ec);
  } else {
    tls->load_verify_file(options.ca_file, ec);
  }
  if (ec) {
    return invalid(
        str("the file of TLS roots ", quoted(options.ca_file), " cannot be read: ", ec.message()));
  }
  return Ok{};
}

Status HttpClient::Impl::connect() {
  if (server.tls && !tls) GLINT_TRY_STATUS(make_tls_context());
  error_code ec;
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(server.host, std::to_string(server.port), ec);
  if (ec) {
    return Error{ErrorCode::kUnavailable,
                 str("cannot reach ", name, ": the host does not resolve: ", ec.message())};
  }
  stream = std::make_unique<SocketStream>(tcp::socket(io), tls ? &*tls : nullptr);
  const Done step = run(options.connect_seconds, [&](auto done) {
    asio::async_connect(stream->socket(), found,
                        [done](const error_code& e, const tcp::endpoint&) mutable { done(e); });
  });
  if (step.ec) return failed("cannot reach", step, options.connect_seconds);
  stream->socket().set_option(tcp::no_delay(true), ec);
  return server.tls ? handshake() : Status(Ok{});
}

Status HttpClient::Impl::handshake() {
  error_code ec;
  SSL* raw = stream->tls()->native_handle();
  asio::ip::make_address(server.host, ec);
  if (ec) SSL_set_tlsext_host_name(raw, server.host.c_str());  // names only, by RFC 6066
  if (options.verify_tls) {
    stream->tls()->set_verify_callback(asio::ssl::host_name_verification(server.host), ec);
  }
  const Done step = run(options.connect_seconds, [&](auto done) {
    stream->tls()->async_handshake(asio::ssl::stream_base::client,
                                   [done](const error_code& e) mutable { done(e); });
  });
  if (!step.ec) return Ok{};
  if (const long why = SSL_get_verify_result(raw); options.verify_tls && why != X509_V_OK) {
    return Error{
        ErrorCode::kUnavailable,
        str("the certificate of ", name, " is not trusted: ", X509_verify_cert_error_string(why))};
  }
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
      if (auto end = parser.feed_end(); !end.ok()) return std::move(end).take_error().in(name);
      return Ok{};
    }
    if (step.ec) return failed("cannot read from", step, options.read_seconds);
    if (auto fed = parser.feed(std::string_view(buffer).substr(0, step.bytes)); !fed.ok()) {
      return std::move(fed).take_error().in(name);
    }
  }
  return Ok{};
}

Result<std::string> HttpClient::Impl::request_text(const std::string& method,
                                                   const std::string& path,
                                                   const HttpHeaders& headers,
                                                   const std::string& body) const {
  if (path.empty() || path[0] != '/' || path.find(' ') != path.npos || has_control(path)) {
    return invalid(str("the path ", quoted(path), " cannot be asked for"));
  }
  std::string text = method + " " + path + " HTTP/1.1\r\nhost: " + authority(server) + "\r\n";
  for (const auto& [key, value] : headers) {
    if (has_control(key) || key.find_first_of(" \t:") != key.npos || has_control(value)) {
      return invalid(str("the header ", quoted(key), " cannot be sent: it has control characters"));
    }
    text += key + ": " + value + "\r\n";
  }
  if (!body.empty() || !only_reads(method)) {
    text += "content-length: " + std::to_string(body.size()) + "\r\n";
  }
  return text + "\r\n" + body;
}

HttpClient::HttpClient(Url server, HttpClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(server), std::move(options))) {}
HttpClient::~HttpClient() = default;

Result<HttpResponse> HttpClient::send(const std::string& method, const std::string& path,
                                      HttpHeaders headers, std::string body,
                                      const std::function<bool(std::string_view)>& on_piece) {
  Impl& impl = *impl_;
  std::string text;
  if (auto made = impl.request_text(method, path, headers, body); made.ok()) {
    text = std::move(made).value();
  } else {
    return std::move(made).take_error();
  }
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
