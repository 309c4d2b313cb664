// An errno with what was being done, as an error.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "base/result.h"
#include "base/str.h"

namespace glint {

// "cannot sync PATH: no space left on device": `doing` failed with that errno.
inline Error system_error(const std::string& doing, const std::string& path, int code) {
  const bool is_resource = code == ENOSPC || code == EDQUOT || code == EMFILE || code == EFBIG;
  return Error{is_resource ? ErrorCode::kResourceExhausted : ErrorCode::kInvalidArgument,
               str(doing, " ", path, ": ", std::strerror(code))};
}

}  // namespace glint
