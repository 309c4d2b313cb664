// Ranks as threads of one process, whose tensors lie in host memory: how layouts are tested on any
// machine, and how one process serves several sockets of a host.
#pragma once

#include <memory>
#include <vector>

#include "comm/comm.h"

namespace glint {

// A group of `size` ranks; each member is used by one thread. The group lives as long as its last
// member. A call that differs from the others' aborts and names both.
std::vector<std::unique_ptr<Comm>> make_thread_comms(int size);

}  // namespace glint
