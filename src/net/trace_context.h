// TraceContext: the place of a request in a distributed trace, as the W3C's headers `traceparent`
// and `tracestate` carry it (https://www.w3.org/TR/trace-context/).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/random.h"

namespace glint {

struct TraceContext {
  std::string trace_id;  // 32 lower-case hex digits, not all zero
  std::string span_id;   // 16
  bool sampled = true;   // the caller records, or asks to
  std::string state;     // tracestate: passed on as it came, may be empty
};

// None if `traceparent` is not valid: a new trace begins then. A `tracestate` that is too long or
// has other than printable characters is dropped.
std::optional<TraceContext> parse_trace_context(std::string_view traceparent,
                                                std::string_view tracestate = {});

// "00-TRACE-SPAN-01".
std::string format_traceparent(const TraceContext& context);

// A span below `parent`, or the first one of a new trace. `random` must be seeded from entropy:
// ids are to be unlike those of every other process.
TraceContext new_span(const std::optional<TraceContext>& parent, Random& random);

}  // namespace glint
