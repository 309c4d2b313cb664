// A server over ranks, as its launchers take it: a manifest for Kubernetes, a script for Slurm.
#pragma once

#include <cstdint>
#include <string>

namespace glint {

// A rank a machine.
struct LaunchText {
  std::string model;  // a folder that all machines have, or an id of the Hugging Face hub
  int ranks = 1;
  std::int64_t memory = 0;  // bytes of a rank
  bool on_gpu = false;      // each has one
};

// A LeaderWorkerSet, and a Service for its leader, in YAML. The image is that of our Dockerfile.
std::string kubernetes_manifest(const LaunchText& launch);
// For sbatch.
std::string slurm_script(const LaunchText& launch);

}  // namespace glint
