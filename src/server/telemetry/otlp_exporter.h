// OtlpExporter: spans to an OpenTelemetry collector, as JSON over HTTP (OTLP 1.x), from a thread of
// its own. Whoever adds a span never waits: when the queue is full, the span is dropped and
// counted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "net/http_server.h"
#include "net/trace_context.h"

namespace glint {

struct Span {
  TraceContext context;
  std::string parent_span_id = {};  // empty: the first of its trace
  std::string name;
  std::int64_t start_ns = 0, end_ns = 0;  // since 1970
  // Booleans, integers, doubles, texts, and lists of those.
  std::vector<std::pair<std::string, Json>> attributes = {};
  std::string error = {};  // what went wrong; empty: nothing
};

struct OtlpOptions {
  // "http://localhost:4318"; without a path, /v1/traces is asked.
  std::string endpoint;
  HttpHeaders headers = {};  // keys of the collector
  std::string service = "glint";
  std::size_t max_queue = 4096;
  std::size_t max_batch = 512;
  double interval_seconds = 2;  // a batch that is not full waits so long
  double timeout_seconds = 10;
  double retry_seconds = 1;  // doubled at each of three attempts
};

class OtlpExporter {
 public:
  // Fails on an endpoint that is no URL; the port of gRPC, 4317, is warned of. The collector need
  // not be there yet.
  static Result<std::unique_ptr<OtlpExporter>> start(OtlpOptions options);

  // Sends what waits, each batch once.
  ~OtlpExporter();

  // From any thread. Spans that are not sampled are left out.
  void add(Span span);

  std::int64_t num_sent() const;     // accepted by the collector
  std::int64_t num_dropped() const;  // for lack of room, or refused

 private:
  struct Impl;
  explicit OtlpExporter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The body of a request: ExportTraceServiceRequest.
Json otlp_request(const std::vector<Span>& spans, const std::string& service);

}  // namespace glint
