// Reads what a machine is. Nothing here fails: what cannot be read stays empty.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "doctor/facts.h"
#include "doctor/machine_files.h"

namespace glint {

struct DiskSpace {
  std::int64_t total = 0, free = 0;  // bytes
  bool is_read_only = false;
};

// Space of the file system that `path` lies on.
std::optional<DiskSpace> disk_space(const std::string& path);

struct LookOptions {
  std::string root = {};  // a tree that holds another machine's files; empty: this machine
  // Purposes and paths of folders, which need not exist yet.
  std::vector<std::pair<std::string, std::string>> folders = {};
  std::vector<std::string> variables = {};  // "NAME=value" of the environment
  double program_seconds = 30;              // for each answer of nvidia-smi
  // Asked with paths below the root.
  std::function<std::optional<DiskSpace>(const std::string&)> space = disk_space;
};

MachineFacts look_at_machine(const LookOptions& options);

// The parts.
CpuFacts look_at_cpu(const MachineFiles& files);
MemoryFacts look_at_memory(const MachineFiles& files);
LimitFacts look_at_limits(const MachineFiles& files);
DiskFacts look_at_disk(const MachineFiles& files, const LookOptions& options,
                       const std::string& what, const std::string& path);
GpuSystemFacts look_at_gpus(const MachineFiles& files, double program_seconds);
LibraryFacts look_for_library(const MachineFiles& files, const std::string& name,
                              const std::string& file);

}  // namespace glint
