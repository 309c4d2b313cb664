// HttpTransfer: one exchange of an HttpClient, as a transfer of libcurl. Private to the sources of
// net/.
#pragma once

#include <curl/curl.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_client.h"

namespace glint {

class HttpTransfer {
 public:
  using Clock = std::chrono::steady_clock;

  // Fails on what would not be one request. `origin` is that of a target that is only a path.
  static Result<std::unique_ptr<HttpTransfer>> make(HttpClient::Id id,
                                                    HttpClient::Exchange exchange,
                                                    const std::string& origin,
                                                    const HttpClientOptions& options);
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  static HttpTransfer& of(CURL* easy);
  CURL* easy() const { return easy_.get(); }
  HttpClient::Id id() const { return id_; }

  // Whether the request is on its way and nothing has moved for read_seconds.
  bool is_silent(Clock::time_point now);

  // The end: the callback, to be called with what result() says.
  std::function<void(Result<HttpResponse>)> take_on_done() { return std::move(exchange_.on_done); }
  Result<HttpResponse> result(CURLcode code);
  Error silence() const;

 private:
  struct Cleanup {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  HttpTransfer(HttpClient::Id id, HttpClient::Exchange exchange, const HttpClientOptions& options);
  Status set_up(const std::string& origin);
  Status set_headers();
  void set_method();
  void set_tls();
  template <class Value>
  void set(CURLoption option, Value value);

  static int before_request(void* self, char*, char*, int, int);
  static std::size_t on_header(char* line, std::size_t, std::size_t size, void* self);
  static std::size_t on_body(char* bytes, std::size_t, std::size_t size, void* self);
  bool take_header(std::string_view line);
  bool take_body(std::string_view bytes);
  Error failed(CURLcode code) const;
  Error untrusted() const;

  const HttpClient::Id id_;
  HttpClient::Exchange exchange_;
  const HttpClientOptions& options_;
  std::string name_;  // of the server, in errors: its origin
  std::unique_ptr<CURL, Cleanup> easy_;
  std::unique_ptr<curl_slist, Cleanup> headers_;
  std::array<char, CURL_ERROR_SIZE> error_ = {};

  HttpResponse response_;
  std::size_t head_bytes_ = 0;
  bool may_use_proxy_ = false;
  bool head_done_ = false;
  bool head_told_ = false;  // to on_head
  bool ended_ = false;      // by on_head or on_piece
  bool too_long_ = false;
  bool sent_ = false;                 // the request, or a part of it
  Clock::time_point last_sign_ = {};  // when something moved
  curl_off_t uploaded_ = 0;           // then
};

}  // namespace glint
