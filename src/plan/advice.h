// Which layout is best, and what to change where nothing fits.
#pragma once

#include <string>
#include <vector>

#include "plan/deployment.h"

namespace glint {

struct LayoutChoice {
  MeshShape layout = {};
  double latency = 0;       // seconds of a step of one sequence
  double tokens_per_s = 0;  // sustained, at its best batch
  int batch = 0;            // that best batch
};

// Every layout of options.count devices in which the model fits, by tp first.
std::vector<LayoutChoice> choose_layouts(const ModelConfig& config,
                                         const DeploymentOptions& options);
// Null if there is none.
const LayoutChoice* best_for_latency(const std::vector<LayoutChoice>& choices);
const LayoutChoice* best_for_throughput(const std::vector<LayoutChoice>& choices);

// Sentences that say what would fit: other layouts of the same devices, releases in other formats
// on as many devices or fewer, more devices.
std::vector<std::string> advise(const ModelConfig& config, const Deployment& deployment);

}  // namespace glint
