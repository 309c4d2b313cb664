// Identities of requests: random ids and spans, and ids that clients bring.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/random.h"
#include "net/trace_context.h"

namespace glint {

// From any thread.
class IdSource {
 public:
  IdSource();  // seeded from the system's entropy

  std::uint64_t number();
  std::string hex(int digits);
  TraceContext span(const std::optional<TraceContext>& parent);

 private:
  std::mutex mutex_;
  Random random_;
};

// A request id that a client sent, as far as it is harmless: at most 128 printable characters, none
// of which could end a header or a line.
std::optional<std::string> harmless_id(std::string_view id);

}  // namespace glint
