// Whether ranks go on: those that meet in a layer, and the stages, go on together or not at all.
#pragma once

#include "base/result.h"
#include "comm/comm.h"
#include "model/model_partition.h"
#include "train/gradient_source.h"

namespace glint {

// The error of a pass that does not.
Error interrupted();

// The ranks that divide a layer, which meet in each. Collective over them.
bool all_go_on(bool own, const Mesh& mesh);

// all_go_on() over the stages too. Not while they work on batches, each on another one.
bool all_agree(bool own, const Mesh& mesh);

// Between the stages: the first decides before each batch, and each other one hears it from the one
// before and tells the next.
class StageSignal {
 public:
  // Both outlive it.
  StageSignal(const ModelPartition& partition, const Mesh& mesh)
      : partition_(partition), mesh_(mesh) {}

  void hear(const GradientSource::OnPart& on_part);
  void tell();
  bool goes_on() const { return goes_on_; }

 private:
  const ModelPartition& partition_;
  const Mesh& mesh_;
  bool goes_on_ = true;
};

}  // namespace glint
