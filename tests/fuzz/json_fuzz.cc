// JSON: what parses must survive being written and read again, in every style.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace glint;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Json> first = parse_json(text);
  if (!first.ok()) {
    GLINT_CHECK(!first.error().message.empty(), "an error without words");
    return 0;
  }
  for (const JsonStyle style : {JsonStyle::kCompact, JsonStyle::kPython, JsonStyle::kIndent2}) {
    const Result<Json> second = parse_json(dump_json(first.value(), style));
    GLINT_CHECK(second.ok() && second.value() == first.value(), "written JSON reads differently");
  }
  return 0;
}
