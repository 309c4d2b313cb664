// The keywords of JSON schemas, and what they say of one schema: for all that prepares schemas
// (grammar_schema.h).
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace glint {

inline constexpr int kMaxSchemaDepth = 64;

using Keywords = std::vector<std::string_view>;

// Keywords that restrict values, and that no grammar here can express.
const Keywords& unsupported_keywords();
// The compiler reads one of these in a schema, and no keyword beside it.
const Keywords& whole_keywords();
// The keywords of a type; each says nothing about values of other types.
struct TypeKeywords {
  const char* type;
  Keywords names;
};
const std::vector<TypeKeywords>& type_keywords();

void drop(Json& schema, std::initializer_list<std::string_view> keywords);

// Whether a keyword says more than "type" does.
bool restricts(std::string_view keyword);

bool is_type(const Json& schema, std::string_view type);
// Whether all values of `option`, a schema of `root`, are of `type`, a name or a list of names.
bool type_fits(const Json& root, const Json& type, const Json& option);

// The schema of `root` that a chain of references ends in; its path goes to `path`.
const Json& target_of(const Json& root, const Json& schema, std::string& path);

Error schema_error(const std::string& path, const std::string& problem);

}  // namespace glint
