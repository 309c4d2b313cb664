#include "server/reply.h"

#include <new>

#include "base/log.h"
#include "base/seconds.h"
#include "base/str.h"

namespace glint {

double RequestContext::seconds() const { return seconds_since(begin); }

Reply::Reply(HttpExchange exchange, std::shared_ptr<const RequestContext> context,
             std::shared_ptr<Metrics> metrics)
    : exchange_(std::move(exchange)), context_(std::move(context)), metrics_(std::move(metrics)) {}

HttpHeaders Reply::with_common(HttpHeaders headers) const {
  headers.insert(headers.end(), context_->headers.begin(), context_->headers.end());
  return headers;
}

void Reply::respond(HttpResponse response) {
  metrics_->http_response(context_->method, context_->route, response.status);
  metrics_->http_duration(context_->method, context_->route, context_->seconds());
  response.headers = with_common(std::move(response.headers));
  exchange_.respond(std::move(response));
}

void Reply::fail_thrown(const std::exception& thrown) noexcept {
  try {
    if (dynamic_cast<const std::bad_alloc*>(&thrown)) {
      GLINT_LOG(kWarning, str("out of memory: ", context_->request_id, " is refused"));
      return fail(out_of_memory_error());
    }
    GLINT_LOG(kError, str(context_->route, " threw: ", thrown.what()));
    fail({.status = 500, .message = "the request failed inside the server"});
  } catch (const std::exception&) {
    // Not even the sentence fits in memory: who drops the last handle answers 500 or cuts the
    // stream.
  }
}

void Reply::begin_events() {
  metrics_->http_response(context_->method, context_->route, 200);
  exchange_.begin_stream(200, with_common({{"content-type", "text/event-stream; charset=utf-8"},
                                           {"cache-control", "no-cache"},
                                           {"x-accel-buffering", "no"}}));
}

void Reply::finish() {
  metrics_->http_duration(context_->method, context_->route, context_->seconds());
  exchange_.finish();
}

}  // namespace glint
