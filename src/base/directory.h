// Directories that are made beside their name, which they take when they are complete.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

// Makes renames and new files in `dir` durable.
Status sync_directory(const std::string& dir);

struct MoveOrder {
  std::string_view first = {};  // by which a killed move is known; empty: it is not gone on with
  std::string_view last = {};   // by which others know that the directory is whole
};

// Gives the finished directory `partial`, synced itself, its name `dir`, durably. An empty
// directory of that name stays, with its mode and those who work in it: what `partial` holds moves
// there in that order. Goes on with a move that was killed.
Status rename_directory(const std::string& partial, const std::string& dir, const MoveOrder& order);
bool is_half_moved(const std::string& partial, const std::string& dir, const MoveOrder& order);

std::string without_slashes(std::string path);  // at its end

// The path of a directory that is there or yet to be made, from the root: it names the same one
// when the working directory is gone. As given, if the directory above it is not there.
std::string absolute_name(const std::string& path);

// Fails unless rename_directory() can make `dir`: nothing or an empty directory that can be
// written has that name, and its parent is there.
Status check_directory_name(const std::string& dir);

}  // namespace glint
