// "uniqueItems" as lists that are given.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"

namespace glint {

// A list whose items differ has a grammar where these are some values: `schema`, a part of `root`,
// becomes the "enum" of all lists of them, in every order. Fails where there are too many, or items
// may be anything.
Status list_arrangements(Json& schema, const Json& root, const std::string& path);

}  // namespace glint
