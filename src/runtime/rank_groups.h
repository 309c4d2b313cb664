// The groups of ranks of a layout: with whom each rank talks, and about which part of the model.
#pragma once

#include <memory>
#include <vector>

#include "comm/counting_comm.h"
#include "model/model_partition.h"

namespace glint {

// A place in a mesh, and its name for people.
struct GroupKind {
  const char* name;
  Comm* Mesh::*place;
};
inline constexpr GroupKind kGroupKinds[] = {
    {"tp", &Mesh::tp}, {"cp", &Mesh::cp}, {"dp", &Mesh::dp}, {"ep", &Mesh::ep}, {"pp", &Mesh::pp}};
inline constexpr std::size_t kNumGroupKinds = std::size(kGroupKinds);

struct RankGroup {
  std::size_t kind = 0;    // of kGroupKinds
  std::vector<int> ranks;  // in their order in the group; two or more

  // The place of `rank` in the group; -1: it is no member.
  int member(int rank) const;
};

// All groups of more than one rank, in an order that all ranks agree on.
std::vector<RankGroup> groups_of(const MeshShape& shape);

// A rank's groups, whose traffic is counted.
class GroupMembers {
 public:
  // Its group of `kind`. `counters` outlive this; null: its own.
  void add(std::size_t kind, std::unique_ptr<Comm> comm, CommCounters* counters = nullptr);
  Mesh mesh() const;

 private:
  struct Member {
    std::size_t kind = 0;
    std::unique_ptr<Comm> comm;
    std::unique_ptr<CountingComm> counting;
  };
  std::vector<Member> members_;
};

}  // namespace glint
