// Identities of requests: random ids, and the trace context of W3C ("traceparent").
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/random.h"

namespace glint {

struct TraceContext {
  std::string trace_id = {};   // 32 hex digits
  std::string span_id = {};    // 16: this server's span
  std::string parent_id = {};  // 16: the caller's; empty if there is none
  bool sampled = false;

  std::string header() const;  // "00-TRACE-SPAN-01"
};

// Random ids, from any thread.
class IdSource {
 public:
  IdSource();
  explicit IdSource(std::uint64_t seed) : random_(seed) {}

  std::uint64_t number();
  std::string hex(int digits);
  // A span of the trace that `traceparent` names; of a new one if that is no valid header.
  TraceContext trace(std::string_view traceparent);

 private:
  std::mutex mutex_;
  Random random_;
};

// A request id that a client sent, as far as it is harmless: at most 128 printable characters, none
// of which could end a header or a line.
std::optional<std::string> harmless_id(std::string_view id);

}  // namespace glint
