#include "doctor/findings.h"

#include <algorithm>

#include "base/str.h"

namespace glint {

const char* name_of(Mark mark) {
  constexpr const char* kNames[] = {"ok", "note", "fix", "fail"};
  return kNames[static_cast<int>(mark)];
}

Finding judge_use(const MachineFacts& m, const Rates& rates, const BuildFacts& build) {
  const bool gpu = std::any_of(m.gpu.gpus.begin(), m.gpu.gpus.end(), [&](const GpuFacts& each) {
    return each.answers && build.has_kernels(capability_of(each));
  });
  const int threads = rates.threads > 0 ? rates.threads : m.cpu.usable;
  const std::string isa = m.cpu.isa.empty() ? "reference" : m.cpu.isa;
  return {"glint", "uses", m.cpu.isa.empty() ? Mark::kFail : Mark::kOk,
          str(gpu ? "the GPU; with --backend cpu " : "the cpu backend with ", "kernels of ", isa,
              " on ", counted(threads, "thread"))};
}

std::vector<Finding> judge(const MachineFacts& machine, const Rates& rates,
                           const BuildFacts& build) {
  std::vector<Finding> out = judge_host(machine, rates);
  const auto add = [&](std::vector<Finding> more) {
    out.insert(out.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  };
  add(judge_limits(machine));
  add(judge_disks(machine));
  add(judge_gpus(machine, build));
  add(judge_links(machine));
  out.push_back(judge_use(machine, rates, build));
  return out;
}

}  // namespace glint
