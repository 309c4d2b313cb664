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

// The path of a directory that is there or yet to be made, from the root: it names the same one
// when the working directory is gone. As given, if the directory above it is not there.
std::string absolute_name(const std::string& path);

// Fails unless a directory can be renamed to `dir`: nothing or an empty directory has that name,
// and its parent is there.
Status check_directory_name(const std::string& dir);

}  // namespace glint
