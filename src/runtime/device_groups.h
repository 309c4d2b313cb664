// DeviceGroups: a rank's groups in front of its device (comm/device_comm.h), where that is not the
// host.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace glint {

class DeviceGroups {
 public:
  // Puts groups of the device in the places of the host's groups in `mesh`; these and `backend`
  // outlive them. A rank alone in a group needs none, unless it adds up slices of its own in tp's.
  static DeviceGroups join(Backend& backend, Mesh& mesh, bool has_slices = false);

  // DeviceComm::connect() of each group. connect_once() does nothing where they are connected
  // already, as either all ranks are or none.
  Status connect();
  Status connect_once() { return is_connected_ ? Status(Ok{}) : connect(); }
  // How bytes move in the first; nothing where there is none.
  std::string way() const { return all_.empty() ? "" : all_.front()->way(); }

 private:
  std::vector<std::unique_ptr<DeviceComm>> all_;
  bool is_connected_ = false;
};

}  // namespace glint
