// Findings about GPUs: the driver, each of them, and the ways between them.
#include <algorithm>
#include <bit>

#include "base/contains.h"
#include "base/parse_number.h"
#include "base/str.h"
#include "doctor/findings.h"
#include "doctor/machine_files.h"

namespace glint {
namespace {

constexpr std::int64_t kLeastDriver = 580;  // of CUDA 13
constexpr int kLeastCapability = 80;        // that backends/cuda compiles for

std::size_t answering(const GpuSystemFacts& gpu) {
  return static_cast<std::size_t>(
      std::count_if(gpu.gpus.begin(), gpu.gpus.end(), [](const GpuFacts& g) { return g.answers; }));
}

std::int64_t major_of(const std::string& version) {
  return parse_number<std::int64_t>(std::string_view(version).substr(0, version.find('.')))
      .value_or(0);
}

// "8 x NVIDIA H200 (140.4 GiB)", by kind, in order.
std::string describe(const std::vector<GpuFacts>& gpus) {
  std::vector<std::pair<std::string, int>> kinds;
  for (const GpuFacts& gpu : gpus) {
    std::string name = gpu.name.empty() ? gpu.id : gpu.name;
    if (gpu.memory_mib > 0)
      name += str(" (", human_bytes(static_cast<double>(gpu.memory_mib) * 1048576), ")");
    const auto known = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const auto& kind) { return kind.first == name; });
    if (known == kinds.end()) {
      kinds.emplace_back(name, 1);
    } else {
      ++known->second;
    }
  }
  std::string out;
  for (const auto& [name, count] : kinds) {
    out += str(out.empty() ? "" : ", ", count > 1 ? str(count, " x ") : "", name);
  }
  return out;
}

Finding judge_driver(const MachineFacts& m) {
  const GpuSystemFacts& gpu = m.gpu;
  Finding out = {"GPUs", "driver", Mark::kOk, ""};
  const bool taken = std::all_of(gpu.gpus.begin(), gpu.gpus.end(),
                                 [](const GpuFacts& g) { return g.driver == "vfio-pci"; });
  if (gpu.driver_version.empty() && answering(gpu) == 0) {
    if (taken) {
      out.mark = Mark::kNote;
      out.text = "vfio-pci holds all GPUs: they are a virtual machine's";
      return out;
    }
    out.mark = Mark::kFix;
    out.text = "the GPUs have no NVIDIA driver";
    out.commands = {
        m.in_container()
            ? "sudo apt install nvidia-open && sudo reboot  # on the host, of NVIDIA's repository"
            : "sudo apt install nvidia-open && sudo reboot  # of NVIDIA's repository"};
    return out;
  }
  out.text = gpu.driver_version.empty() ? "NVIDIA" : "NVIDIA " + gpu.driver_version;
  if (!gpu.has_devices && answering(gpu) == 0) {
    out.mark = Mark::kFix;
    out.text += "; its devices (/dev/nvidiactl) are not here";
    out.commands = {m.in_container() ? "docker run --gpus all ..."
                                     : "sudo nvidia-modprobe -u -c 0"};
  } else if (!gpu.smi_error.empty()) {
    out.mark = Mark::kFix;
    out.text += "; " + gpu.smi_error;
    out.commands = {"sudo dmesg | grep -i -E 'NVRM|Xid'  # then, if a GPU is lost: sudo reboot"};
  } else if (!gpu.driver_version.empty() && major_of(gpu.driver_version) < kLeastDriver) {
    out.mark = Mark::kFix;
    out.text +=
        str("; the CUDA backend is built with CUDA 13, which needs ", kLeastDriver, " or newer");
    out.commands = {"sudo apt install nvidia-open && sudo reboot  # of NVIDIA's repository"};
  } else if (gpu.smi.empty()) {
    out.mark = Mark::kNote;
    out.text += "; without nvidia-smi neither memory nor peer access can be told";
    out.commands = {m.in_container()
                        ? "docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ..."
                        : "sudo apt install nvidia-smi"};
  }
  return out;
}

}  // namespace

int capability_of(const GpuFacts& gpu) {
  std::string digits = gpu.compute;
  std::erase(digits, '.');
  return static_cast<int>(parse_number<std::int64_t>(digits).value_or(0));
}

