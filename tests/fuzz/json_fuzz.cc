// JSON: what parses must survive being written and read again, in every style.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/json.h"

namespace {

using namespace glint;

// 1e999 reads as infinity and is written as Python does, which is not JSON.
bool is_finite(const Json& value) {
  if (value.is_double()) return std::isfinite(value.as_double());
  if (value.is_array()) {
    return std::all_of(value.as_array().begin(), value.as_array().end(), is_finite);
  }
  if (!value.is_object()) return true;
  return std::all_of(value.as_object().begin(), value.as_object().end(),
                     [](const Json::Member& member) { return is_finite(member.second); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Json> first = parse_json(text);
  if (!first.ok()) {
    GLINT_CHECK(!first.error().message.empty(), "an error without words");
    return 0;
  }
  for (const JsonStyle style : {JsonStyle::kCompact, JsonStyle::kPython, JsonStyle::kIndent2}) {
    const Result<Json> second = parse_json(dump_json(first.value(), style));
    if (!is_finite(first.value())) continue;
    GLINT_CHECK(second.ok() && second.value() == first.value(), "written JSON reads differently");
  }
  return 0;
}
