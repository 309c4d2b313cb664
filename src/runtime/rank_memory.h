// RankMemory: the memory through which the ranks of a layout talk that are processes of one host.
#pragma once

#include <memory>
#include <vector>

#include "base/json.h"
#include "comm/shared_comm.h"
#include "runtime/rank_groups.h"

namespace glint {

// The groups of the layout, one behind another, and one of all its ranks.
class RankMemory {
 public:
  static std::size_t bytes_for(const MeshShape& shape);
  // Over the start of file `fd`, which has bytes_for(shape) and which all ranks map.
  static Result<RankMemory> map(const MeshShape& shape, int fd);

  // SharedGroup::end() and begin_again() of every group.
  void end() const;
  Status begin_again(int fd) const;

  // A rank's groups, whose traffic all count that have the memory.
  class Comms {
   public:
    Comms(const RankMemory& memory, int rank);
    Mesh mesh() const { return members_.mesh(); }
    // All ranks; its traffic is not counted.
    Comm& all() const { return *all_; }

   private:
    GroupMembers members_;
    std::unique_ptr<Comm> all_;
  };
  // The traffic of a rank so far, by the names of its groups.
  Json traffic(int rank) const;

 private:
  struct Group {
    RankGroup plan;
    SharedGroup memory;
  };
  explicit RankMemory(SharedGroup all) : all_(std::move(all)) {}
  std::vector<Group> groups_;
  SharedGroup all_;
};

// The traffic of a rank without groups.
Json no_traffic();

}  // namespace glint
