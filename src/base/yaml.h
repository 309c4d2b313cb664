// YAML, as the configuration files of servers use it: into Json, keys in the order of the file.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace glint {

// Plain scalars become what YAML 1.2 says (null, booleans, integers, numbers), quoted ones texts.
// Fails with line and reason; refuses aliases (a file of a kilobyte could stand for gigabytes),
// tags, several documents, keys that are not texts, repeated keys and nesting deeper than 32.
Result<Json> parse_yaml(std::string_view text);

// The YAML of a file of at most 1 MiB, whose name is in every error.
Result<Json> read_yaml_file(const std::string& path);

}  // namespace glint
