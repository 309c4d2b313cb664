// ExpertBalancer: when experts move between the ranks that share them, and where to (EPLB).
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "engine/executor.h"
#include "model/model_partition.h"

namespace glint {

struct ExpertBalancerOptions {
  std::vector<int> layers = {};  // the MoE layers, in order
  int num_experts = 0;
  int interval = 1000;  // steps between two looks at the load; 0: nobody looks
};

// Looks every `interval` steps at what each expert had to do since the last look. Layers whose
// busiest rank would have noticeably less to do in other slots are moved, one a step: so no step
// waits for more than one layer.
class ExpertBalancer {
 public:
  struct Move {
    int layer = 0;
    ExpertSlots slots;
  };
  // Tokens that each expert got since the start: [layers, num_experts].
  using Load = std::function<std::vector<std::uint64_t>()>;

  ExpertBalancer(const ModelPartition& partition, ExpertBalancerOptions options);

  // Before each step: what moves first, if anything does.
  std::optional<Move> before_step(const Load& load);
  // All are where they were loaded again.
  void forget_moves();

  ExpertPlaces places() const;  // from any thread

 private:
  void look(const std::vector<std::uint64_t>& load);

  const ExpertBalancerOptions options_;
  const int num_ranks_;
  const ExpertSlots first_;
  int steps_ = 0;                    // since the last look, with the present one
  std::vector<std::uint64_t> seen_;  // the load at the last look
  std::vector<Move> waiting_;        // the next one last
  mutable std::mutex mutex_;
  ExpertPlaces places_;
};

}  // namespace glint
