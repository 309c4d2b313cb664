// The Unicode operations that normalizers need.
#pragma once

#include <string>
#include <string_view>

namespace glint {

bool is_white_space(char32_t c);  // the property White_Space

// `text` (valid UTF-8) in NFC of Unicode 9.0, the version of the `tokenizers` package.
std::string to_nfc(std::string_view text);

}  // namespace glint