namespace {

// The GPUs that the CUDA backend can use, of those that CUDA lists: vfio-pci has the others.
Finding judge_kernels(const MachineFacts& m, const BuildFacts& build) {
  Finding out = {"GPUs", "CUDA backend", Mark::kNote, ""};
  std::vector<int> capabilities;
  std::string fitting;
  std::size_t fit = 0;
  for (const GpuFacts& gpu : m.gpu.gpus) {
    if (!gpu.answers) continue;
    if (build.has_kernels(capability_of(gpu))) {
      fitting += str(fit++ ? "," : "", capabilities.size());
    }
    capabilities.push_back(capability_of(gpu));
  }
  if (fit == 0) {
    const int capability = *std::max_element(capabilities.begin(), capabilities.end());
    if (capability < kLeastCapability) {
      out.text = str("has kernels from sm_", kLeastCapability, " on",
                     capability ? str(", and these are sm_", capability) : std::string(),
                     ": glint computes on the CPU");
      return out;
    }
    out.text = build.has_cuda ? str("this build has no kernels for sm_", capability)
                              : std::string("not in this build");
    const std::string target = capability == 90 ? "90a" : str(capability);
    out.commands = {str("cmake --preset cuda -DGLINT_CUDA_TARGETS=", target,
                        " && cmake --build --preset cuda")};
    return out;
  }
  out.text = fit > 1 ? "one GPU is used, the first that CUDA lists; --tp N uses N"
                     : "used, unless --backend cpu says otherwise";
  if (fit < capabilities.size()) {
    out.text = "some GPUs are of a kind that it has no kernels for; show it those that it has";
    out.commands = {"export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=" + fitting};
  } else if (fit == 1) {
    out.mark = Mark::kOk;
  }
  if (fit > 1) out.commands.push_back(str("glint serve MODEL --tp ", std::bit_floor(fit)));
  return out;
}

std::string indexes(const std::vector<GpuFacts>& gpus, bool (*which)(const GpuFacts&)) {
  std::string out;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (which(gpus[i])) out += str(out.empty() ? "" : ", ", i);
  }
  return out;
}

void judge_states(const MachineFacts& m, std::vector<Finding>& out) {
  const std::vector<GpuFacts>& gpus = m.gpu.gpus;
  const std::string busy = indexes(
      gpus, [](const GpuFacts& g) { return g.memory_mib > 0 && g.used_mib > g.memory_mib / 20; });
  if (!busy.empty())
    out.push_back({"GPUs",
                   "memory",
                   Mark::kNote,
                   "others use memory of GPU " + busy,
                   {"nvidia-smi --query-compute-apps=pid,used_memory --format=csv"}});
  if (!indexes(gpus, [](const GpuFacts& g) { return g.answers && !g.persistence; }).empty())
    out.push_back({"GPUs",
                   "persistence",
                   Mark::kNote,
                   "off: whenever nobody uses a GPU it is shut down, and the next program waits",
                   {"sudo nvidia-smi -pm 1"}});
  if (const std::string mig = indexes(gpus, [](const GpuFacts& g) { return g.mig; }); !mig.empty())
    out.push_back({"GPUs",
                   "MIG",
                   Mark::kNote,
                   str("GPU ", mig, " is cut into instances, which cannot reach their peers"),
                   {"sudo nvidia-smi -mig 0"}});
  const std::string narrow = indexes(
      gpus, [](const GpuFacts& g) { return g.link_width > 0 && g.link_width < g.max_link_width; });
  if (!narrow.empty()) {
    const auto gpu = std::find_if(gpus.begin(), gpus.end(), [](const GpuFacts& g) {
      return g.link_width > 0 && g.link_width < g.max_link_width;
    });
    out.push_back({"GPUs",
                   "PCI Express",
                   Mark::kNote,
                   str("GPU ", narrow, " has ", gpu->link_width, " lanes of ", gpu->max_link_width,
                       ": a slot with fewer, a riser, or a card that sits badly"),
                   {str("sudo lspci -vv -s ", gpu->bus, " | grep -E 'LnkCap|LnkSta'")}});
  }
}

std::string grub(const std::string& option, bool container) {
  return str("sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&", option,
             " /' /etc/default/grub && sudo update-grub && sudo reboot",
             container ? "  # on the host" : "");
}

