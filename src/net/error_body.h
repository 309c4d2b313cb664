// The message of an answer that tells an error.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace glint {

// The message of {"error": {"message": ..}} or {"message": ..}, which APIs of models answer with;
// of any other body itself, at most 500 bytes.
std::string message_of_error(const Json& body);
std::string error_message(std::string_view body);

}  // namespace glint
