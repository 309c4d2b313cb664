// Regular expressions before they become grammars: of limited size, and for whole texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

// Whether an expression is small enough to compile: its repetitions, written out, are at most 5,000
// characters and classes. Their numbers have no blanks beside them: "a{ 2}" is a text in Python and
// JavaScript, and two letters for the compiler.
Status check_expression(std::string_view expression);

// A pattern without lookaheads that matches no other texts than this one: those that Zod has for
// e-mail addresses and durations, and Pydantic for decimals. Any other pattern as it is.
std::string_view without_lookaheads(std::string_view pattern);

// A pattern that matches those texts of `pattern` that have from `least` to `most` characters. Of
// characters in a row, one of which may be repeated ("^[a-z][a-z0-9]*$"); nothing for others, and
// where none is so long.
std::optional<std::string> pattern_of_length(std::string_view pattern, std::int64_t least,
                                             std::int64_t most);

// Whether no text matches both patterns, as they demand beginnings that differ ("^a_", "^b_").
bool begin_differently(std::string_view one, std::string_view other);

// A pattern in ASCII that matches whole texts, for one (UTF-8) that is looked for in them; `filler`
// matches the rest. One that would take a part of that for its own stays as it is, so that the
// compiler says what is wrong: "*a", "[a", "a)", and a backslash at the end.
std::string whole_text_pattern(std::string_view pattern, std::string_view filler = ".*");

}  // namespace glint
