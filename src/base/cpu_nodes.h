// Which CPUs a rank keeps to, where those of a machine lie beside memories of their own (NUMA):
// what its threads write first, weights and caches, then lies beside them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace glint {

// The kernel's "0-3,8,10-11"; empty for what is none.
std::vector<int> read_cpu_list(std::string_view list);

// The CPUs that the process could use as it was started; what it was bound to since does not count.
const std::vector<int>& cpus_at_start();

// The CPUs of `usable` by node of memory; nodes without any are left out. Empty where the kernel
// does not say.
std::vector<std::vector<int>> cpu_nodes(const std::vector<int>& usable,
                                        const std::string& dir = "/sys/devices/system/node");

// The CPUs of one of `ranks` of a machine: of its nodes, of which each rank has as many, or of the
// node that it shares with as many ranks as there are on each. Empty where that does not work out,
// or where there is one node: all CPUs are as good.
std::vector<int> cpus_of_rank(const std::vector<std::vector<int>>& nodes, int rank, int ranks);

// Keeps the calling thread, and those that it starts from then on, to these CPUs; none changes
// nothing. Whether that worked.
bool keep_to_cpus(const std::vector<int>& cpus);

}  // namespace glint
