// Special tokens in what users and tools say, as text (--plain-content): "<|system|>" in a user's
// message is then ten characters and no system message.
//
// Templates make one text of a conversation, and special tokens are found in that. So a mark is put
// into each name of one that a message holds, which hides it there; the tokenizer leaves marks out.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

// A character that Unicode never assigns.
inline constexpr std::string_view kPlainMark = "\xf4\x8f\xbf\xbe";

// Marks the contents of messages of users and tools.
void mark_plain(Json::Array& messages, const Tokenizer& tokenizer);

// `text` less its marks.
std::string without_marks(std::string_view text);

}  // namespace glint