// Whether what GPUs send to each other goes through the IOMMU.
Finding judge_iommu(const MachineFacts& m) {
  Finding out = {"GPUs", "IOMMU", Mark::kOk, ""};
  const auto is = [&](bool (*which)(const GpuFacts&)) {
    return std::any_of(m.gpu.gpus.begin(), m.gpu.gpus.end(), which);
  };
  const bool passes = (" " + m.boot_options + " ").find(" iommu=pt ") != std::string::npos;
  const bool translates = is([](const GpuFacts& g) { return g.iommu.starts_with("DMA"); }) ||
                          (!passes && is([](const GpuFacts& g) { return g.iommu == "unknown"; }));
  if (!translates) {
    const bool off = !is([](const GpuFacts& g) { return !g.iommu.empty(); });
    out.text = off ? "off, or not to be seen from here" : "passes the GPUs' addresses through";
    return out;
  }
  out.text =
      "translates the GPUs' addresses: what they send to peers takes the way over the root "
      "complex";
  const bool only_links = m.gpu.has_nvlink && m.infiniband.empty();
  if (only_links) {
    out.mark = Mark::kNote;
    out.text += ". They talk over NVLink here, so it would only matter to network cards";
  } else {
    out.mark = Mark::kFix;
    out.text += ", where NCCL is slow or hangs in its first exchange";
  }
  const bool amd = m.cpu.model.find("AMD") != std::string::npos;
  out.commands.push_back(passes ? grub(amd ? "amd_iommu=off" : "intel_iommu=off", m.in_container())
                                : grub("iommu=pt", m.in_container()));
  if (!only_links)
    out.commands.push_back("export NCCL_P2P_DISABLE=1  # until then: by way of memory, slowly");
  return out;
}

Finding judge_acs(const MachineFacts& m) {
  const GpuSystemFacts& gpu = m.gpu;
  Finding out = {"GPUs", "ACS", Mark::kOk, ""};
  if (gpu.redirecting_bridges.empty()) {
    out.text = "no bridge above the GPUs sends peers' traffic another way";
    if (gpu.bridges_hidden > 0) {
      out.mark = Mark::kNote;
      out.text = str("the registers of ", gpu.bridges_hidden,
                     " bridges above the GPUs can be read by root only");
      out.commands = {"sudo glint doctor"};
    }
    return out;
  }
  const bool only_links = gpu.has_nvlink && m.infiniband.empty();
  out.mark = only_links ? Mark::kNote : Mark::kFix;
  out.text =
      str(gpu.redirecting_bridges.size(), " of ", gpu.bridges_read,
          " bridges above the GPUs send what peers exchange to the root complex",
          only_links ? "; over NVLink they do not pass there" : ", where NCCL is slow or hangs");
  std::string all;
  for (const std::string& bridge : gpu.redirecting_bridges) all += " " + bridge;
  out.commands = {str("for b in", all, "; do sudo setpci -s $b ECAP_ACS+0x6.w=0000; done",
                      m.in_container() ? "  # on the host, " : "  # ",
                      "until the next start; for good: ACS off in the BIOS")};
  return out;
}

Finding judge_peers(const GpuSystemFacts& gpu) {
  Finding out = {"GPUs", "peer access", Mark::kOk, ""};
  if (!gpu.has_peers) {
    out.mark = Mark::kNote;
    out.text = "not known: nvidia-smi tells it";
    out.commands = {"nvidia-smi topo -p2p r"};
    return out;
  }
  if (gpu.peers_refused.empty()) {
    out.text =
        str("every GPU reads every other", gpu.has_nvlink ? ", over NVLink" : ", over PCI Express");
    return out;
  }
  out.mark = Mark::kNote;
  const std::span<const std::string> refused = gpu.peers_refused;
  constexpr std::size_t kShown = 3;
  out.text = joined(refused.first(std::min(refused.size(), kShown)), ", ");
  if (refused.size() > kShown) out.text += str(" and ", refused.size() - kShown, " more pairs");
  out.text += ": these go by way of memory and /dev/shm";
  out.commands = {"nvidia-smi topo -p2p r"};
  return out;
}

