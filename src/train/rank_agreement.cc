#include "train/rank_agreement.h"

#include <span>

#include "base/contains.h"
#include "comm/all_of.h"
#include "train/as_tensor.h"

namespace glint {

Error interrupted() { return unavailable("interrupted"); }

bool all_go_on(bool own, const Mesh& mesh) {
  for (Comm* const group : {mesh.tp, mesh.cp, mesh.ep}) {
    if (group->size() == 1) continue;
    own = !contains(all_of<std::int32_t>(own, *group), 0);
  }
  return own;
}

bool all_agree(bool own, const Mesh& mesh) {
  own = all_go_on(own, mesh);
  if (mesh.pp->size() == 1) return own;
  return !contains(all_of<std::int32_t>(own, *mesh.pp), 0);
}

void StageSignal::hear(const GradientSource::OnPart& on_part) {
  if (partition_.is_first()) {
    goes_on_ = all_go_on(!on_part || on_part(), mesh_);
    return;
  }
  std::int32_t flag = 0;
  mesh_.pp->recv(as_tensor(std::span(&flag, 1)), partition_.stage - 1);
  goes_on_ = flag != 0;
}

void StageSignal::tell() {
  if (partition_.is_last()) return;
  std::int32_t flag = goes_on_;
  mesh_.pp->send(as_tensor(std::span(&flag, 1)), partition_.stage + 1);
}

}  // namespace glint
