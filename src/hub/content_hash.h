// Hashes of files, as a hub names them.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace glint {

// In hex. Both read the file from front to back, and fail with "interrupted" when `stop` says so.
Result<std::string> sha256_of_file(const std::string& path, const std::function<bool()>& stop);

// Git's name of a blob: SHA-1 of "blob SIZE\0" and the bytes.
Result<std::string> git_oid_of_file(const std::string& path, const std::function<bool()>& stop);

}  // namespace glint
