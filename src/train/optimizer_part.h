// OptimizerPart: AdamW's f32 masters and moments of one share of the parameters, which is all that
// a rank of several keeps of them (ZeRO-1). One rank has all.
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

  // Share number comm.rank() of `parameters`, which were made for comm.size() shares. Both outlive
  // this.
  OptimizerPart(Parameters& parameters, Comm& comm);

  // Numbers that it has of each value, and the number of the first among all parameters.
  std::int64_t size() const { return size_; }
  std::int64_t first() const { return first_; }
  static std::int64_t bytes(std::int64_t numbers) { return 3 * numbers * 4; }

  // Collective. Adds the gradients of all ranks, of which each gets its share, by the order of
  // comm/tree.h; returns the norm of all of them, which for the same gradients has the bits that
  // one rank computes.
  double reduce(ThreadPool& pool);
  // Then, collective: updates the share, and writes the masters of all where the gradients were.
  // `how` is of matrices; vectors do not decay.
  void update(const AdamWStep& how, ThreadPool& pool);

  // Takes its share of `all`, which is in the order of Parameters::flat().
  void take(Value value, std::span<const float> all);
  // Writes what it has of numbers first, first + 1, ... to `values`.
  void give(Value value, std::int64_t first, std::span<float> values) const;

 private:
  std::span<float> own(std::span<float> all) const;

  Parameters& parameters_;
  Comm& comm_;
  std::int64_t first_ = 0, size_ = 0;
  std::vector<float> values_[3];
};

}  // namespace glint
