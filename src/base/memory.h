// How much memory there is to use.
#pragma once

#include <cstdint>

namespace glint {

// Bytes that new allocations of this process can use without swapping: what the kernel estimates,
// and what its control group (containers) leaves. Pages that cache files count as free.
std::int64_t available_memory();

// Bytes of the machine, or what its control group may use at most.
std::int64_t total_memory();

}  // namespace glint
