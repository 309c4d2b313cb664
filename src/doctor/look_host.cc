// The machine without its GPUs.
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/contains.h"
#include "base/control_groups.h"
#include "base/cpu_nodes.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/parse_number.h"
#include "base/str.h"
#include "doctor/look.h"

namespace glint {
namespace {

// By the flags of /proc/cpuinfo: the instruction sets of backends/cpu/isa.h.
std::string isa_of(const std::vector<std::string_view>& flags) {
  const auto all = [&](std::initializer_list<std::string_view> names) {
    return std::all_of(names.begin(), names.end(),
                       [&](std::string_view name) { return contains(flags, name); });
  };
  if (!all({"avx2", "fma"})) return "";
  if (!all({"avx512f", "avx512bw", "avx512vl", "avx512dq"})) return "avx2";
  if (!all({"avx512vbmi", "avx512_bf16"})) return "avx512";
  return all({"amx_tile", "amx_bf16"}) ? "amx" : "avx512_bf16";
}

std::string_view value_of(std::string_view line) {
  const std::size_t colon = line.find(':');
  return colon == line.npos ? std::string_view() : trimmed(line.substr(colon + 1));
}

// The word in brackets: "always" of "[always] madvise never".
std::string chosen(std::string_view text) {
  const std::size_t open = text.find('['), close = text.find(']', std::min(open, text.size()));
  return close == text.npos ? "" : std::string(text.substr(open + 1, close - open - 1));
}

std::string container_of(const MachineFiles& files) {
  const std::string groups = files.text("/proc/1/cgroup") + files.text("/proc/self/cgroup");
  const auto says = [&](std::string_view word) { return groups.find(word) != groups.npos; };
  if (says("kubepods") || files.exists("/var/run/secrets/kubernetes.io")) return "kubernetes";
  if (says("/docker") || files.exists("/.dockerenv")) return "docker";
  if (files.exists("/run/.containerenv")) return "podman";
  if (says("/lxc") || says("containerd")) return "container";
  return "";
}

std::string system_of(const MachineFiles& files) {
  const std::string release = files.text("/etc/os-release");
  for (std::string_view line : split(release, '\n')) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    line = trimmed(line.substr(kKey.size()));
    if (line.size() >= 2 && (line.front() == '"' || line.front() == '\''))
      line = line.substr(1, line.size() - 2);
    return std::string(line);
  }
  return "Linux";
}

// A mount's path as /proc/self/mounts writes it: blanks are \040.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool octal = text[i] == '\\' && i + 3 < text.size() &&
                       std::all_of(text.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                   text.begin() + static_cast<std::ptrdiff_t>(i) + 4,
                                   [](char c) { return c >= '0' && c <= '7'; });
    if (!octal) {
      out += text[i];
      continue;
    }
    out +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
    i += 3;
  }
  return out;
}

bool lies_below(std::string_view path, std::string_view folder) {
  if (folder == "/") return true;
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

}  // namespace

CpuFacts look_at_cpu(const MachineFiles& files) {
  CpuFacts out;
  const std::string info = files.text("/proc/cpuinfo");
  bool has_flags = false;
  for (const std::string_view line : split(info, '\n')) {
    if (line.starts_with("processor")) ++out.online;
    if (line.starts_with("model name") && out.model.empty()) out.model = value_of(line);
    if (line.starts_with("flags") && !has_flags) {
      const std::vector<std::string_view> flags = words_of(value_of(line));
      out.isa = isa_of(flags);
      out.is_virtual = contains(flags, "hypervisor");
      has_flags = true;
    }
  }
  out.usable = out.online;
  const std::string status = files.text("/proc/self/status");
  for (const std::string_view line : split(status, '\n')) {
    if (!line.starts_with("Cpus_allowed_list:")) continue;
    const auto allowed = static_cast<int>(read_cpu_list(trimmed(value_of(line))).size());
    if (allowed > 0) out.usable = std::min(out.usable, allowed);
  }
  const int quota = quota_cpus(files.root());
  out.has_quota = quota < out.usable;
  out.usable = std::min(out.usable, quota);
  out.numa_nodes = 0;
  for (const std::string& name : files.names("/sys/devices/system/node")) {
    const bool is_node =
        name.starts_with("node") && parse_number<std::int64_t>(name.substr(4)).has_value();
    out.numa_nodes += is_node;
  }
  out.numa_nodes = std::max(out.numa_nodes, 1);
  const std::string frequency = "/sys/devices/system/cpu/cpu0/cpufreq/";
  out.governor = files.line(frequency + "scaling_governor");
  out.frequency_driver = files.line(frequency + "scaling_driver");
  const std::string supplies = "/sys/class/power_supply";
  bool has_battery = false, plugged_in = false;
  for (const std::string& name : files.names(supplies)) {
    const std::string type = files.line(str(supplies, "/", name, "/type"));
    has_battery |= type == "Battery" && files.line(str(supplies, "/", name, "/scope")) != "Device";
    plugged_in |= type != "Battery" && files.number(str(supplies, "/", name, "/online")) == 1;
  }
  out.on_battery = has_battery && !plugged_in;
  return out;
}

