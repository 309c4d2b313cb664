#include "net/trace_context.h"

#include <algorithm>
#include <cstdint>

#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kMaxStateBytes = 512;

bool is_lower_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

bool is_id(std::string_view text) {
  return is_lower_hex(text) && text.find_first_not_of('0') != text.npos;
}

bool is_state(std::string_view text) {
  return text.size() <= kMaxStateBytes && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 0x20 && c < 0x7f) || c == '\t';
         });
}

// 16 digits, not all zero.
std::string random_id(Random& random) {
  std::uint64_t bits = 0;
  while (bits == 0) bits = random.bits64();
  std::string out(16, '0');
  for (char& c : out) {
    c = "0123456789abcdef"[bits & 15];
    bits >>= 4;
  }
  return out;
}

}  // namespace

std::optional<TraceContext> parse_trace_context(std::string_view traceparent,
                                                std::string_view tracestate) {
  // "vv-" 32 digits "-" 16 digits "-ff"; a later version may go on behind another "-".
  constexpr std::size_t kLength = 55;
  const std::string_view text = traceparent;
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') return {};
  const std::string_view version = text.substr(0, 2), trace = text.substr(3, 32);
  const std::string_view span = text.substr(36, 16), flags = text.substr(53, 2);
  if (!is_lower_hex(version) || version == "ff" || !is_id(trace) || !is_id(span) ||
      !is_lower_hex(flags)) {
    return {};
  }
  if (text.size() > kLength && (version == "00" || text[kLength] != '-')) return {};
  const int last = flags[1] <= '9' ? flags[1] - '0' : flags[1] - 'a' + 10;
  return TraceContext{.trace_id = std::string(trace),
                      .span_id = std::string(span),
                      .sampled = (last & 1) != 0,
                      .state = is_state(tracestate) ? std::string(tracestate) : ""};
}

std::string format_traceparent(const TraceContext& context) {
  return "00-" + context.trace_id + "-" + context.span_id + (context.sampled ? "-01" : "-00");
}

TraceContext new_span(const std::optional<TraceContext>& parent, Random& random) {
  TraceContext out = parent ? *parent : TraceContext{};
  if (!parent) out.trace_id = random_id(random) + random_id(random);
  out.span_id = random_id(random);
  return out;
}

}  // namespace glint
