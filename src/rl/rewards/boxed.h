// Boxed answers: where a model's answer stands in its text.
#pragma once

#include <optional>
#include <string_view>

namespace glint {

// The content of the last \boxed{...}, to the brace that closes it; nothing if there is none, or if
// the last one has no brace or is not closed.
std::optional<std::string_view> last_boxed(std::string_view text);

}  // namespace glint
