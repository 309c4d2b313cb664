// The files of a checkpoint that a checkpoint made from it has as well.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

// Tokenizer, templates, generation_config, licences: all that is neither weights nor says how they
// are stored. Names relative to `dir`.
std::vector<std::string> files_to_copy(const std::string& dir);

// Copies them to the directory `to`, synced.
Status copy_other_files(const std::string& from, const std::string& to);

}  // namespace glint
