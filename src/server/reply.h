// Reply: the answer to one HTTP request, with what every answer carries (request id, trace, CORS)
// and what is counted of it. A copyable handle, like HttpExchange; from any thread.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "net/http_server.h"
#include "net/trace_context.h"
#include "server/errors.h"
#include "server/telemetry/metrics.h"

namespace glint {

// The facts about a request that are known from its first byte on.
struct RequestContext {
  std::string method = {}, route = {}, peer = {};
  std::string request_id = {};
  TraceContext span = {};           // of this request
  std::string parent_span_id = {};  // of the caller; empty: none
  std::int64_t begin_ns = 0;        // since 1970
  ErrorStyle style = ErrorStyle::kOpenAi;
  HttpHeaders headers = {};  // of every answer
  std::chrono::steady_clock::time_point begin = {};
  bool want_timings = false;  // the request header x-return-timings: 1

  double seconds() const;  // since it began
};

class Reply {
 public:
  Reply(HttpExchange exchange, std::shared_ptr<const RequestContext> context,
        std::shared_ptr<Metrics> metrics);

  void respond(HttpResponse response);
  void respond(const Json& json) { respond(json_response(json)); }
  void fail(const ApiError& error) {
    respond(error_response(error, context_->style, context_->request_id));
  }

  // As HttpExchange's. The stream is one of server-sent events.
  void begin_events();
  bool write(std::string_view bytes) { return exchange_.write(bytes); }
  void finish();
  void on_disconnect(std::function<void()> fn) { exchange_.on_disconnect(std::move(fn)); }
  bool gone() const { return exchange_.gone(); }
  std::size_t num_unsent() const { return exchange_.num_unsent(); }

  // Runs `fn`, on whose behalf this is answered. Memory that runs out there is this request's 503.
  template <class Fn>
  void guard(Fn&& fn) noexcept {
    try {
      fn();
    } catch (const std::exception& thrown) {
      fail_thrown(thrown);
    }
  }

  const RequestContext& context() const { return *context_; }

 private:
  HttpHeaders with_common(HttpHeaders headers) const;
  void fail_thrown(const std::exception& thrown) noexcept;

  HttpExchange exchange_;
  std::shared_ptr<const RequestContext> context_;
  std::shared_ptr<Metrics> metrics_;
};

}  // namespace glint
