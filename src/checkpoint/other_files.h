// The files of a checkpoint that a checkpoint made from it has as well.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

// Tokenizer, templates, generation_config, licences: all that is neither weights nor says how they
// are stored. Names relative to `dir`.
std::vector<std::string> files_to_copy(const std::string& dir);

// They themselves, by name.
using OtherFiles = std::map<std::string, std::string>;
Result<OtherFiles> read_other_files(const std::string& dir);

// Writes them to the directory `to`, synced.
Status write_other_files(const OtherFiles& files, const std::string& to);

}  // namespace glint
