// AsyncHttpClient: any number of exchanges at once with one server, all on the thread that calls
// run(): what a load generator needs. Connections are kept and reused; each exchange has one to
// itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_client.h"

namespace glint {

class AsyncHttpClient {
 public:
  struct Exchange {
    std::string method = "GET", path = "/";
    HttpHeaders headers = {};
    std::string body = {};
    // As in HttpClient::send. Called on the thread of run(), as on_done is.
    std::function<bool(std::string_view)> on_piece = {};
    std::function<void(Result<HttpResponse>)> on_done = {};
  };

  // Looks the host up, and raises the limit of open files for `max_connections`.
  static Result<std::unique_ptr<AsyncHttpClient>> open(Url server, HttpClientOptions options,
                                                       int max_connections);
  ~AsyncHttpClient();

  // Begins an exchange, also from within a callback. Nothing is sent twice.
  void send(Exchange exchange);

  // Calls `fn` after so many seconds.
  void after(double seconds, std::function<void()> fn);

  // Until every exchange is done and every `fn` was called, or stop() was.
  void run();

  // From a callback: run() returns now. What is not done never will be; only destruction is left.
  void stop();

 private:
  struct Impl;
  explicit AsyncHttpClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
