// GPUs: what the PCI bus, the driver and nvidia-smi say of them. The bus knows them without a
// driver, and the driver while nvidia-smi is missing, as in containers.
#include <algorithm>
#include <cstdint>

#include "base/parse_number.h"
#include "base/str.h"
#include "doctor/look.h"
#include "doctor/run_program.h"

namespace glint {
namespace {

constexpr std::string_view kNvidia = "0x10de";
constexpr std::size_t kMaxGpus = 1024;

bool is_bus_address(std::string_view text) {  // "0000:1b:00.0"
  return text.size() >= 12 && text.find(':') != text.npos && text.rfind('.') == text.size() - 2;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Whether the PCI Express bridge with this configuration space sends requests of one device below
// it to another by way of the root complex (ACS). Nothing: the space was cut short, as for users
// that are not root.
std::optional<bool> redirects_peers(std::string_view config) {
  constexpr std::size_t kExtended = 0x100, kWhole = 0x1000;
  if (config.size() < kWhole) return {};
  const auto byte = [&](std::size_t at) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(config[at]));
  };
  std::size_t at = kExtended;
  for (int i = 0; i < 1024 && at >= kExtended && at + 8 <= kWhole; ++i) {
    const std::uint32_t head =
        byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
    constexpr std::uint32_t kAcs = 0x000d, kRequestRedirect = 1u << 2;
    if ((head & 0xffff) == kAcs) return (byte(at + 6) & kRequestRedirect) != 0;
    at = head >> 20 & ~std::uint32_t{3};
  }
  return false;
}

int lanes(const MachineFiles& files, const std::string& path) {
  const std::int64_t n = files.number(path).value_or(0);
  return n > 0 && n <= 32 ? static_cast<int>(n) : 0;  // 63 and 255 stand for unknown
}

GpuFacts look_at_device(const MachineFiles& files, const std::string& bus) {
  const std::string dir = "/sys/bus/pci/devices/" + bus + "/";
  const std::string id = files.line(dir + "device");
  GpuFacts out = {.bus = bus, .id = "10de:" + (id.starts_with("0x") ? id.substr(2) : id)};
  out.driver = last_part(files.link(dir + "driver"));
  if (const std::string group = last_part(files.link(dir + "iommu_group")); !group.empty()) {
    out.iommu = files.line("/sys/kernel/iommu_groups/" + group + "/type");
    if (out.iommu.empty()) out.iommu = "unknown";  // before Linux 5.11
  }
  out.link_width = lanes(files, dir + "current_link_width");
  out.max_link_width = lanes(files, dir + "max_link_width");
  out.numa_node = static_cast<int>(files.number(dir + "numa_node").value_or(-1));
  const std::string info = files.text("/proc/driver/nvidia/gpus/" + bus + "/information");
  for (const std::string_view line : split(info, '\n')) {
    if (line.starts_with("Model:")) out.name = trimmed(line.substr(6));
  }
  return out;
}

// The bridges above each GPU, whose path in /sys names them.
void look_at_bridges(const MachineFiles& files, GpuSystemFacts& out) {
  std::vector<std::string> bridges;
  for (const GpuFacts& gpu : out.gpus) {
    const std::string path = files.link("/sys/bus/pci/devices/" + gpu.bus);
    for (const std::string_view part : split(path, '/')) {
      if (is_bus_address(part) && part != gpu.bus) bridges.emplace_back(part);
    }
  }
  std::sort(bridges.begin(), bridges.end());
  bridges.erase(std::unique(bridges.begin(), bridges.end()), bridges.end());
  for (const std::string& bridge : bridges) {
    const auto redirects =
        redirects_peers(files.text("/sys/bus/pci/devices/" + bridge + "/config"));
    ++(redirects ? out.bridges_read : out.bridges_hidden);
    if (redirects.value_or(false)) out.redirecting_bridges.push_back(bridge);
  }
}

void look_at_bus(const MachineFiles& files, GpuSystemFacts& out) {
  for (const std::string& bus : files.names("/sys/bus/pci/devices")) {
    const std::string dir = "/sys/bus/pci/devices/" + bus + "/";
    if (files.line(dir + "vendor") != kNvidia) continue;
    const std::string kind = files.line(dir + "class");  // "0x030200": 3D controller
    if (kind.starts_with("0x0680")) ++out.switches;
    const bool is_gpu = kind.starts_with("0x0300") || kind.starts_with("0x0302");
    if (is_gpu && out.gpus.size() < kMaxGpus) out.gpus.push_back(look_at_device(files, bus));
  }
}

// The first word that begins with three digits or more and a point: 580.95.05 in "NVRM version:
// NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build ...".
std::string version_in(std::string_view text) {
  for (const std::string_view word : words_of(text.substr(0, text.find('\n')))) {
    const std::size_t point = word.find('.');
    if (point == word.npos || point < 3 || !parse_number<std::int64_t>(word.substr(0, point)))
      continue;
    return std::string(word);
  }
  return "";
}

// "00000000:1B:00.0", as nvidia-smi writes it, or "0000:1b:00.0".
std::string bus_of(std::string_view text) {
  std::string out = lower(text);
  const std::size_t colon = out.find(':');
  if (colon != out.npos && colon > 4) out.erase(0, colon - 4);
  return out;
}

void read_gpu_line(std::string_view line, GpuSystemFacts& out) {
  std::vector<std::string_view> fields = split(line, ',');
  if (fields.size() != 7) return;
  for (std::string_view& field : fields) field = trimmed(field);
  const std::string bus = bus_of(fields[1]);
  auto gpu = std::find_if(out.gpus.begin(), out.gpus.end(),
                          [&](const GpuFacts& known) { return known.bus == bus; });
  if (gpu == out.gpus.end()) {  // as under WSL, where the bus shows none
    if (out.gpus.size() >= kMaxGpus) return;
    out.gpus.emplace_back();
    gpu = out.gpus.end() - 1;
  }
  gpu->answers = true;
  gpu->name = fields[0];
  gpu->memory_mib = parse_number<std::int64_t>(fields[2]).value_or(0);
  gpu->used_mib = parse_number<std::int64_t>(fields[3]).value_or(0);
  gpu->compute = fields[4];
  gpu->persistence = fields[5] != "Disabled";
  gpu->mig = fields[6] == "Enabled";
}

// Without what colours a terminal: \x1b[4m.
std::string plain(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find_first_of("mK", i), text.size());
    } else {
      out += text[i];
    }
  }
  return out;
}

