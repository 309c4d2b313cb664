#include "server/reply.h"

#include <mutex>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/seconds.h"
#include "base/str.h"
#include "server/telemetry/request_log.h"

namespace glint {

double RequestContext::seconds() const { return seconds_since(begin); }

// Shared by the parts of a reply.
struct Reply::Parts {
  Parts(Reply of, std::size_t count)
      : whole(std::move(of)), answers(count), on_end(count), num_open(count) {}

  // Nobody is answered any more. False: that was so.
  bool end() {
    std::vector<std::function<void()>> all;
    {
      const std::lock_guard lock(mutex);
      if (std::exchange(has_ended, true)) return false;
      all.swap(on_end);
    }
    for (const std::function<void()>& fn : all)
      if (fn) fn();
    return true;
  }

  Reply whole;
  std::mutex mutex;
  std::vector<std::string> answers;  // items of a list, with commas between them
  std::vector<std::function<void()>> on_end;
  std::size_t num_open;
  bool has_ended = false;  // one has failed, or the client is gone
};

Reply::Reply(HttpExchange exchange, std::shared_ptr<const RequestContext> context,
             std::shared_ptr<Metrics> metrics)
    : exchange_(std::move(exchange)), context_(std::move(context)), metrics_(std::move(metrics)) {}

HttpHeaders Reply::with_common(HttpHeaders headers) const {
  headers.insert(headers.end(), context_->headers.begin(), context_->headers.end());
  return headers;
}

void Reply::respond(HttpResponse response) { respond(std::move(response), {}); }

void Reply::respond(HttpResponse response, const std::string& error) {
  if (!told_->logged.exchange(true)) log_answer(*context_, response.status, error);
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

std::vector<Reply> Reply::split(std::size_t count) const {
  const auto parts = std::make_shared<Parts>(*this, count);
  parts->whole.on_disconnect([weak = std::weak_ptr(parts)] {
    if (const std::shared_ptr<Parts> alive = weak.lock()) alive->end();
  });
  std::vector<Reply> all(count, *this);
  for (std::size_t i = 0; i < count; ++i) {
    all[i].parts_ = parts;
    all[i].part_ = i;
  }
  return all;
}

void Reply::respond(const Json& json) {
  if (!parts_) return respond(json_response(json));
  std::string text = dump_json(json);
  if (json.is_array()) text = text.substr(1, text.size() - 2);
  std::string all;
  {
    const std::lock_guard lock(parts_->mutex);
    if (parts_->has_ended) return;
    parts_->answers[part_] = std::move(text);
    if (--parts_->num_open > 0) return;
    for (const std::string& answer : parts_->answers) all += (all.empty() ? "[" : ",") + answer;
  }
  parts_->whole.respond(json_response(all + "]"));
}

void Reply::fail(const ApiError& error, std::string_view event) {
  if (parts_) {
    if (parts_->end()) parts_->whole.fail(error, event);
    return;
  }
  if (event.empty() || !exchange_.streams())
    return respond(error_response(error, context_->style, context_->request_id), error.message);
  exchange_.write(event);
  finish({});
}

void Reply::begin_events() {
  std::unique_lock<std::mutex> lock;
  if (parts_) {
    lock = std::unique_lock(parts_->mutex);
    if (parts_->has_ended || exchange_.streams()) return;
  }
  metrics_->http_response(context_->method, context_->route, 200);
  exchange_.begin_stream(200, with_common({{"content-type", "text/event-stream; charset=utf-8"},
                                           {"cache-control", "no-cache"},
                                           {"x-accel-buffering", "no"}}));
}

bool Reply::write(std::string_view bytes) {
  if (!parts_) return exchange_.write(bytes);
  const std::lock_guard lock(parts_->mutex);
  return !parts_->has_ended && exchange_.write(bytes);
}

void Reply::finish(std::string_view last) {
  if (parts_) {
    const std::lock_guard lock(parts_->mutex);
    if (parts_->has_ended || --parts_->num_open > 0) return;
  }
  metrics_->http_duration(context_->method, context_->route, context_->seconds());
  exchange_.write(last);
  exchange_.finish();
}

void Reply::on_disconnect(std::function<void()> fn) {
  if (!parts_) return exchange_.on_disconnect(std::move(fn));
  {
    const std::lock_guard lock(parts_->mutex);
    if (!parts_->has_ended) {
      parts_->on_end[part_] = std::move(fn);
      return;
    }
  }
  fn();
}

void Reply::set_begun() { told_->begun = true; }

bool Reply::has_begun() const { return told_->begun || exchange_.streams(); }

bool Reply::gone() const {
  if (!parts_) return exchange_.gone();
  const std::lock_guard lock(parts_->mutex);
  return parts_->has_ended || exchange_.gone();
}

}  // namespace glint
