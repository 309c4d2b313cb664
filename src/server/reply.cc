#include "server/reply.h"

#include "base/seconds.h"

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
  metrics_->http_response(context_->route, response.status);
  response.headers = with_common(std::move(response.headers));
  exchange_.respond(std::move(response));
}

void Reply::begin_events() {
  metrics_->http_response(context_->route, 200);
  exchange_.begin_stream(200, with_common({{"content-type", "text/event-stream; charset=utf-8"},
                                           {"cache-control", "no-cache"},
                                           {"x-accel-buffering", "no"}}));
}

}  // namespace glint
