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
  // They take the places of the host's groups in `mesh`, which outlive them, as `backend` does. A
  // rank that is alone in one needs none, but where it has slices of its own, to add in that of tp.
  static DeviceGroups join(Backend& backend, Mesh& mesh, bool has_slices = false);

  // As DeviceComm's, of each. connect_once(): nothing where they are connected already, which all
  // ranks are or none.
  Status connect();
  Status connect_once() { return is_connected_ ? Status(Ok{}) : connect(); }
  // How bytes move in the first; nothing where there is none.
  std::string way() const { return all_.empty() ? "" : all_.front()->way(); }

 private:
  std::vector<std::unique_ptr<DeviceComm>> all_;
  bool is_connected_ = false;
};

}  // namespace glint
