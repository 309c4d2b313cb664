// Ranks: a model over several ranks, which are threads of this process, or one of them, where the
// others are processes of their own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/json.h"
#include "runtime/loaded_model.h"
#include "runtime/rank_groups.h"

namespace glint {

class Ranks {
 public:
  // The groups of `shape`; the models are loaded by the caller, rank by rank:
  //   options.shape = shape, options.rank = r, options.mesh = ranks.mesh(r);  ranks.add(loaded)
  explicit Ranks(const MeshShape& shape);
  // Rank `rank` alone, whose groups are `mesh`, which outlive this. It is number 0 here.
  Ranks(const MeshShape& shape, int rank, const Mesh& mesh)
      : shape_(shape), first_(rank), own_(mesh) {}

  const MeshShape& shape() const { return shape_; }
  // The ranks of this process: `size()` from `first()` on, which are counted from 0 below.
  int size() const { return own_ ? 1 : shape_.num_ranks(); }
  int first() const { return first_; }
  Mesh mesh(int rank) const {
    return own_ ? *own_ : members_[static_cast<std::size_t>(rank)].mesh();
  }
  void add(std::unique_ptr<LoadedModel> model) { models_.push_back(std::move(model)); }
  LoadedModel& model(int rank) { return *models_[static_cast<std::size_t>(rank)]; }

  // work(rank) for every rank at the same time, each on a thread of its own; a group of one runs on
  // the caller's.
  void run(const std::function<void(int rank)>& work);

  // Traffic of a rank's collectives so far, in its group of kind `name` (rank_groups.h); empty
  // where it is alone there.
  std::map<std::string, CommUse> uses(int rank, std::string_view name) const;

 private:
  MeshShape shape_;
  int first_ = 0;
  std::optional<Mesh> own_;
  std::vector<GroupMembers> members_;  // by rank; none with own_
  std::vector<std::unique_ptr<LoadedModel>> models_;
};

// A rank for people: its layers, experts and heads, bytes of its weights.
Json describe_rank(LoadedModel& model);
Json describe(const std::map<std::string, CommUse>& uses);

}  // namespace glint
