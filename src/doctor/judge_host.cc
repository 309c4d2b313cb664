// Findings about the machine itself, its limits and its disks.
#include <algorithm>

#include "base/str.h"
#include "doctor/findings.h"

namespace glint {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20, kGiB = std::int64_t{1} << 30;
// `glint generate` of the bundled model has 90 MiB at most.
constexpr std::int64_t kLeastMemory = 128 * kMiB;
// A server raises its soft limit to --max-connections and 512 more, as far as the hard one lets it.
constexpr std::int64_t kManyFiles = 4096;
// The /dev/shm that NCCL's documentation asks of containers.
constexpr std::int64_t kSharedMemory = kGiB;

// `command` with the bundled model, where there is one.
std::vector<std::string> for_bundled_model(const MachineFacts& m, const char* command) {
  return m.has_bundled_model ? std::vector<std::string>{command} : std::vector<std::string>();
}

Finding judge_system(const MachineFacts& m) {
  std::string text = m.system;
  if (!m.kernel.empty()) text += ", Linux " + m.kernel;
  if (m.in_container())
    text += m.container == "container" ? ", in a container"
                                       : str(", in a container (", m.container, ")");
  if (m.cpu.is_virtual) text += ", on a virtual machine";
  return {"machine", "system", Mark::kOk, text};
}

Finding judge_cpu(const MachineFacts& m) {
  const CpuFacts& cpu = m.cpu;
  std::string text = cpu.model.empty() ? "a CPU without a name" : cpu.model;
  text += str(": ", cpu.usable == cpu.online ? "" : str(cpu.usable, " of "),
              counted(cpu.online, "CPU"));
  if (cpu.numa_nodes > 1) text += str(" on ", cpu.numa_nodes, " NUMA nodes");
  if (cpu.isa.empty())
    return {"machine", "CPU", Mark::kFail,
            text +
                "; no AVX2 and FMA, which every kernel of the cpu backend needs: only the slow "
                "reference is left",
            for_bundled_model(m, "glint generate models/glm5-tiny -p Hello --backend reference")};
  if (cpu.has_quota)
    return {"machine",
            "CPU",
            Mark::kNote,
            str(text, "; the quota of its control group is ", cpu.usable, ", and glint starts ",
                cpu.usable == 1 ? "one thread" : str(cpu.usable, " threads"), " to match"),
            {str("docker run --cpus ", cpu.online, " ...")}};
  return {"machine", "CPU", Mark::kOk, text};
}

Finding judge_rates(const Rates& rates) {
  return {"machine", "rates", Mark::kOk,
          formatted("%s of %s: memory reads %.1f GB/s, %.0f GFLOP/s in f32, %.0f GFLOP/s in bf16",
                    counted(rates.threads, "thread").c_str(), rates.backend.c_str(),
                    rates.read_gb_s, rates.f32_gflops, rates.matrix_gflops)};
}

Finding judge_memory(const MachineFacts& m) {
  const MemoryFacts& memory = m.memory;
  std::string text =
      str(human_bytes(memory.total), ", of which ", human_bytes(memory.available), " are free");
  const bool grouped = memory.total < memory.installed;
  if (grouped) text += str("; the machine has ", human_bytes(memory.installed));
  if (memory.available < kLeastMemory)
    return {"machine",
            "memory",
            Mark::kFail,
            str(text, "; even the bundled model needs ", human_bytes(kLeastMemory)),
            {grouped ? "docker run --memory 4g ..." : "ps aux --sort -rss | head"}};
  if (grouped)
    return {
        "machine",
        "memory",
        Mark::kNote,
        text + "; its control group holds it to that",
        {str("docker run --memory ", std::max<std::int64_t>(memory.installed / kGiB, 1), "g ...")}};
  return {"machine", "memory", Mark::kOk, text};
}

// Which published weights of GLM-5 lie in memory. What is larger than memory is read from its files
// again and again.
Finding judge_models(const MachineFacts& m) {
  std::string fits, not_fits;
  for (const PublishedSize& size : kGlm5) {
    std::string& list = size.bytes < m.memory.available ? fits : not_fits;
    list += str(list.empty() ? "" : ", ", size.format, " (", human_bytes(size.bytes), ")");
  }
  if (fits.empty())
    return {"machine", "GLM-5", Mark::kNote, str("does not fit into free memory in ", not_fits),
            for_bundled_model(m, "glint serve models/glm5-tiny")};
  return {"machine", "GLM-5", Mark::kOk,
          str("fits into free memory in ", fits, not_fits.empty() ? "" : "; not in " + not_fits)};
}

Finding judge_huge_pages(const MemoryFacts& memory) {
  Finding out = {"machine", "huge pages", Mark::kOk, ""};
  if (memory.huge_pages == "never") {
    out.mark = Mark::kFix;
    out.text =
        "switched off; glint keeps weights in pages of 2 MiB, which spare the processor "
        "looking up the others";
    out.commands = {"echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"};
    return out;
  }
  out.text = memory.huge_pages.empty() ? "this kernel has no transparent huge pages"
                                       : str("given when asked for (", memory.huge_pages, ")");
  if (memory.reserved > memory.total / 20) {
    out.mark = Mark::kNote;
    out.text += str("; ", human_bytes(memory.reserved),
                    " are reserved for programs of another kind, and glint cannot use them");
    out.commands = {"sudo sysctl vm.nr_hugepages=0"};
  }
  return out;
}

}  // namespace

