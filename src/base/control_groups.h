// The control groups of this process (version 1 or 2), by which containers, services and batch
// systems limit what it may use.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace glint {

// Calls `look` with the folder of each group that limits `controller` ("cpu", "memory"): the
// process's own and those around it. In a container only the root of the mount may be there, which
// is then the container's own. With a `root` those of the machine whose files lie below it.
void for_each_group(const std::string& root, std::string_view controller,
                    const std::function<void(const std::string& folder, bool is_v1)>& look);

// CPUs by the strictest quota of time, rounded up; the largest int without one.
int quota_cpus(const std::string& root = {});

}  // namespace glint
