#include "server/id_source.h"

#include <algorithm>
#include <random>

namespace glint {
namespace {

std::uint64_t entropy() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

IdSource::IdSource() : random_(entropy(), entropy()) {}

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

TraceContext IdSource::span(const std::optional<TraceContext>& parent) {
  const std::lock_guard lock(mutex_);
  return new_span(parent, random_);
}

std::optional<std::string> harmless_id(std::string_view id) {
  const auto harmless = [](char c) { return c > ' ' && c < 0x7f && c != '"' && c != '\\'; };
  if (id.empty() || id.size() > 128 || !std::ranges::all_of(id, harmless)) return {};
  return std::string(id);
}

}  // namespace glint
