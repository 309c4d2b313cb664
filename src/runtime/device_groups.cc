#include "runtime/device_groups.h"

#include "runtime/rank_groups.h"

namespace glint {

DeviceGroups DeviceGroups::join(Backend& backend, Mesh& mesh, bool has_slices) {
  DeviceGroups groups;
  for (const GroupKind& kind : kGroupKinds) {
    Comm*& place = mesh.*kind.place;
    if (place->size() == 1 && !(has_slices && kind.place == &Mesh::tp)) continue;
    std::unique_ptr<DeviceComm> group = backend.make_comm(*place);
    if (!group) break;
    place = group.get();
    groups.all_.push_back(std::move(group));
  }
  return groups;
}

Status DeviceGroups::connect() {
  Status all = Ok{};
  for (const auto& group : all_) {  // also behind one that failed: others wait in them
    const Status own = group->connect();
    if (all.ok()) all = own;
  }
  is_connected_ = all.ok();
  return all;
}

}  // namespace glint
