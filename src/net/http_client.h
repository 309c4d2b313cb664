// HttpClient: requests to other servers, blocking, one at a time on a connection that is kept: for
// `glint chat URL`, the exporter of traces, load generators and tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_server.h"
#include "net/url.h"

namespace glint {

struct HttpClientOptions {
  double connect_seconds = 10;
  double read_seconds = 600;  // between two pieces of an answer
  std::size_t max_body_bytes = std::size_t{256} << 20;
  bool verify_tls = true;
};

class HttpClient {
 public:
  explicit HttpClient(Url server, HttpClientOptions options = {});
  ~HttpClient();

  // `on_piece`, if given, sees the body of a 2xx answer as it arrives (the response's body is then
  // empty); false ends the exchange.
  Result<HttpResponse> send(const std::string& method, const std::string& path, HttpHeaders headers,
                            std::string body,
                            const std::function<bool(std::string_view)>& on_piece = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Server-sent events from the pieces of a body: calls `on_event` with each event's data.
class SseReader {
 public:
  explicit SseReader(std::function<bool(std::string_view event, std::string_view data)> on_event);
  bool feed(std::string_view bytes);  // false: on_event ended it

 private:
  std::function<bool(std::string_view, std::string_view)> on_event_;
  std::string buffer_;
};

}  // namespace glint
