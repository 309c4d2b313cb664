// A member of a JSON object that is text.
#pragma once

#include <string>

#include "base/json.h"

namespace glint {

// Null: there is none, or it is no text, or `object` is no object.
inline const std::string* text_of(const Json& object, const char* name) {
  const Json* const value = object.find(name);
  return value && value->is_string() ? &value->as_string() : nullptr;
}

}  // namespace glint
