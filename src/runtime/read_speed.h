// How fast files are read and new memory is filled: what loading a model is measured against.
#pragma once

#include <span>
#include <string>

#include "base/result.h"

namespace glint {

class ThreadPool;

// How much of `files` is in the page cache, 0 to 1, by some pages of each.
double cached_share(std::span<const std::string> files);

// Where files are read from: wherever they are, or, taken out of the page cache, the disk.
enum class ReadFrom : std::uint8_t { kAnywhere, kDisk };

// GB/s at which `threads` threads copy `files` into small buffers, as `cat` would.
Result<double> read_speed(std::span<const std::string> files, int threads,
                          ReadFrom from = ReadFrom::kAnywhere);

// GB/s at which all threads of `pool` fill memory that was not in use: the kernel zeroes it first,
// and where a hypervisor hands it out only as it is touched, it may be slower than a disk.
double new_memory_speed(ThreadPool& pool);

}  // namespace glint
