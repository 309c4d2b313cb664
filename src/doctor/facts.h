// Facts of a machine that concern glint: read by look.h, judged by findings.h, written by
// facts_json.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glint {

struct CpuFacts {
  std::string model = {};  // "AMD EPYC 9654 96-Core Processor"
  int online = 0;          // logical CPUs
  int usable = 0;          // by the affinity mask and the quota of the control group
  bool has_quota = false;
  int numa_nodes = 1;
  std::string isa = {};  // the kernels that run here: "avx2" to "amx"; empty without AVX2
  bool is_virtual = false;
  std::string governor = {};  // "performance", "powersave"; empty if the kernel does not say
  std::string frequency_driver = {};  // "intel_pstate"
  bool on_battery = false;
};

struct MemoryFacts {
  std::int64_t installed = 0;   // bytes of the machine
  std::int64_t total = 0;       // or what the control group may use
  std::int64_t available = 0;   // now
  std::string huge_pages = {};  // "always", "madvise", "never"; empty: the kernel has none
  std::int64_t reserved = 0;    // bytes in huge pages that only programs get that ask for them
  std::int64_t overcommit = 0;  // vm.overcommit_memory
};

// Limits of this process; nothing means unlimited.
struct LimitFacts {
  bool known = false;
  std::optional<std::int64_t> open_files = {};  // the hard limit, to which a server raises its own
  std::optional<std::int64_t> locked_bytes = {};  // soft, as the next two
  std::optional<std::int64_t> address_bytes = {};
  std::optional<std::int64_t> file_bytes = {};
};

struct DiskFacts {
  std::string what = {};  // "models", "temporary files", "shared memory"
  std::string path = {}, mount = {}, type = {};
  std::int64_t total = 0, free = 0;  // bytes; 0 and 0: not known
  bool is_read_only = false;
  // Known of this machine only. What may be written into is the nearest folder that is there.
  bool is_missing = false, is_writable = true;
};

struct GpuFacts {
  std::string bus = {};     // "0000:1b:00.0"; empty if only nvidia-smi knows it
  std::string id = {};      // "10de:2335"
  std::string name = {};    // "NVIDIA H200"; empty without the driver
  std::string driver = {};  // of the kernel: "nvidia", "vfio-pci"; empty if none has it
  std::string iommu = {};   // type of its IOMMU group: "identity", "DMA", "DMA-FQ"; empty: no group
  int link_width = 0, max_link_width = 0;  // PCIe lanes; 0: not known
  int numa_node = -1;
  bool answers = false;  // nvidia-smi knows it, and the fields below
  std::int64_t memory_mib = 0, used_mib = 0;
  std::string compute = {};  // "9.0"
  bool persistence = true, mig = false;
};

struct GpuSystemFacts {
  std::vector<GpuFacts> gpus = {};
  std::string driver_version = {};  // "580.95.05"; empty without the kernel's part
  std::string smi = {};             // path of nvidia-smi; empty if there is none
  std::string smi_error = {};       // why it gave no answer
  bool has_devices = false;         // /dev/nvidiactl
  bool has_libcuda = false;
  int switches = 0;  // NVSwitch
  bool has_nvlink = false;
  bool has_fabric_manager = false;
  // Between GPUs whose peer access nvidia-smi does not call OK: "GPU0-GPU3: CNS". Known only if
  // has_peers.
  bool has_peers = false;
  std::vector<std::string> peers_refused = {};
  // Bridges above GPUs that redirect what peers send to each other to the root complex (ACS), of
  // those whose registers could be read.
  int bridges_read = 0, bridges_hidden = 0;
  std::vector<std::string> redirecting_bridges = {};
};

struct LibraryFacts {
  std::string name = {};     // "NCCL"
  std::string path = {};     // empty: not found
  std::string version = {};  // of the file's name: "2.28.9"
};

struct MachineFacts {
  std::string system = {};        // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel = {};        // "6.1.0-18-amd64"
  std::string container = {};     // "docker", "podman", "kubernetes", "container"; empty: none
  std::string boot_options = {};  // of the kernel
  bool has_iommu = false;         // one is at work
  CpuFacts cpu = {};
  MemoryFacts memory = {};
  LimitFacts limits = {};
  std::vector<DiskFacts> disks = {};
  GpuSystemFacts gpu = {};
  std::vector<std::string> infiniband = {};  // adapters
  bool has_peermem = false;                  // nvidia_peermem or nv_peer_mem is loaded
  std::vector<LibraryFacts> libraries = {};
  std::vector<std::string> variables = {};  // "NCCL_P2P_DISABLE=1", those that look.h was given
  // The bundled model is where glint was called: models/glm5-tiny. Packages are without it.
  bool has_bundled_model = false;

  bool in_container() const { return !container.empty(); }
};

// Rates that were measured; 0: not.
struct Rates {
  std::string backend = {};  // "avx512_bf16"
  int threads = 0;           // that glint would use here; 0: as many as the machine has
  double read_gb_s = 0, f32_gflops = 0, matrix_gflops = 0;
};

}  // namespace glint
