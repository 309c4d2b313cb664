// JSON schemas before they become grammars. The grammar compiler (xgrammar) ignores what it does
// not support; here such a schema is refused by name, and what it would read too narrowly or too
// widely is said another way:
//
//   - an object or list of which nothing is said may hold anything; an object whose properties are
//     given holds no others, unless `additionalProperties` says so;
//   - a schema without a type gets the types that its keywords are about;
//   - a pattern may match anywhere in a string, so it becomes one that matches all of it;
//   - the schemas of an "allOf" become one (grammar_all_of.h);
//   - a list of an "enum" whose items differ is one of all such lists;
//   - beside a pattern or a limit of length `format` is an annotation, as JSON Schema has it.
//
// The grammar then accepts only values that are valid under the schema, but not all of them.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace glint {

// In a row between the parts of JSON: a line's end and an indentation. A model that may write any
// number of blanks may write nothing else until its tokens are spent.
inline constexpr int kMaxJsonBlanks = 20;

inline constexpr std::size_t kMaxSchemaBytes = 256 * 1024;

// Changes `root` as said above, or says what cannot be done and where. `pattern_filler` is what may
// be around the match of a pattern; where it is kNoMarkers, the match holds no marker, either.
Status prepare_schema(Json& root, std::string_view pattern_filler = ".*");

}  // namespace glint
