// Reply: the answer to one HTTP request, with what every answer carries (request id, trace, CORS)
// and what is counted of it; or a part of one, where a list of prompts is as many requests. A
// copyable handle, like HttpExchange; from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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
  HttpHeaders headers = {};                          // of every answer
  std::chrono::steady_clock::time_point begin = {};  // none where it is not timed
  bool want_timings = false;                         // the request header x-return-timings: 1
  bool wants_log = false;                            // a line, whatever its end

  bool is_timed() const { return begin != std::chrono::steady_clock::time_point{}; }
  double seconds() const;  // since it began
};

class Reply {
 public:
  Reply(HttpExchange exchange, std::shared_ptr<const RequestContext> context,
        std::shared_ptr<Metrics> metrics);

  // `count` replies in the place of this one. Their answers, or what those hold that are lists,
  // make one list; or all share a stream, which ends with the last of them. The first that fails is
  // the answer, and the others' client is gone.
  std::vector<Reply> split(std::size_t count) const;

  void respond(HttpResponse response);
  void respond(const Json& json);
  // A stream that has begun ends with `event` instead.
  void fail(const ApiError& error, std::string_view event = {});

  // The functions of HttpExchange, for a stream of server-sent events; `last` is its end.
  void begin_events();
  bool write(std::string_view bytes);
  void finish(std::string_view last);
  void on_disconnect(std::function<void()> fn);
  bool gone() const;
  // Whether a token of it, or of another part of it, is there, sent or not.
  void set_begun();
  bool has_begun() const;
  // Its line in the log is there, or another part's: its answer adds none.
  void set_logged() { told_->logged = true; }
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
  struct Parts;
  struct Told {
    std::atomic<bool> begun = false, logged = false;
  };

  void respond(HttpResponse response, const std::string& error);
  HttpHeaders with_common(HttpHeaders headers) const;
  void fail_thrown(const std::exception& thrown) noexcept;

  HttpExchange exchange_;
  std::shared_ptr<const RequestContext> context_;
  std::shared_ptr<Metrics> metrics_;
  std::shared_ptr<Parts> parts_ = {};  // null: the whole
  std::size_t part_ = 0;
  std::shared_ptr<Told> told_ = std::make_shared<Told>();
};

}  // namespace glint
