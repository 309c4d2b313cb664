// Any bytes as a template: parsing and rendering end in a text or an error, within the limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "text/template/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const glint::Json variables =
      glint::parse_json(
          R"({"s": "Hello W\u00f6rld", "n": 7, "f": 2.5, "l": [3, 1, "a"], "d": {"a": 1, "b": [{"c": null}]},
                            "messages": [{"role": "user", "content": "Hi"}], "b": true, "e": ""})")
          .value();
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = glint::jinja::Template::parse(source);
  if (!parsed.ok()) return 0;
  const glint::jinja::Limits limits = {.max_steps = 20000,
                                       .max_bytes = std::uint64_t{1} << 23,
                                       .max_output_bytes = std::size_t{1} << 20};
  (void)parsed.value().render(variables, {.limits = limits, .now = std::time_t{0}}).ok();
  return 0;
}
