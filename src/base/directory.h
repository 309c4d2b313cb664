// Directories that are made beside their name and renamed when they are complete.
#pragma once

#include <string>

#include "base/result.h"

namespace glint {

// Makes renames and new files in `dir` durable.
Status sync_directory(const std::string& dir);

// Gives the finished directory `partial`, synced itself, its name `dir`, durably.
Status rename_directory(const std::string& partial, const std::string& dir);

std::string without_slashes(std::string path);  // at its end

// Makes sure that a directory can be renamed to `dir`: an empty one of that name is removed, and
// anything else there is an error, and so is a parent that is not there.
Status claim_directory_name(const std::string& dir);

}  // namespace glint
