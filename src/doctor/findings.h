// Findings from the facts of a machine: the parts that glint will use, and the faults to fix, each
// with its command.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "doctor/facts.h"

namespace glint {

enum class Mark : std::uint8_t {
  kOk,    // nothing to do
  kNote,  // to know; glint does its work
  kFix,   // costs speed, or makes other programs on the same machine hang or fail
  kFail,  // glint does not run, or not the bundled model
};

const char* name_of(Mark mark);  // "ok", "note", "fix", "fail"

struct Finding {
  std::string area = {};     // "machine", "limits", "disks", "GPUs", "glint"
  std::string subject = {};  // "memory"
  Mark mark = Mark::kOk;
  std::string text = {};
  std::vector<std::string> commands = {};  // what to type, or to add to a command line
};

// Features of this build of glint.
struct BuildFacts {
  bool has_cuda = false;
  // Whether it has CUDA code for devices of a compute capability (90: 9.0).
  bool (*has_kernels)(int capability) = [](int) { return false; };
};

// 90 of "9.0"; 0 where nothing tells.
int capability_of(const GpuFacts& gpu);

// In the order of areas. Findings that do not concern a machine are left out, such as peer access
// where there is one GPU.
std::vector<Finding> judge(const MachineFacts& machine, const Rates& rates,
                           const BuildFacts& build);

// The parts.
std::vector<Finding> judge_host(const MachineFacts& machine, const Rates& rates);
std::vector<Finding> judge_limits(const MachineFacts& machine);
std::vector<Finding> judge_disks(const MachineFacts& machine);
std::vector<Finding> judge_gpus(const MachineFacts& machine, const BuildFacts& build);
std::vector<Finding> judge_links(const MachineFacts& machine);  // between GPUs, and to others
Finding judge_use(const MachineFacts& machine, const Rates& rates, const BuildFacts& build);

// Weights of GLM-5 as published, in bytes.
struct PublishedSize {
  const char* format;
  std::int64_t bytes = {};
};
inline constexpr PublishedSize kGlm5[] = {
    {"BF16", 1507728316928}, {"FP8", 756162687872}, {"NVFP4", 465863664128}};

}  // namespace glint
