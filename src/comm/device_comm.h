// DeviceComm: a group of ranks whose tensors lie in the memory of devices. It finds its way at
// start: what the devices reach of each other decides how bytes move, and never what is added.
#pragma once

#include "base/result.h"
#include "comm/comm.h"

namespace glint {

class DeviceComm : public Comm {
 public:
  // Collective, before the first call, and again when the group on the host has begun again. Fails
  // on all ranks, with one sentence, where bytes cannot move as they were asked to.
  virtual Status connect() = 0;
  // How bytes move, for people: "through the host".
  virtual const char* way() const = 0;
};

}  // namespace glint
