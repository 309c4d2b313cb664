#include "server/telemetry/otlp_exporter.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/str.h"
#include "net/http_client.h"

namespace glint {
namespace {

constexpr int kMaxAttempts = 3;
constexpr int kSpanKindServer = 2;
constexpr int kStatusError = 2;

// AnyValue. 64-bit integers are texts in protobuf's JSON.
Json any_value(const Json& value) {
  if (value.is_bool()) return Json::Object{{"boolValue", value}};
  if (value.is_int()) return Json::Object{{"intValue", std::to_string(value.as_int())}};
  if (value.is_double()) return Json::Object{{"doubleValue", value}};
  if (value.is_string()) return Json::Object{{"stringValue", value}};
  if (value.is_array()) {
    Json::Array values;
    for (const Json& item : value.as_array()) values.push_back(any_value(item));
    return Json::Object{{"arrayValue", Json::Object{{"values", std::move(values)}}}};
  }
  return Json::Object{{"stringValue", dump_json(value)}};
}

Json attribute(const std::string& key, const Json& value) {
  return Json::Object{{"key", key}, {"value", any_value(value)}};
}

Json span_json(const Span& span) {
  Json::Object out = {{"traceId", span.context.trace_id}, {"spanId", span.context.span_id}};
  if (!span.parent_span_id.empty()) out.emplace_back("parentSpanId", span.parent_span_id);
  if (!span.context.state.empty()) out.emplace_back("traceState", span.context.state);
  out.emplace_back("name", span.name);
  out.emplace_back("kind", kSpanKindServer);
  out.emplace_back("startTimeUnixNano", std::to_string(span.start_ns));
  out.emplace_back("endTimeUnixNano", std::to_string(span.end_ns));
  Json::Array attributes;
  for (const auto& [key, value] : span.attributes) attributes.push_back(attribute(key, value));
  out.emplace_back("attributes", std::move(attributes));
  if (!span.error.empty()) {
    out.emplace_back("status", Json::Object{{"code", kStatusError}, {"message", span.error}});
  }
  return out;
}

bool is_worth_a_retry(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

Json otlp_request(const std::vector<Span>& spans, const std::string& service) {
  Json::Array list;
  for (const Span& span : spans) list.push_back(span_json(span));
  const Json scope = Json::Object{{"scope", Json::Object{{"name", "glint"}}}, {"spans", list}};
  const Json resource =
      Json::Object{{"attributes", Json::Array{attribute("service.name", service)}}};
  return Json::Object{
      {"resourceSpans",
       Json::Array{Json::Object{{"resource", resource}, {"scopeSpans", Json::Array{scope}}}}}};
}

struct OtlpExporter::Impl {
  Impl(OtlpOptions o, const ServerUrl& url)
      : options(std::move(o)),
        path(url.path == "/" ? "/v1/traces" : url.path),
        client(url.origin, {.connect_seconds = options.timeout_seconds,
                            .read_seconds = options.timeout_seconds,
                            .max_body_bytes = std::size_t{1} << 20}) {}

  void run();
  void send(const std::vector<Span>& batch);
  void report(const std::string& problem, std::size_t num_lost);
  bool wait(double seconds);  // false: the end has come

  const OtlpOptions options;
  const std::string path;
  HttpClient client;     // the thread's
  bool failing = false;  // the thread's: said once until it works again

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Span> queue;
  bool ending = false;
  std::atomic<std::int64_t> num_sent = 0, num_dropped = 0;
  std::thread thread;
};

bool OtlpExporter::Impl::wait(double seconds) {
  std::unique_lock lock(mutex);
  return !changed.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return ending; });
}

void OtlpExporter::Impl::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return ending || !queue.empty(); });
    changed.wait_for(lock, std::chrono::duration<double>(options.interval_seconds),
                     [this] { return ending || queue.size() >= options.max_batch; });
    if (queue.empty()) return;
    const auto end =
        queue.begin() + static_cast<std::ptrdiff_t>(std::min(queue.size(), options.max_batch));
    const std::vector<Span> batch(std::make_move_iterator(queue.begin()),
                                  std::make_move_iterator(end));
    queue.erase(queue.begin(), end);
    lock.unlock();
    send(batch);
    lock.lock();
  }
}

void OtlpExporter::Impl::send(const std::vector<Span>& batch) {
  const std::string body = dump_json(otlp_request(batch, options.service));
  HttpHeaders headers = options.headers;
  headers.emplace_back("content-type", "application/json");
  double pause = options.retry_seconds;
  for (int attempt = 1;; ++attempt) {
    const auto response = client.send("POST", path, headers, body);
    if (response.ok() && response.value().status / 100 == 2) {
      num_sent += static_cast<std::int64_t>(batch.size());
      failing = false;
      return;
    }
    const bool again = !response.ok() || is_worth_a_retry(response.value().status);
    if (!again || attempt == kMaxAttempts || !wait(pause)) {
      return report(
          response.ok() ? str("it answers ", response.value().status) : response.error().message,
          batch.size());
    }
    pause *= 2;
  }
}

void OtlpExporter::Impl::report(const std::string& problem, std::size_t num_lost) {
  num_dropped += static_cast<std::int64_t>(num_lost);
  if (failing) return;
  failing = true;
  GLINT_LOG(kWarning, str("traces are lost: the collector ", options.endpoint,
                          " does not take them: ", problem));
}

OtlpExporter::OtlpExporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<OtlpExporter>> OtlpExporter::start(OtlpOptions options) {
  GLINT_TRY(const ServerUrl url, parse_server_url(options.endpoint).in("the endpoint of traces"));
  if (url.origin.ends_with(":4317")) {
    log(LogLevel::kWarning,
        str("traces go to ", url.origin,
            " over HTTP, but 4317 is the port of collectors for gRPC; theirs for HTTP is 4318"));
  }
  auto impl = std::make_unique<Impl>(std::move(options), url);
  Impl* raw = impl.get();
  raw->thread = std::thread([raw] { raw->run(); });
  return std::unique_ptr<OtlpExporter>(new OtlpExporter(std::move(impl)));
}

OtlpExporter::~OtlpExporter() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->ending = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

void OtlpExporter::add(Span span) {
  if (!span.context.sampled) return;
  const std::lock_guard lock(impl_->mutex);
  if (impl_->queue.size() >= impl_->options.max_queue) {
    ++impl_->num_dropped;
    return;
  }
  impl_->queue.push_back(std::move(span));
  const std::size_t size = impl_->queue.size();
  if (size == 1 || size == impl_->options.max_batch) impl_->changed.notify_all();
}

std::int64_t OtlpExporter::num_sent() const { return impl_->num_sent; }
std::int64_t OtlpExporter::num_dropped() const { return impl_->num_dropped; }

}  // namespace glint
