// HttpClient: requests to servers, any number of them at once, all on the thread that calls it: for
// `glint chat URL`, `glint pull`, the load generator, the exporter of traces, and tests. Wraps
// libcurl. Connections are kept and used again; each exchange has one to itself.
//
// Redirections are not followed. What changes something is sent at most once; what only reads is
// sent again if a kept connection turns out to be closed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_server.h"
#include "net/server_url.h"

namespace glint {

struct HttpClientOptions {
  double connect_seconds = 10;   // with the host's name and TLS
  double read_seconds = 600;     // between two pieces of an answer
  std::string read_option = {};  // "--timeout", which sets them: named where they have passed
  std::size_t max_body_bytes = std::size_t{256} << 20;  // of a body that is kept
  std::string ca_file = {};    // PEM, of the roots that are trusted; empty: this machine's
  std::string ca_option = {};  // "--ca-file", which names it: said where a server is not trusted
  // Whether the variables http_proxy, https_proxy and no_proxy count; never for this machine.
  bool use_proxy = false;
  std::size_t buffer_bytes = 16 << 10;  // the longest piece of a body
  int max_connections = 16;             // at once: the limit of open files is raised for them
};

class HttpClient {
 public:
  using Id = std::uint64_t;

  struct Exchange {
    std::string method = "GET";
    std::string target = "/";  // "/v1/models?x" of the client's server, or a whole URL
    HttpHeaders headers = {};
    std::string body = {};
    double read_seconds = 0;  // 0: those of the client
    // If given, these see a 2xx answer as it arrives, and its body is not kept: first the head,
    // once, when there is a piece of a body, then each piece. False ends the exchange,
    // successfully.
    std::function<bool(const HttpResponse& head)> on_head = {};
    std::function<bool(std::string_view piece)> on_piece = {};
    // The answer, headers in lower case; or one sentence that names the server.
    std::function<void(Result<HttpResponse>)> on_done = {};
  };

  // `origin` as in ServerUrl, "http://127.0.0.1:8000".
  explicit HttpClient(std::string origin, HttpClientOptions options = {});
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // Begins an exchange, also from within a callback. Callbacks come from run() and send().
  Id start(Exchange exchange);

  // Ends an exchange without calling it back; one that is done already is no error.
  void cancel(Id id);

  // Calls `fn` after so many seconds.
  void after(double seconds, std::function<void()> fn);

  // Until every exchange is done and every `fn` was called, or stop() was.
  void run();

  // From a callback: run() returns now. What is not done never will be; only destruction is left.
  void stop();

  // One exchange, waiting for its answer.
  Result<HttpResponse> send(const std::string& method, const std::string& target,
                            HttpHeaders headers, std::string body,
                            const std::function<bool(std::string_view)>& on_piece = {});
  // send() for what a server says of itself at once: it may be silent for a minute at most.
  Result<HttpResponse> look_up(const std::string& target, HttpHeaders headers);

 private:
  Result<HttpResponse> wait_for(Exchange exchange);

  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
