// Files of other machines, for tests.
#pragma once

#include <string>

#include "base/fake_root.h"
#include "base/str.h"

namespace glint {

class FakeMachine : public FakeRoot {
 public:
  // A machine of so many CPUs, 64 GiB of which 48 are free, and the limits of most distributions.
  void write_host(int cpus, const std::string& flags) const {
    std::string info;
    for (int i = 0; i < cpus; ++i) {
      info += str("processor\t: ", i,
                  "\nmodel name\t: AMD EPYC 9654 96-Core Processor\nflags\t\t: ", flags, "\n\n");
    }
    write("/proc/cpuinfo", info);
    write("/proc/self/status", str("Name:\tglint\nCpus_allowed_list:\t0-", cpus - 1, "\n"));
    write("/proc/meminfo",
          "MemTotal:       67108864 kB\nMemFree:        1048576 kB\n"
          "MemAvailable:   50331648 kB\nHugePages_Total:       0\nHugepagesize:       2048 kB\n");
    write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write("/proc/sys/vm/overcommit_memory", "0\n");
    write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n");
    write("/etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
    write("/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet\n");
    write_limits("524288", "unlimited");
    write("/proc/self/mounts",
          "/dev/sda1 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"
          "/dev/nvme0n1 /models\\040here xfs rw 0 0\n");
  }

  void write_limits(const std::string& files, const std::string& locked) const {
    write("/proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max file size             unlimited            unlimited            bytes     \n" +
              formatted("%-25s %-20s %-20s %-10s\n", "Max open files", "1024", files.c_str(),
                        "files") +
              formatted("%-25s %-20s %-20s %-10s\n", "Max locked memory", locked.c_str(),
                        locked.c_str(), "bytes") +
              "Max address space         unlimited            unlimited            bytes     \n");
  }

  // Device `i` of NVIDIA's behind a bridge of its own, in IOMMU group 10 + i; `redirect`: the
  // bridge has ACS on.
  void write_gpu(int i, const std::string& group_type, bool redirect = false) const {
    const std::string bridge = formatted("0000:%02x:01.0", 0x10 + 8 * i);
    const std::string bus = formatted("0000:%02x:00.0", 0x11 + 8 * i);
    const std::string above = formatted("/sys/devices/pci0000:%02x/", 0x10 + 8 * i) + bridge;
    const std::string dir = above + "/" + bus;
    write(above + "/config", config_space(redirect));
    write(above + "/vendor", "0x1022\n");
    write(above + "/class", "0x060400\n");
    write(dir + "/vendor", "0x10de\n");
    write(dir + "/device", "0x2335\n");
    write(dir + "/class", "0x030200\n");
    write(dir + "/current_link_width", "16\n");
    write(dir + "/max_link_width", "16\n");
    write(dir + "/numa_node", "0\n");
    link(dir + "/driver", "../../../../bus/pci/drivers/nvidia");
    link("/sys/bus/pci/devices/" + bus, "../../.." + dir.substr(4));
    link("/sys/bus/pci/devices/" + bridge, "../../.." + above.substr(4));
    if (group_type.empty()) return;
    link(dir + "/iommu_group", str("../../../../kernel/iommu_groups/", 10 + i));
    write(str("/sys/kernel/iommu_groups/", 10 + i, "/type"), group_type + "\n");
    write("/sys/class/iommu/ivhd0/name", "ivhd0\n");
  }

  void write_driver(const std::string& version) const {
    write("/proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " + version +
              "  Release Build  (root@host)\nGCC version:  gcc version 12.2.0\n");
    write("/dev/nvidiactl", "");
  }

  // An nvidia-smi that knows `gpus` devices, of which peers are `peer` ("OK") and `link` ("NV18").
  void write_smi(int gpus, const std::string& name, const std::string& compute,
                 const std::string& peer, const std::string& link) const {
    std::string list, head;
    for (int i = 0; i < gpus; ++i) {
      list += formatted("%s, 00000000:%02X:00.0, 143771, 4, %s, Enabled, Disabled\n", name.c_str(),
                        0x11 + 8 * i, compute.c_str());
      head += str("\tGPU", i);
    }
    const auto matrix = [&](const std::string& cell) {
      std::string out = " " + head + "\n";
      for (int i = 0; i < gpus; ++i) {
        out += str(" GPU", i);
        for (int j = 0; j < gpus; ++j) out += "\t" + (i == j ? std::string("X") : cell);
        out += "\n";
      }
      return out + "\nLegend:\n  X    = Self\n  OK   = Status Ok\n";
    };
    write("/smi/list", list);
    write("/smi/peers", matrix(peer));
    write("/smi/links", "\x1b[4m" + matrix(link) + "\x1b[0m");
    program("/usr/bin/nvidia-smi",
            str("case \"$*\" in\n--query-gpu*) cat '", root, "/smi/list';;\n\"topo -p2p r\") cat '",
                root, "/smi/peers';;\n\"topo -m\") cat '", root, "/smi/links';;\nesac\n"));
  }

 private:
  // Two extended capabilities: error reporting, then ACS with its control register.
  static std::string config_space(bool redirect) {
    std::string out(4096, '\0');
    const auto put = [&](std::size_t at, unsigned value) {
      for (int i = 0; i < 4; ++i) out[at + i] = static_cast<char>(value >> (8 * i));
    };
    put(0x100, 0x0001u | 2u << 16 | 0x148u << 20);
    put(0x148, 0x000du | 1u << 16);
    put(0x14c, redirect ? 0x001d0000u : 0x00010000u);  // capabilities, control
    return out;
  }
};

}  // namespace glint
