// HttpServer: HTTP/1.1 over TCP or TLS for thousands of slow clients, on one io thread. Knows
// nothing of JSON, models or metrics. With http_client.h the only header whose source includes Asio
// or Beast.
//
// Limits are not optional: sizes, times and connections are bounded, and a peer that sends too
// slowly, too much or two lengths at once is refused with the right status and closed.
#pragma once

#include <cstdint>
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
  std::string method;  // "GET"
  std::string path;    // "/v1/models", decoded, without the query
  std::string query;   // "a=1&b=2", as sent
  HttpHeaders headers;
  std::string body;
  std::string peer;  // "127.0.0.1:4711"

  // The header's value, or empty. `name` in lower case.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  HttpHeaders headers = {};  // content-length, date and connection are the server's own
  std::string body = {};
};

// One answer. Copyable handle; every function may be called from any thread. Dropping the last
// handle without an answer sends 500.
class HttpExchange {
 public:
  // Answers at once. Later calls do nothing.
  void respond(HttpResponse response);

  // Answers with a body that grows (chunked): head now, then pieces, then finish(). Pieces that
  // gather while the socket is busy go out in one write. write() returns false when the client is
  // gone or so slow that `max_stream_buffer` is full (it is then closed).
  void begin_stream(int status, HttpHeaders headers);
  bool write(std::string_view bytes);
  void finish();

  // `fn` is called once, on the io thread, if the client goes away before the answer is complete
  // (also at once if it is already gone). This is how a vanished client is noticed while nothing is
  // sent.
  void on_disconnect(std::function<void()> fn);

 private:
  friend class HttpConnection;
  struct State;
  std::shared_ptr<State> state_;
};

struct HttpLimits {
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_body_bytes = std::size_t{64} << 20;  // above: 413
  double header_seconds = 10;                          // to send a whole head: slowloris
  double body_seconds = 60;
  double idle_seconds = 75;   // between requests of a connection
  double write_seconds = 60;  // a reader that takes nothing for so long is closed
  int max_connections = 16384;
  std::size_t max_stream_buffer = std::size_t{4} << 20;
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  HttpLimits limits = {};
  std::string tls_certificate = {}, tls_key = {};  // PEM files; both or neither
  // What the server itself refuses (400, 413, 431 ...) is given to this to make a body of; the
  // path may be empty.
  std::function<HttpResponse(int status, const std::string& reason, const std::string& path)>
      error_page = {};
};

class HttpServer {
 public:
  // Called on the io thread for each request; must not block: hand long work to another thread.
  using Handler = std::function<void(HttpRequest request, HttpExchange exchange)>;

  // Listens and serves at once. Fails with one sentence: address in use, no such certificate ...
  static Result<std::unique_ptr<HttpServer>> start(HttpServerOptions options, Handler handler);

  // Closes every connection and joins the io thread.
  ~HttpServer();

  int port() const;             // the one it listens on
  int num_connections() const;  // open now
  // No new connections; those that are idle are closed, the others after their answer.
  void stop_accepting();

  // Runs `fn` on the io thread after `seconds`.
  void after(double seconds, std::function<void()> fn);

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