void judge_fabric(const MachineFacts& m, std::vector<Finding>& out) {
  const GpuSystemFacts& gpu = m.gpu;
  if (gpu.switches == 0 || m.in_container()) return;
  if (gpu.has_fabric_manager) {
    out.push_back({"GPUs", "NVSwitch", Mark::kOk,
                   str(gpu.switches, " switches, and their fabric manager is installed")});
    return;
  }
  const std::int64_t major = major_of(gpu.driver_version);
  const std::string package = str("nvidia-fabricmanager", major ? str("-", major) : "");
  out.push_back({"GPUs",
                 "NVSwitch",
                 Mark::kFix,
                 str(gpu.switches,
                     " switches without their fabric manager: CUDA does not start "
                     "(error 802, system not yet initialized)"),
                 {str("sudo apt install ", package,
                      " && sudo systemctl enable --now nvidia-fabricmanager")}});
}

void judge_variables(const MachineFacts& m, std::vector<Finding>& out) {
  const auto is_set = [&](std::string_view entry) { return contains(m.variables, entry); };
  if (is_set("NCCL_P2P_DISABLE=1"))
    out.push_back({"GPUs",
                   "NCCL_P2P_DISABLE",
                   m.gpu.has_nvlink ? Mark::kFix : Mark::kNote,
                   m.gpu.has_nvlink
                       ? "is 1: what GPUs exchange leaves NVLink idle"
                       : "is 1: what GPUs exchange takes the slow way by memory, which "
                         "is right only while peer access hangs",
                   {"unset NCCL_P2P_DISABLE"}});
  if (is_set("NCCL_IB_DISABLE=1") && !m.infiniband.empty())
    out.push_back({"GPUs",
                   "NCCL_IB_DISABLE",
                   Mark::kNote,
                   "is 1: between machines NCCL uses TCP and not the InfiniBand or RoCE adapters",
                   {"unset NCCL_IB_DISABLE"}});
}

}  // namespace

std::vector<Finding> judge_gpus(const MachineFacts& m, const BuildFacts& build) {
  const GpuSystemFacts& gpu = m.gpu;
  if (gpu.gpus.empty()) {
    const bool driver = !gpu.driver_version.empty();
    return {{"GPUs", "found", Mark::kOk,
             driver ? str("none, though there is a driver (NVIDIA ", gpu.driver_version, ")")
                    : "none of NVIDIA's; glint computes on the CPU"}};
  }
  std::vector<Finding> out = {{"GPUs", "found", Mark::kOk, describe(gpu.gpus)}, judge_driver(m)};
  if (answering(gpu) > 0) out.push_back(judge_kernels(m, build));
  judge_states(m, out);
  judge_fabric(m, out);
  return out;
}

std::vector<Finding> judge_links(const MachineFacts& m) {
  std::vector<Finding> out;
  const std::size_t gpus = m.gpu.gpus.size();
  if (gpus > 1) {
    out.push_back(judge_peers(m.gpu));
    if (m.cpu.is_virtual && !m.has_iommu) {
      out.push_back({"GPUs", "IOMMU", Mark::kOk, "the virtual machine has none; its host decides"});
    } else {
      out.push_back(judge_iommu(m));
    }
    if (m.gpu.bridges_read + m.gpu.bridges_hidden > 0) out.push_back(judge_acs(m));
  }
  if (gpus > 0 && !m.infiniband.empty() && !m.has_peermem)
    out.push_back({"GPUs",
                   "RDMA",
                   Mark::kNote,
                   str(m.infiniband.size(),
                       " adapters, and nvidia_peermem is not loaded: what GPUs "
                       "send to other machines goes by way of memory, unless "
                       "the kernel shares it by dma-buf"),
                   {"sudo modprobe nvidia-peermem"}});
  judge_variables(m, out);
  std::string found, missing;
  for (const LibraryFacts& library : m.libraries) {
    std::string& list = library.path.empty() ? missing : found;
    list += str(list.empty() ? "" : ", ", library.name,
                library.path.empty() ? "" : str(" (", library.path, ")"));
  }
  out.push_back(
      {"GPUs", "libraries", Mark::kOk,
       str(found.empty() ? "" : "found " + found, found.empty() || missing.empty() ? "" : "; ",
           missing.empty() ? "" : "not found " + missing,
           "; ranks on several GPUs use NCCL, best of 2.28 or newer; nothing uses the others")});
  return out;
}

}  // namespace glint
