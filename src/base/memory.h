// How much memory there is to use.
#pragma once

#include <cstdint>
#include <string>

namespace glint {

// Bytes that new allocations of this process can use without swapping: what the kernel estimates,
// and what its control group (containers; version 1 or 2) and its RLIMIT_AS leave. Pages that cache
// files count as free. With a `root` that of the machine whose /proc and /sys lie below it.
std::int64_t available_memory(const std::string& root = {});

// Gives what was freed, and what the allocator keeps for later, back to the system.
void release_free_memory();

// From here on the allocator keeps at most a mebibyte at the end of each of its heaps, and asks the
// system for larger pieces one by one. By itself glibc keeps as much as the largest piece that was
// ever freed, and release_free_memory() gets that of the first heap only.
void keep_little_memory();

// Bytes of the machine, or what its control group may use at most.
std::int64_t total_memory(const std::string& root = {});

}  // namespace glint