std::vector<Finding> judge_host(const MachineFacts& m, const Rates& rates) {
  std::vector<Finding> out = {judge_system(m), judge_cpu(m)};
  if (rates.read_gb_s > 0) out.push_back(judge_rates(rates));
  if (m.cpu.on_battery)
    out.push_back({"machine", "power", Mark::kNote, "on battery: expect less speed"});
  // Drivers that steer by hints call their usual way powersave, too.
  const bool hinted = m.cpu.frequency_driver.starts_with("intel_pstate") ||
                      m.cpu.frequency_driver.starts_with("amd-pstate");
  if (m.cpu.governor == "powersave" && !hinted)
    out.push_back({"machine",
                   "power",
                   Mark::kFix,
                   "the CPUs stay at their lowest frequency (governor powersave)",
                   {"echo performance | sudo tee -a "
                    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"}});
  if (m.cpu.numa_nodes > 1)
    out.push_back({"machine",
                   "NUMA",
                   Mark::kNote,
                   str(m.cpu.numa_nodes,
                       " nodes: ranks keep to the memory of their own; one alone uses all, and is "
                       "faster where its memory is spread"),
                   {str("glint serve MODEL --tp ", m.cpu.numa_nodes),
                    "numactl --interleave=all glint serve MODEL"}});
  out.push_back(judge_memory(m));
  out.push_back(judge_models(m));
  out.push_back(judge_huge_pages(m.memory));
  if (m.memory.overcommit == 2)
    out.push_back({"machine",
                   "overcommit",
                   Mark::kFix,
                   "vm.overcommit_memory is 2: room is refused before memory is full, and weights "
                   "reserve much",
                   {"sudo sysctl vm.overcommit_memory=0"}});
  return out;
}

std::vector<Finding> judge_limits(const MachineFacts& m) {
  const LimitFacts& limits = m.limits;
  std::vector<Finding> out;
  if (!limits.known) return out;
  const bool docker = m.in_container();
  if (limits.open_files && *limits.open_files < kManyFiles) {
    out.push_back(
        {"limits",
         "open files",
         Mark::kFix,
         str(*limits.open_files, " at most; each connection of a server is one"),
         {docker ? "docker run --ulimit nofile=65536 ..."
                 : "echo '* - nofile 65536' | sudo tee -a /etc/security/limits.d/glint.conf "
                   " # then log in again"}});
  } else {
    out.push_back({"limits", "open files", Mark::kOk,
                   limits.open_files ? str(*limits.open_files, " at most") : "unlimited"});
  }
  const bool locks = m.gpu.gpus.size() > 1 || !m.infiniband.empty();
  if (locks && limits.locked_bytes && *limits.locked_bytes < kGiB) {
    out.push_back({"limits",
                   "locked memory",
                   Mark::kFix,
                   str(human_bytes(*limits.locked_bytes),
                       " at most; network cards and peers reach only memory that is locked, and "
                       "NCCL and UCX fail without"),
                   {docker ? "docker run --ulimit memlock=-1 ..."
                           : "echo '* - memlock unlimited' | sudo tee -a "
                             "/etc/security/limits.d/glint.conf  # then log in again"}});
  } else {
    out.push_back(
        {"limits", "locked memory", Mark::kOk,
         str(limits.locked_bytes ? human_bytes(*limits.locked_bytes) + " at most" : "unlimited",
             locks ? "" : "; nothing here needs more")});
  }
  if (limits.address_bytes && *limits.address_bytes < m.memory.total)
    out.push_back(
        {"limits",
         "address space",
         Mark::kFix,
         str(human_bytes(*limits.address_bytes), " at most; checkpoints are mapped whole"),
         {"ulimit -v unlimited"}});
  if (limits.file_bytes && *limits.file_bytes < 16 * kGiB)
    out.push_back(
        {"limits",
         "file size",
         Mark::kFix,
         str(human_bytes(*limits.file_bytes), " at most; files of weights have gigabytes"),
         {"ulimit -f unlimited"}});
  return out;
}

namespace {

bool is_network(const std::string& type) {
  return type.starts_with("nfs") || type == "cifs" || type == "smb3" || type == "ceph" ||
         type == "lustre" || type == "9p" || type == "fuse.sshfs" || type == "beegfs";
}

Finding judge_shared_memory(const MachineFacts& m, const DiskFacts& disk) {
  std::string text = disk.total ? str(human_bytes(disk.total), " at ", disk.path) : "none";
  if (m.gpu.gpus.size() > 1 && disk.total < kSharedMemory)
    return {
        "disks",
        disk.what,
        Mark::kFix,
        text + "; processes of several GPUs exchange through it, and NCCL fails when it is full",
        {m.in_container() ? "docker run --ipc=host ...  # or --shm-size=16g"
                          : "sudo mount -o remount,size=16G /dev/shm"}};
  return {"disks", disk.what, Mark::kOk, text};
}

Finding judge_disk(const MachineFacts& m, const DiskFacts& disk) {
  const bool models = disk.what == "models";
  Finding out = {"disks", disk.what, Mark::kOk, ""};
  if (disk.total == 0) {
    out.mark = Mark::kNote;
    out.text = str(disk.path, ": how much room there is cannot be said");
    return out;
  }
  out.text = str(disk.path, ": ", human_bytes(disk.free), " free of ", human_bytes(disk.total),
                 disk.type.empty() ? "" : str(" (", disk.type, ")"));
  const char* const why_not = disk.is_read_only            ? "; read-only"
                              : !models && disk.is_missing ? "; there is no such folder"
                              : !disk.is_writable          ? "; this user may not write there"
                                                           : nullptr;
  if (why_not || disk.free < kGiB) {
    // Weights that others share are often mounted so.
    out.mark = models && why_not ? Mark::kNote : Mark::kFix;
    out.text += why_not ? why_not : "; nearly full";
    if (models) out.text += ": nothing can be fetched";
    out.commands = {str(models ? "export HF_HUB_CACHE=/a/" : "export TMPDIR=/a/",
                        why_not ? "writable" : "larger", "/disk")};
    return out;
  }
  if (models && disk.free < kGlm5[1].bytes) {
    out.text += str("; GLM-5 in FP8 takes ", human_bytes(kGlm5[1].bytes));
  }
  if (models && is_network(disk.type)) {
    out.mark = Mark::kNote;
    out.text += "; over a network a first load takes as long as the network needs";
    out.commands = {"export HF_HUB_CACHE=/a/local/disk"};
  } else if (models && m.in_container() && disk.type == "overlay") {
    out.mark = Mark::kNote;
    out.text += "; inside the container, and gone with it";
    out.commands = {"docker run -v ~/.cache/huggingface:/root/.cache/huggingface ..."};
  }
  return out;
}

}  // namespace

std::vector<Finding> judge_disks(const MachineFacts& m) {
  std::vector<Finding> out;
  for (const DiskFacts& disk : m.disks) {
    out.push_back(disk.what == "shared memory" ? judge_shared_memory(m, disk)
                                               : judge_disk(m, disk));
  }
  return out;
}

}  // namespace glint
