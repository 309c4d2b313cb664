// HttpClient: requests to other servers, blocking, one at a time on a connection that is kept: for
// `glint chat URL`, the exporter of traces, and tests. From one thread at a time.
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
  double read_seconds = 600;                            // between two pieces of an answer
  std::size_t max_body_bytes = std::size_t{256} << 20;  // of a body that is kept
  std::string ca_file = {};  // PEM, of the roots that are trusted; empty: this machine's
};

class HttpClient {
 public:
  explicit HttpClient(Url server, HttpClientOptions options = {});
  ~HttpClient();

  // `path` with the query, "/v1/models"; the host's field and the length's are added. `on_piece`,
  // if given, sees the body of a 2xx answer as it arrives (the response's body is then empty);
  // false ends the exchange. Redirections are not followed.
  //
  // Fails with one sentence that names the server. A request that changes something is sent at most
  // once; one that only reads is sent again if a kept connection turns out to be closed.
  Result<HttpResponse> send(const std::string& method, const std::string& path, HttpHeaders headers,
                            std::string body,
                            const std::function<bool(std::string_view)>& on_piece = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
