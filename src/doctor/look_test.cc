#include "doctor/look.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "doctor/testing.h"

namespace glint {
namespace {

constexpr const char* kZen4 =
    "fpu sse2 avx2 fma avx512f avx512dq avx512bw avx512vl avx512vbmi avx512_bf16 hypervisor";

MachineFacts look(const FakeMachine& machine) {
  return look_at_machine(
      {.root = machine.root, .space = [](const std::string&) { return std::nullopt; }});
}

TEST(MachineFiles, reads_lines_numbers_and_lists_and_nothing_of_what_is_not_there) {
  const FakeMachine machine;
  machine.write("/a", "  12 \nsecond\n");
  machine.write("/b", "12 apples");
  machine.write("/info", "First: 1 kB\nSecond:  22 kB\n");
  const MachineFiles files(machine.root);
  EXPECT_EQ(files.line("/a"), "12");
  EXPECT_EQ(files.number("/a"), 12);
  EXPECT_EQ(files.number("/b"), std::nullopt);
  EXPECT_EQ(files.number("/none"), std::nullopt);
  EXPECT_EQ(files.text("/"), "");  // a folder
  EXPECT_EQ(files.number_after("/info", "Second:"), 22);
  EXPECT_EQ(files.number_after("/info", "Third:"), std::nullopt);
  EXPECT_EQ(files.names("/"), (std::vector<std::string>{"a", "b", "info"}));
  EXPECT_TRUE(files.names("/none").empty());
}

TEST(MachineFiles, a_pipe_is_not_waited_for) {
  const FakeMachine machine;
  ASSERT_EQ(::mkfifo((machine.root + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(MachineFiles(machine.root).text("/pipe"), "");
}

TEST(Look, this_machine_is_what_the_program_goes_by) {
  const MachineFiles here;
  const CpuFacts cpu = look_at_cpu(here);
  EXPECT_EQ(cpu.usable, available_cpus());
  EXPECT_EQ(look_at_memory(here).total, total_memory());
  EXPECT_TRUE(look_at_limits(here).known);
  EXPECT_GT(disk_space("/")->total, 0);
}

TEST(Look, nothing_at_all_is_a_machine_too) {
  const FakeMachine machine;
  const MachineFacts facts = look(machine);
  EXPECT_EQ(facts.cpu.online, 0);
  EXPECT_EQ(facts.cpu.isa, "");
  EXPECT_EQ(facts.memory.total, 0);
  EXPECT_FALSE(facts.limits.known);
  EXPECT_TRUE(facts.gpu.gpus.empty());
  EXPECT_EQ(facts.container, "");
}

TEST(Look, instruction_sets_are_those_of_the_cpu_backend) {
  const auto isa = [](const std::string& flags) {
    const FakeMachine machine;
    machine.write_host(1, flags);
    return look_at_cpu(MachineFiles(machine.root)).isa;
  };
  const std::string avx512 = "avx2 fma avx512f avx512dq avx512bw avx512vl";
  EXPECT_EQ(isa("sse2 avx"), "");
  EXPECT_EQ(isa("avx2"), "");  // without FMA
  EXPECT_EQ(isa("avx2 fma avx512f"), "avx2");
  EXPECT_EQ(isa(avx512), "avx512");
  EXPECT_EQ(isa(avx512 + " avx512vbmi avx512_bf16"), "avx512_bf16");
  EXPECT_EQ(isa(avx512 + " avx512vbmi avx512_bf16 amx_tile amx_bf16"), "amx");
}

TEST(Look, a_host_by_its_files) {
  const FakeMachine machine;
  machine.write_host(16, kZen4);
  machine.write("/sys/devices/system/node/node0/cpulist", "0-7\n");
  machine.write("/sys/devices/system/node/node1/cpulist", "8-15\n");
  machine.write("/sys/devices/system/node/possible", "0-1\n");
  const MachineFacts facts = look(machine);
  EXPECT_EQ(facts.system, "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(facts.kernel, "6.1.0-18-amd64");
  EXPECT_EQ(facts.cpu.model, "AMD EPYC 9654 96-Core Processor");
  EXPECT_EQ(facts.cpu.online, 16);
  EXPECT_EQ(facts.cpu.usable, 16);
  EXPECT_EQ(facts.cpu.numa_nodes, 2);
  EXPECT_TRUE(facts.cpu.is_virtual);
  EXPECT_EQ(facts.memory.installed, std::int64_t{64} << 30);
  EXPECT_EQ(facts.memory.available, std::int64_t{48} << 30);
  EXPECT_EQ(facts.memory.huge_pages, "madvise");
  EXPECT_EQ(facts.limits.open_files, 524288);  // the hard one
  EXPECT_EQ(facts.limits.locked_bytes, std::nullopt);
}

TEST(Look, a_container_by_its_groups_and_quotas) {
  const FakeMachine machine;
  machine.write_host(64, kZen4);
  machine.write("/.dockerenv", "");
  machine.write("/sys/fs/cgroup/cpu.max", "250000 100000\n");
  machine.write("/sys/fs/cgroup/memory.max", "4294967296\n");
  machine.write("/sys/fs/cgroup/memory.stat", "anon 1073741824\n");
  const MachineFacts facts = look(machine);
  EXPECT_EQ(facts.container, "docker");
  EXPECT_EQ(facts.cpu.usable, 3);
  EXPECT_TRUE(facts.cpu.has_quota);
  EXPECT_EQ(facts.memory.total, std::int64_t{4} << 30);
  EXPECT_EQ(facts.memory.available, std::int64_t{3} << 30);
}

TEST(Look, a_laptop_is_on_its_battery_until_it_is_plugged_in) {
  const FakeMachine machine;
  machine.write_host(8, kZen4);
  machine.write("/sys/class/power_supply/BAT0/type", "Battery\n");
  machine.write("/sys/class/power_supply/hid-mouse/type", "Battery\n");
  machine.write("/sys/class/power_supply/hid-mouse/scope", "Device\n");
  machine.write("/sys/class/power_supply/AC/type", "Mains\n");
  machine.write("/sys/class/power_supply/AC/online", "0\n");
  EXPECT_TRUE(look(machine).cpu.on_battery);
  machine.write("/sys/class/power_supply/AC/online", "1\n");
  EXPECT_FALSE(look(machine).cpu.on_battery);
}

TEST(Look, a_disk_is_that_of_the_longest_mount) {
  const FakeMachine machine;
  machine.write_host(1, kZen4);
  machine.write("/models here/hub", "");
  std::string asked;
  const LookOptions options = {.root = machine.root, .space = [&](const std::string& path) {
                                 asked = path;
                                 return DiskSpace{.total = 100, .free = 7};
                               }};
  const DiskFacts disk =
      look_at_disk(MachineFiles(machine.root), options, "models", "/models here/not/yet");
  EXPECT_EQ(disk.mount, "/models here");
  EXPECT_EQ(disk.type, "xfs");
  EXPECT_EQ(disk.free, 7);
  EXPECT_EQ(asked, machine.root + "/models here");
}

TEST(Look, a_disk_is_that_which_a_relative_path_and_a_link_lead_to) {
  const FakeMachine machine;
  machine.link("/link", "/proc");
  EXPECT_EQ(look_at_disk(MachineFiles(), {}, "models", machine.root + "/link/not/yet").type,
            "proc");
  EXPECT_GT(look_at_disk(MachineFiles(), {}, "models", "not/yet").total, 0);
}

TEST(Look, a_folder_may_be_missing_or_of_another_user) {
  const FakeMachine machine;
  const auto look = [&](const std::string& path) {
    return look_at_disk(MachineFiles(), {}, "models", machine.root + path);
  };
  EXPECT_FALSE(look("").is_missing);
  EXPECT_TRUE(look("/not/yet").is_missing);
  EXPECT_TRUE(look("/not/yet").is_writable);
  ASSERT_EQ(::chmod(machine.root.c_str(), 0555), 0);
  // Root may write everywhere.
  EXPECT_EXIT(
      {
        if (::getuid() == 0 && ::setuid(65534) != 0) std::exit(0);
        std::exit(look("/not/yet").is_writable ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  ASSERT_EQ(::chmod(machine.root.c_str(), 0755), 0);
}

TEST(Look, libraries_by_their_longest_name) {
  const FakeMachine machine;
  machine.write("/usr/lib/x86_64-linux-gnu/libnccl.so.2", "");
  machine.write("/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.9", "");
  machine.write("/usr/lib/x86_64-linux-gnu/libnccl.sorry", "");
  machine.write("/etc/ld.so.conf.d/hpc.conf", "# a comment\n/opt/hpc/lib\n");
  machine.write("/opt/hpc/lib/libucp.so.0", "");
  const MachineFiles files(machine.root);
  EXPECT_EQ(look_for_library(files, "NCCL", "libnccl.so").version, "2.28.9");
  EXPECT_EQ(look_for_library(files, "UCX", "libucp.so").path, "/opt/hpc/lib/libucp.so.0");
  EXPECT_EQ(look_for_library(files, "MPI", "libmpi.so").path, "");
}

TEST(LookAtGpus, a_node_with_its_driver) {
  const FakeMachine machine;
  machine.write_host(192, kZen4);
  for (int i = 0; i < 8; ++i) machine.write_gpu(i, "DMA-FQ", i < 3);
  machine.write("/sys/bus/pci/devices/0000:f0:00.0/vendor", "0x10de\n");
  machine.write("/sys/bus/pci/devices/0000:f0:00.0/class", "0x068000\n");  // a switch
  machine.write_driver("580.95.05");
  machine.write_smi(8, "NVIDIA H200", "9.0", "OK", "NV18");
  const GpuSystemFacts facts = look(machine).gpu;
  ASSERT_EQ(facts.gpus.size(), 8u);
  EXPECT_EQ(facts.switches, 1);
  EXPECT_EQ(facts.driver_version, "580.95.05");
  EXPECT_TRUE(facts.has_devices);
  EXPECT_TRUE(facts.has_nvlink);
  EXPECT_TRUE(facts.has_peers);
  EXPECT_TRUE(facts.peers_refused.empty());
  EXPECT_EQ(facts.bridges_read, 8);
  EXPECT_EQ(facts.redirecting_bridges,
            (std::vector<std::string>{"0000:10:01.0", "0000:18:01.0", "0000:20:01.0"}));
  const GpuFacts& gpu = facts.gpus[1];
  EXPECT_EQ(gpu.bus, "0000:19:00.0");
  EXPECT_EQ(gpu.id, "10de:2335");
  EXPECT_EQ(gpu.name, "NVIDIA H200");
  EXPECT_EQ(gpu.driver, "nvidia");
  EXPECT_EQ(gpu.iommu, "DMA-FQ");
  EXPECT_EQ(gpu.link_width, 16);
  EXPECT_EQ(gpu.memory_mib, 143771);
  EXPECT_EQ(gpu.compute, "9.0");
  EXPECT_TRUE(gpu.persistence);
}

TEST(LookAtGpus, without_a_driver_there_are_ids) {
  const FakeMachine machine;
  machine.write_gpu(0, "");
  const GpuSystemFacts facts = look_at_gpus(MachineFiles(machine.root), 600);
  ASSERT_EQ(facts.gpus.size(), 1u);
  EXPECT_EQ(facts.gpus[0].name, "");
  EXPECT_EQ(facts.gpus[0].id, "10de:2335");
  EXPECT_FALSE(facts.gpus[0].answers);
  EXPECT_EQ(facts.driver_version, "");
}

TEST(LookAtGpus, peers_that_are_refused_are_named) {
  const FakeMachine machine;
  machine.write_gpu(0, "");
  machine.write_gpu(1, "");
  machine.write_smi(2, "NVIDIA GeForce RTX 4090", "8.9", "CNS", "PHB");
  const GpuSystemFacts facts = look_at_gpus(MachineFiles(machine.root), 600);
  EXPECT_FALSE(facts.has_nvlink);
  EXPECT_EQ(facts.peers_refused, std::vector<std::string>{"GPU0-GPU1: CNS"});
}

TEST(LookAtGpus, what_nvidia_smi_says_is_not_trusted) {
  const FakeMachine machine;
  machine.write_gpu(0, "");
  std::string lines = "one, two\n,,,,,,\nname, 00000000:11:00.0, many, -, [N/A], [N/A], [N/A]\n";
  for (int i = 0; i < 3000; ++i) lines += "x, y, 1, 1, 1, 1, 1\n";
  machine.write("/out", lines);
  machine.program("/usr/bin/nvidia-smi", str("cat '", machine.root, "/out'\n"));
  const GpuSystemFacts facts = look_at_gpus(MachineFiles(machine.root), 600);
  EXPECT_LE(facts.gpus.size(), 1024u);
  EXPECT_EQ(facts.gpus[0].name, "name");
  EXPECT_EQ(facts.gpus[0].memory_mib, 0);
  EXPECT_FALSE(facts.has_peers);
}

TEST(LookAtGpus, registers_that_only_root_may_read_are_counted) {
  const FakeMachine machine;
  machine.write_gpu(0, "DMA", true);
  machine.write("/sys/devices/pci0000:10/0000:10:01.0/config", std::string(64, '\0'));
  const GpuSystemFacts facts = look_at_gpus(MachineFiles(machine.root), 600);
  EXPECT_EQ(facts.bridges_read, 0);
  EXPECT_EQ(facts.bridges_hidden, 1);
  // A chain of capabilities without an end.
  std::string loop(4096, '\0');
  loop[0x100] = 1, loop[0x103] = 0x10;
  machine.write("/sys/devices/pci0000:10/0000:10:01.0/config", loop);
  EXPECT_EQ(look_at_gpus(MachineFiles(machine.root), 600).bridges_read, 1);
}

}  // namespace
}  // namespace glint
