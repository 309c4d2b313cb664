#include "server/trace_context.h"

#include <algorithm>
#include <random>

#include "base/str.h"

namespace glint {
namespace {

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

std::uint64_t random_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

std::string TraceContext::header() const {
  return str("00-", trace_id, "-", span_id, sampled ? "-01" : "-00");
}

IdSource::IdSource() : random_(random_seed(), random_seed()) {}

std::uint64_t IdSource::number() {
  const std::lock_guard lock(mutex_);
  return random_.bits64();
}

std::string IdSource::hex(int digits) {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (int i = 0; i < digits; ++i) out += "0123456789abcdef"[random_.below(16)];
  return out;
}

TraceContext IdSource::trace(std::string_view traceparent) {
  TraceContext context;
  const std::vector<std::string_view> parts = split(traceparent, '-');
  // Later versions may append parts; "ff" is forbidden.
  const bool valid = parts.size() >= 4 && parts[0].size() == 2 && parts[1].size() == 32 &&
                     parts[2].size() == 16 && parts[3].size() == 2 && is_hex(parts[0]) &&
                     is_hex(parts[1]) && is_hex(parts[2]) && is_hex(parts[3]) && parts[0] != "ff" &&
                     (parts[0] != "00" || parts.size() == 4) && !is_zero(parts[1]) &&
                     !is_zero(parts[2]);
  if (valid) {
    context.trace_id = parts[1];
    context.parent_id = parts[2];
    const char last = parts[3][1];
    context.sampled = ((last >= 'a' ? last - 'a' + 10 : last - '0') & 1) != 0;
  } else {
    context.trace_id = hex(32);
    context.sampled = true;
  }
  context.span_id = hex(16);
  return context;
}

std::optional<std::string> harmless_id(std::string_view id) {
  const auto harmless = [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; };
  if (id.empty() || id.size() > 128 || !std::ranges::all_of(id, harmless)) return {};
  return std::string(id);
}

}  // namespace glint
