// OptimizerPart: AdamW's f32 masters and moments of one share of the parameters, which is all that
// a rank of several keeps of them (ZeRO-1). One rank has all.
//
// All ranks of a stage share what all of them have; of what they divide, those that have the same
// part share it.
#pragma once

#include <span>
#include <vector>

#include "comm/comm.h"
#include "train/optimizer.h"
#include "train/parameters.h"

namespace glint {

class ThreadPool;

class OptimizerPart {
 public:
  enum class Value { kMaster, kExpAvg, kExpAvgSq };

  // The part of the rank whose groups are `mesh`, with its `parameters`, which outlives this.
  OptimizerPart(Parameters& parameters, const Mesh& mesh);

  // Numbers that it has of each value.
  std::int64_t size() const;
  static std::int64_t bytes(std::int64_t numbers) { return 3 * numbers * 4; }

  // Collective. Adds the gradients of all ranks, of which each gets its shares, by the order of
  // comm/tree.h; returns the norm of all of them, each parameter counted once. Where ranks divide
  // nothing, it has for the same gradients the bits that one rank computes.
  double reduce(ThreadPool& pool);
  // Then, collective: updates the shares, and writes the masters of all the rank's parameters where
  // the gradients were. `how` is of matrices; vectors do not decay.
  void update(const AdamWStep& how, ThreadPool& pool);

  // Takes what it has of numbers first, first + 1, ... of Parameters::padded() from `values`; and
  // writes it there.
  void take(Value value, std::int64_t first, std::span<const float> values);
  void give(Value value, std::int64_t first, std::span<float> values) const;

 private:
  // This rank's share of a section.
  struct Share {
    std::int64_t offset = 0, padded = 0;  // the section
    std::vector<Comm*> groups = {};       // that cut it, one after another
    Comm* others = nullptr;               // who have other parts of the same tensors; or null
    std::int64_t first = 0, size = 0;     // of its numbers, in Parameters::padded()
    std::vector<float> values[3] = {};
  };
  // The section, and what each cut leaves of it: the last is the share, with the zeros behind it.
  std::vector<std::span<float>> cuts_of(const Share& share) const;
  void update(Share& share, const AdamWStep& how, ThreadPool& pool);

  Parameters& parameters_;
  Comm& pp_;
  std::vector<Share> shares_;
};

}  // namespace glint