MemoryFacts look_at_memory(const MachineFiles& files) {
  constexpr const char* kInfo = "/proc/meminfo";
  const auto kib = [&](const char* key) {
    return files.number_after(kInfo, key).value_or(0) * 1024;
  };
  MemoryFacts out = {.installed = kib("MemTotal:"),
                     .total = total_memory(files.root()),
                     .available = available_memory(files.root())};
  out.huge_pages = chosen(files.line("/sys/kernel/mm/transparent_hugepage/enabled"));
  constexpr std::int64_t kMost = std::int64_t{1} << 50;
  const std::int64_t pages = files.number_after(kInfo, "HugePages_Total:").value_or(0);
  const std::int64_t page = kib("Hugepagesize:");
  if (pages > 0 && page > 0 && pages < kMost / page) out.reserved = pages * page;
  out.overcommit = files.number("/proc/sys/vm/overcommit_memory").value_or(0);
  return out;
}

LimitFacts look_at_limits(const MachineFiles& files) {
  LimitFacts out;
  const std::string text = files.text("/proc/self/limits");
  // "Max open files            1024                 524288               files": soft and hard.
  const auto limit = [&](std::string_view name, std::size_t column) -> std::optional<std::int64_t> {
    for (const std::string_view line : split(text, '\n')) {
      if (!line.starts_with(name)) continue;
      const std::vector<std::string_view> words = words_of(line.substr(name.size()));
      if (words.size() > column) out.known = true;
      return words.size() > column ? parse_number<std::int64_t>(words[column]) : std::nullopt;
    }
    return {};
  };
  out.open_files = limit("Max open files", 1);
  out.locked_bytes = limit("Max locked memory", 0);
  out.address_bytes = limit("Max address space", 0);
  out.file_bytes = limit("Max file size", 0);
  return out;
}

std::optional<DiskSpace> disk_space(const std::string& path) {
  struct statvfs info = {};
  if (::statvfs(path.c_str(), &info) != 0 || info.f_blocks == 0) return {};
  const auto block = static_cast<std::int64_t>(info.f_frsize);
  return DiskSpace{.total = static_cast<std::int64_t>(info.f_blocks) * block,
                   .free = static_cast<std::int64_t>(info.f_bavail) * block,
                   .is_read_only = (info.f_flag & ST_RDONLY) != 0};
}

