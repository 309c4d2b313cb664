// A server over ranks, as its launchers take it: a manifest for Kubernetes, a script for Slurm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace glint {

// A process a machine: a rank of CPUs, or the ranks of its GPUs.
struct LaunchText {
  std::string model;  // a folder that all machines have, or an id of the Hugging Face hub
  std::vector<std::string> words = {};  // for `glint serve`; none needs quotes in a shell
  int machines = 1;
  std::int64_t memory = 0;  // bytes of a machine
  int gpus = 0;             // of a machine
};

// A LeaderWorkerSet, and a Service for its leader, in YAML. The image is that of our Dockerfile.
std::string kubernetes_manifest(const LaunchText& launch);
// For sbatch.
std::string slurm_script(const LaunchText& launch);

}  // namespace glint
