// HttpServer: HTTP/1.1 over TCP or TLS for thousands of slow clients, on one io thread. Knows
// nothing of JSON, models or metrics. Asio and Beast stay behind this header.
//
// Limits are not optional: sizes, times and connections are bounded, and a peer that sends too
// slowly, too much or two lengths at once is refused with the right status and closed. A peer that
// closes its side before it has the answer counts as gone: the two cannot be told apart.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace glint {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;  // names in lower case

struct HttpRequest {
  std::string method = {};  // "GET"
  std::string path = {};    // "/v1/models", decoded, without the query
  std::string query = {};   // "a=1&b=2", as sent
  HttpHeaders headers = {};
  std::string body = {};
  std::string peer = {};  // "127.0.0.1:4711"
  // While it lives, the body counts against max_total_body_bytes.
  std::shared_ptr<const void> body_account = {};

  // The header's value, or empty. `name` in lower case.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers = {};  // content-length, date and connection are the server's own
  std::string body = {};

  std::string_view header(std::string_view name) const;  // as HttpRequest's
};

class ExchangeState;

// One answer. Copyable handle; every function may be called from any thread, also after the server
// is gone. Dropping the last handle without an answer sends 500; dropping it in the middle of a
// stream cuts the connection, so that the client sees that something is missing.
//
// A header "connection: close" closes the connection after the answer. Control characters in the
// values of headers become blanks.
class HttpExchange {
 public:
  explicit HttpExchange(std::shared_ptr<ExchangeState> state) : state_(std::move(state)) {}

  // Answers at once. Later calls do nothing.
  void respond(HttpResponse response);

  // Answers with a body that grows (chunked): head now, then pieces, then finish(). Pieces that
  // gather while the socket is busy go out in one write. write() returns false when the client is
  // gone or so slow that beside the largest piece `max_stream_buffer` is full (it is then closed).
  void begin_stream(int status, HttpHeaders headers);
  bool write(std::string_view bytes);
  void finish();
  bool streams() const;  // between begin_stream() and its end

  // `fn` is called once, on the io thread, if the client goes away before respond() or finish()
  // (also at once if it is already gone). This is how a vanished client is noticed while nothing is
  // sent. A second fn replaces the first.
  void on_disconnect(std::function<void()> fn);
  bool gone() const;  // the client is
  // Bytes of a stream that its reader has not taken yet.
  std::size_t num_unsent() const;

 private:
  std::shared_ptr<ExchangeState> state_;
};

struct HttpLimits {
  std::size_t max_header_bytes = 16 << 10;             // above: 431
  std::size_t max_target_bytes = 8 << 10;              // path and query; above: 414
  std::size_t max_body_bytes = std::size_t{64} << 20;  // above: 413
  std::string body_bound = {};                         // why no more; the refusal says it
  // Requests that arrive or wait; above: 503. Answers that wait for their readers, too; above, the
  // reader that has taken the longest is cut off.
  std::size_t max_total_body_bytes = std::size_t{1} << 30;
  double header_seconds = 10;  // to send a whole head: slowloris
  double body_seconds = 60;
  double idle_seconds = 75;     // between requests of a connection
  double write_seconds = 60;    // a reader that takes nothing for so long is closed
  int max_connections = 16384;  // above: 503
  std::size_t max_stream_buffer = std::size_t{4} << 20;
};

// A request that the server itself refuses (400, 413, 431 ...).
struct HttpRefusal {
  int status = 400;
  std::string reason = {};
  HttpRequest request = {};  // as far as it was read, without the body
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address or a name; empty: every address of this machine
  int port = 0;                    // 0: any free one
  HttpLimits limits = {};
  std::string tls_certificate = {}, tls_key = {};  // PEM files; both or neither
  // Makes the page of a refusal, on the io thread.
  std::function<HttpResponse(const HttpRefusal&)> error_page = {};
};

class HttpServer {
 public:
  // Called on the io thread for each request; must not block: hand long work to another thread.
  // HEAD is the handler's as well: it answers as to GET, and the body is left out.
  using Handler = std::function<void(HttpRequest request, HttpExchange exchange)>;

  // Listens and serves at once. Fails with one sentence: address in use, no such certificate ...
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options, Handler handler);

  // Closes every connection and joins the io thread: not to be called on it.
  ~HttpServer();

  int port() const;             // the one it listens on
  int num_connections() const;  // open now
  // No new connections; those that are idle are closed, the others after their answer.
  void stop_accepting();

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
