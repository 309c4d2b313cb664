// JSON pointers (RFC 6901): where in a document something is.
#pragma once

#include <string_view>
#include <utility>

#include "base/json.h"

namespace glint {

// The part of a document that a JSON pointer ("/a/b~1c") leads to, or null. Through objects only.
const Json* follow_pointer(const Json& root, std::string_view pointer);
inline Json* follow_pointer(Json& root, std::string_view pointer) {
  return const_cast<Json*>(follow_pointer(std::as_const(root), pointer));
}

}  // namespace glint