// The rows of a matrix of nvidia-smi: "GPU0  X  OK  OK".
std::vector<std::vector<std::string_view>> gpu_rows(std::string_view text) {
  std::vector<std::vector<std::string_view>> out;
  for (const std::string_view line : split(text, '\n')) {
    std::vector<std::string_view> words = words_of(line);
    if (words.size() < 2 || !words[0].starts_with("GPU") || words[1].starts_with("GPU")) continue;
    if (!parse_number<std::int64_t>(words[0].substr(3))) continue;
    out.push_back(std::move(words));
  }
  return out;
}

void read_peers(std::string_view text, GpuSystemFacts& out) {
  const auto rows = gpu_rows(text);
  for (std::size_t i = 0; i < rows.size() && i < kMaxGpus; ++i) {
    for (std::size_t j = i + 1; j < rows.size() && j + 1 < rows[i].size(); ++j) {
      out.has_peers = true;
      if (rows[i][j + 1] == "OK") continue;
      out.peers_refused.push_back(str("GPU", i, "-GPU", j, ": ", rows[i][j + 1]));
    }
  }
}

bool shows_nvlink(std::string_view text) {
  for (const std::vector<std::string_view>& row : gpu_rows(text)) {
    for (std::size_t i = 1; i < row.size(); ++i) {
      if (row[i].starts_with("NV") && parse_number<std::int64_t>(row[i].substr(2))) return true;
    }
  }
  return false;
}

void ask_nvidia_smi(const MachineFiles& files, double seconds, GpuSystemFacts& out) {
  for (const char* const folder :
       {"/usr/bin", "/usr/local/bin", "/usr/local/nvidia/bin", "/usr/lib/wsl/lib", "/opt/bin"}) {
    const std::string path = str(folder, "/nvidia-smi");
    if (out.smi.empty() && files.exists(path)) out.smi = path;
  }
  if (out.smi.empty()) return;
  const std::string smi = files.at(out.smi);
  const Result<std::string> list = run_program(
      {smi,
       "--query-gpu=name,pci.bus_id,memory.total,memory.used,compute_cap,persistence_mode,"
       "mig.mode.current",
       "--format=csv,noheader,nounits"},
      seconds);
  if (!list.ok()) {
    out.smi_error = list.error().message;
    return;
  }
  for (const std::string_view line : split(list.value(), '\n')) read_gpu_line(line, out);
  if (out.gpus.size() < 2) return;
  if (const auto peers = run_program({smi, "topo", "-p2p", "r"}, seconds); peers.ok())
    read_peers(plain(peers.value()), out);
  if (const auto links = run_program({smi, "topo", "-m"}, seconds); links.ok())
    out.has_nvlink = shows_nvlink(plain(links.value()));
}

}  // namespace

GpuSystemFacts look_at_gpus(const MachineFiles& files, double program_seconds) {
  GpuSystemFacts out;
  look_at_bus(files, out);
  look_at_bridges(files, out);
  out.driver_version = version_in(files.text("/proc/driver/nvidia/version"));
  out.has_devices = files.exists("/dev/nvidiactl");
  out.has_libcuda = !look_for_library(files, "CUDA driver", "libcuda.so").path.empty();
  out.has_fabric_manager = files.exists("/usr/bin/nv-fabricmanager");
  ask_nvidia_smi(files, program_seconds, out);
  return out;
}

}  // namespace glint