DiskFacts look_at_disk(const MachineFiles& files, const LookOptions& options,
                       const std::string& what, const std::string& path) {
  DiskFacts out = {.what = what, .path = path};
  namespace fs = std::filesystem;
  std::error_code ignored;  // then the path stays as it is, or is empty
  std::string there = fs::absolute(path, ignored).string();
  // Links lead to other disks. Those of another machine would lead to this one's.
  if (const fs::path real = fs::weakly_canonical(there, ignored); files.root().empty() && !ignored)
    there = real.string();
  const std::string mounts = files.text("/proc/self/mounts");
  for (const std::string_view line : split(mounts, '\n')) {
    const std::vector<std::string_view> words = words_of(line);
    if (words.size() < 3) continue;
    const std::string mount = unescaped(words[1]);
    // A later mount at the same path hides the earlier one.
    if (!lies_below(there, mount) || mount.size() < out.mount.size()) continue;
    out.mount = mount;
    out.type = words[2];
  }
  // The nearest folder above it that is there.
  while (there.size() > 1 && !files.exists(there)) there.erase(there.rfind('/'));
  if (there.empty()) there = "/";
  if (const auto space = options.space(files.at(there))) {
    out.total = space->total;
    out.free = space->free;
    out.is_read_only = space->is_read_only;
  }
  if (files.root().empty()) {
    out.is_missing = !is_directory(path);
    out.is_writable = ::access(there.c_str(), W_OK | X_OK) == 0;
  }
  return out;
}

// The version is that of the longest name: 2.28.9 for libnccl.so.2 -> libnccl.so.2.28.9.
LibraryFacts look_for_library(const MachineFiles& files, const std::string& name,
                              const std::string& file) {
  LibraryFacts out = {.name = name};
  std::vector<std::string> folders = {"/usr/local/lib",
                                      "/usr/local/lib64",
                                      "/usr/local/cuda/lib64",
                                      "/usr/local/cuda/targets/x86_64-linux/lib",
                                      "/usr/local/nvidia/lib64",
                                      "/usr/lib/x86_64-linux-gnu",
                                      "/usr/lib64",
                                      "/usr/lib",
                                      "/usr/lib/wsl/lib",
                                      "/usr/lib/x86_64-linux-gnu/openmpi/lib",
                                      "/opt/hpcx/ompi/lib",
                                      "/opt/hpcx/ucx/lib"};
  for (const std::string& config : files.names("/etc/ld.so.conf.d")) {
    const std::string text = files.text("/etc/ld.so.conf.d/" + config);
    for (const std::string_view line : split(text, '\n')) {
      if (line.starts_with('/')) folders.emplace_back(trimmed(line));
    }
  }
  for (const std::string& folder : folders) {
    for (const std::string& entry : files.names(folder)) {
      if (!entry.starts_with(file) || (entry.size() > file.size() && entry[file.size()] != '.'))
        continue;
      const std::string version = entry.size() > file.size() ? entry.substr(file.size() + 1) : "";
      if (!out.path.empty() && version.size() <= out.version.size()) continue;
      out.path = folder + "/" + entry;
      out.version = version;
    }
    if (!out.path.empty()) return out;
  }
  return out;
}

MachineFacts look_at_machine(const LookOptions& options) {
  const MachineFiles files(options.root);
  MachineFacts out = {.system = system_of(files),
                      .kernel = files.line("/proc/sys/kernel/osrelease"),
                      .container = container_of(files),
                      .boot_options = files.line("/proc/cmdline"),
                      .has_iommu = !files.names("/sys/class/iommu").empty(),
                      .cpu = look_at_cpu(files),
                      .memory = look_at_memory(files),
                      .limits = look_at_limits(files),
                      .gpu = look_at_gpus(files, options.program_seconds),
                      .infiniband = files.names("/sys/class/infiniband"),
                      .has_peermem = files.exists("/sys/module/nvidia_peermem") ||
                                     files.exists("/sys/module/nv_peer_mem"),
                      .variables = options.variables};
  for (const auto& [what, path] : options.folders) {
    out.disks.push_back(look_at_disk(files, options, what, path));
  }
  constexpr const char* kShared = "/dev/shm";  // not the folder above it, if it is missing
  out.disks.push_back(files.exists(kShared) ? look_at_disk(files, options, "shared memory", kShared)
                                            : DiskFacts{.what = "shared memory", .path = kShared});
  for (const auto& [name, file] : {std::pair("NCCL", "libnccl.so"), std::pair("MPI", "libmpi.so"),
                                   std::pair("UCX", "libucp.so")}) {
    out.libraries.push_back(look_for_library(files, name, file));
  }
  return out;
}

}  // namespace glint
