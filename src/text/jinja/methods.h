// The methods of Python's str, list, tuple, dict and float that change nothing.
#pragma once

#include <string_view>

#include "text/jinja/object.h"

namespace glint::jinja {

using Method = Result<Value> (*)(Runtime& runtime, const Value& self, const Arguments& arguments);

// Null if values of this kind have no such method.
Method find_method(const Value& value, std::string_view name);

// The parts of find_method.
Method find_string_method(std::string_view name);  // string_methods.cc
Method find_split_method(std::string_view name);   // string_split.cc
Method find_container_method(const Value& value, std::string_view name);

// text.replace(old, new, count), the count negative for all.
Result<std::string> replace_text(Runtime& runtime, std::string_view text, std::string_view old,
                                 std::string_view replacement, Int count);

// sep.join(items): items must be texts, or are made texts if `convert`.
Result<std::string> join_texts(Runtime& runtime, std::string_view separator, const Value& items,
                               bool convert);

// text.splitlines(keepends).
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// `text` padded with `fill` (one character) to `width` characters.
enum class Side { kLeft, kRight, kBoth };  // where the padding goes
Result<std::string> pad(Runtime& runtime, const Value& text, Int width, std::string_view fill,
                        Side side);

}  // namespace glint::jinja
