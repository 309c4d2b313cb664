#include "doctor/findings.h"

#include <gtest/gtest.h>

#include "doctor/facts_json.h"
#include "doctor/look.h"
#include "doctor/testing.h"

namespace glint {
namespace {

constexpr const char* kZen4 = "avx2 fma avx512f avx512dq avx512bw avx512vl avx512vbmi avx512_bf16";
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

struct Doctor : testing::Test {
  Doctor() {
    machine.write_host(16, kZen4);
    machine.write("/dev/shm/there", "");
  }

  std::vector<Finding> findings() const {
    return judge(look_at_machine({.root = machine.root,
                                  .folders = {{"models", "/root/.cache/huggingface/hub"},
                                              {"temporary files", "/tmp"}},
                                  .variables = variables,
                                  .space =
                                      [this](const std::string& path) {
                                        return path.ends_with("/dev/shm") ? shared : disk;
                                      }}),
                 rates, build);
  }
  Finding about(const std::string& subject) const {
    for (const Finding& finding : findings()) {
      if (finding.subject == subject) return finding;
    }
    ADD_FAILURE() << "nothing about " << subject;
    return {};
  }
  std::string marks(Mark mark) const {
    std::string out;
    for (const Finding& finding : findings()) {
      if (finding.mark == mark) out += (out.empty() ? "" : ", ") + finding.subject;
    }
    return out;
  }
  void write_node(const std::string& iommu, bool redirect = false) const {
    for (int i = 0; i < 8; ++i) machine.write_gpu(i, iommu, redirect);
    machine.write_driver("580.95.05");
    machine.write("/usr/bin/nv-fabricmanager", "");
  }

  FakeMachine machine;
  std::optional<DiskSpace> disk = DiskSpace{.total = 4000 * kGiB, .free = 2000 * kGiB};
  std::optional<DiskSpace> shared = DiskSpace{.total = 32 * kGiB, .free = 32 * kGiB};
  std::vector<std::string> variables;
  Rates rates;
  BuildFacts build;
};

TEST_F(Doctor, a_healthy_machine_has_nothing_to_fix) {
  EXPECT_EQ(marks(Mark::kFix), "");
  EXPECT_EQ(marks(Mark::kFail), "");
  EXPECT_EQ(about("CPU").text, "AMD EPYC 9654 96-Core Processor: 16 CPUs");
  EXPECT_EQ(about("found").text, "none of NVIDIA's; glint computes on the CPU");
  EXPECT_EQ(about("uses").text, "the cpu backend with kernels of avx512_bf16 on 16 threads");
}

TEST_F(Doctor, the_bundled_model_is_recommended_only_where_it_is) {
  MachineFacts facts = look_at_machine({.root = machine.root});
  facts.cpu.isa = "";
  const auto commands = [&] {
    std::vector<std::string> out;
    for (const Finding& finding : judge(facts, rates, build)) {
      for (const std::string& command : finding.commands) {
        if (command.find("glm5-tiny") != command.npos) out.push_back(command);
      }
    }
    return out;
  };
  EXPECT_TRUE(commands().empty());
  facts.has_bundled_model = true;
  EXPECT_EQ(commands(), (std::vector<std::string>{
                            "glint generate models/glm5-tiny -p Hello --backend reference",
                            "glint serve models/glm5-tiny"}));
}

TEST_F(Doctor, every_fix_has_its_command) {
  write_node("DMA-FQ", true);
  machine.write_smi(8, "NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", "NS", "PHB");
  machine.write_limits("1024", "8388608");
  machine.write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  machine.write("/proc/sys/vm/overcommit_memory", "2\n");
  disk->free = kGiB / 2;
  shared->total = 64 << 20;
  EXPECT_EQ(marks(Mark::kFix),
            "huge pages, overcommit, open files, locked memory, models, temporary files, "
            "shared memory, IOMMU, ACS");
  for (const Finding& finding : findings()) {
    EXPECT_EQ(finding.mark == Mark::kFix && finding.commands.empty(), false) << finding.subject;
    EXPECT_FALSE(finding.text.empty()) << finding.subject;
  }
}

TEST_F(Doctor, disks_that_are_read_only) {
  disk->is_read_only = true;
  EXPECT_EQ(marks(Mark::kFix), "temporary files");
  EXPECT_EQ(about("temporary files").commands[0], "export TMPDIR=/a/writable/disk");
  EXPECT_EQ(about("models").mark, Mark::kNote);
  EXPECT_NE(about("models").text.find("; read-only: nothing can be fetched"), std::string::npos);
}

TEST_F(Doctor, folders_that_are_not_there_or_of_others) {
  const DiskFacts good = {.path = "/a", .total = 4000 * kGiB, .free = 2000 * kGiB};
  const auto judged = [&](const std::string& what, bool is_missing, bool is_writable) {
    DiskFacts facts = good;
    facts.what = what, facts.is_missing = is_missing, facts.is_writable = is_writable;
    MachineFacts all;
    all.disks = {facts};
    return judge_disks(all)[0];
  };
  // The folder of models is made when one is fetched; that of temporary files is not.
  EXPECT_EQ(judged("models", true, true).mark, Mark::kOk);
  EXPECT_EQ(judged("models", true, false).mark, Mark::kNote);
  EXPECT_TRUE(judged("models", true, false)
                  .text.ends_with("; this user may not write there: nothing can be fetched"));
  EXPECT_EQ(judged("temporary files", false, true).mark, Mark::kOk);
  for (const bool is_missing : {false, true}) {
    const Finding finding = judged("temporary files", is_missing, is_missing);
    EXPECT_EQ(finding.mark, Mark::kFix);
    EXPECT_TRUE(finding.text.ends_with(is_missing ? "; there is no such folder"
                                                  : "; this user may not write there"));
    EXPECT_EQ(finding.commands[0], "export TMPDIR=/a/writable/disk");
  }
}

TEST_F(Doctor, a_large_disk_with_room_is_not_full) {
  disk->free = 36 * kGiB;
  EXPECT_EQ(marks(Mark::kFix), "");
}

TEST_F(Doctor, without_avx2_nothing_runs) {
  machine.write_host(4, "sse2 avx");
  EXPECT_EQ(marks(Mark::kFail), "CPU, uses");
}

TEST_F(Doctor, without_memory_nothing_runs) {
  machine.write("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 65536 kB\n");
  EXPECT_EQ(marks(Mark::kFail), "memory");
}

TEST_F(Doctor, a_container_is_told_what_docker_is_to_be_asked_for) {
  machine.write("/.dockerenv", "");
  machine.write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  machine.write("/sys/fs/cgroup/memory.max", "8589934592\n");
  machine.write("/sys/fs/cgroup/memory.stat", "anon 4096\n");
  machine.write("/proc/self/mounts", "overlay / overlay rw 0 0\nshm /dev/shm tmpfs rw 0 0\n");
  machine.write_limits("1024", "65536");
  EXPECT_EQ(about("CPU").commands, std::vector<std::string>{"docker run --cpus 16 ..."});
  EXPECT_EQ(about("memory").mark, Mark::kNote);
  EXPECT_EQ(about("memory").commands, std::vector<std::string>{"docker run --memory 64g ..."});
  EXPECT_EQ(about("open files").commands,
            std::vector<std::string>{"docker run --ulimit nofile=65536 ..."});
  EXPECT_EQ(about("locked memory").mark, Mark::kOk);  // nothing here needs it
  EXPECT_NE(about("models").text.find("gone with it"), std::string::npos);

  for (int i = 0; i < 2; ++i) machine.write_gpu(i, "identity");
  machine.write_driver("580.95.05");
  shared->total = 64 << 20;
  EXPECT_EQ(about("locked memory").commands,
            std::vector<std::string>{"docker run --ulimit memlock=-1 ..."});
  EXPECT_EQ(about("shared memory").mark, Mark::kFix);
  EXPECT_EQ(about("driver").commands[0].substr(0, 24), "docker run --gpus all -e");
}

TEST_F(Doctor, a_container_without_gpus_asks_for_them) {
  machine.write("/.dockerenv", "");
  machine.write_gpu(0, "");
  machine.write_driver("580.95.05");
  std::filesystem::remove(machine.root + "/dev/nvidiactl");
  EXPECT_EQ(about("driver").mark, Mark::kFix);
  EXPECT_EQ(about("driver").commands, std::vector<std::string>{"docker run --gpus all ..."});
}

TEST_F(Doctor, an_iommu_that_translates_makes_nccl_hang) {
  write_node("DMA-FQ");
  machine.write_smi(8, "NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", "OK", "NODE");
  Finding iommu = about("IOMMU");
  EXPECT_EQ(iommu.mark, Mark::kFix);
  EXPECT_NE(iommu.commands[0].find("iommu=pt"), std::string::npos);
  EXPECT_EQ(iommu.commands[1].substr(0, 25), "export NCCL_P2P_DISABLE=1");
  // Asked to pass through, and it still translates.
  machine.write("/proc/cmdline", "ro iommu=pt quiet\n");
  EXPECT_NE(about("IOMMU").commands[0].find("amd_iommu=off"), std::string::npos);
  build.has_cuda = true;
  EXPECT_EQ(about("CUDA backend").text, "this build has no kernels for sm_120");
  EXPECT_EQ(about("CUDA backend").commands[0].substr(0, 45),
            "cmake --preset cuda -DGLINT_CUDA_TARGETS=120 ");
  machine.write_smi(1, "Tesla T4", "7.5", "OK", "PIX");
  EXPECT_NE(about("CUDA backend").text.find("from sm_80 on, and these are sm_75"),
            std::string::npos);
}

TEST_F(Doctor, an_iommu_that_passes_through_is_fine) {
  write_node("identity");
  machine.write_smi(8, "NVIDIA H200", "9.0", "OK", "NV18");
  EXPECT_EQ(about("IOMMU").mark, Mark::kOk);
  EXPECT_EQ(about("ACS").mark, Mark::kOk);
  EXPECT_EQ(about("peer access").text, "every GPU reads every other, over NVLink");
  EXPECT_EQ(about("found").text, "8 x NVIDIA H200 (140.4 GiB)");
  EXPECT_EQ(marks(Mark::kFix), "");
}

TEST_F(Doctor, over_nvlink_an_iommu_matters_to_network_cards_only) {
  write_node("DMA", true);
  machine.write_smi(8, "NVIDIA H200", "9.0", "OK", "NV18");
  EXPECT_EQ(about("IOMMU").mark, Mark::kNote);
  EXPECT_EQ(about("ACS").mark, Mark::kNote);
  machine.write("/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  EXPECT_EQ(about("IOMMU").mark, Mark::kFix);
  EXPECT_EQ(about("ACS").mark, Mark::kFix);
  EXPECT_EQ(about("RDMA").commands, std::vector<std::string>{"sudo modprobe nvidia-peermem"});
}

TEST_F(Doctor, bridges_that_redirect_are_named) {
  machine.write_gpu(0, "identity", true);
  machine.write_gpu(1, "identity", false);
  const Finding acs = about("ACS");
  EXPECT_EQ(acs.mark, Mark::kFix);
  EXPECT_NE(acs.text.find("1 of 2 bridges"), std::string::npos);
  EXPECT_NE(acs.commands[0].find("for b in 0000:10:01.0; do"), std::string::npos);
}

TEST_F(Doctor, one_gpu_has_no_peers) {
  machine.write_gpu(0, "DMA");
  for (const Finding& finding : findings()) {
    EXPECT_NE(finding.subject, "IOMMU");
    EXPECT_NE(finding.subject, "peer access");
  }
}

TEST_F(Doctor, drivers_that_are_missing_old_or_dead_are_told_apart) {
  machine.write_gpu(0, "");
  EXPECT_EQ(about("driver").text, "the GPUs have no NVIDIA driver");
  machine.write_driver("535.129.03");
  machine.write_smi(1, "NVIDIA H100", "9.0", "OK", "PIX");
  EXPECT_NE(about("driver").text.find("needs 580"), std::string::npos);
  machine.program("/usr/bin/nvidia-smi",
                  "echo 'Unable to determine the device handle: Unknown Error'; exit 255\n");
  EXPECT_NE(about("driver").text.find("Unable to determine the device handle"), std::string::npos);
  EXPECT_EQ(about("driver").mark, Mark::kFix);
}

TEST_F(Doctor, switches_need_their_manager) {
  write_node("identity");
  machine.write("/sys/bus/pci/devices/0000:f0:00.0/vendor", "0x10de\n");
  machine.write("/sys/bus/pci/devices/0000:f0:00.0/class", "0x068000\n");
  EXPECT_EQ(about("NVSwitch").mark, Mark::kOk);
  std::filesystem::remove(machine.root + "/usr/bin/nv-fabricmanager");
  EXPECT_EQ(about("NVSwitch").mark, Mark::kFix);
  EXPECT_NE(about("NVSwitch").commands[0].find("nvidia-fabricmanager-580 "), std::string::npos);
}

TEST_F(Doctor, the_cuda_backend_is_used_where_the_build_has_it) {
  machine.write_gpu(0, "");
  machine.write_driver("580.95.05");
  machine.write_smi(1, "NVIDIA H100", "9.0", "OK", "PIX");
  EXPECT_EQ(about("CUDA backend").text, "not in this build");
  build = {.has_cuda = true, .has_kernels = [](int capability) { return capability == 90; }};
  EXPECT_EQ(about("CUDA backend").mark, Mark::kOk);
  EXPECT_NE(about("uses").text.find("--backend cpu"), std::string::npos);
  for (int i = 1; i < 8; ++i) machine.write_gpu(i, "");
  machine.write_smi(8, "NVIDIA H100", "9.0", "OK", "NV18");
  EXPECT_EQ(about("CUDA backend").commands, std::vector<std::string>{"glint serve MODEL --tp 8"});
  EXPECT_NE(about("libraries").text.find("use NCCL"), std::string::npos);
}

TEST_F(Doctor, gpus_without_kernels_are_not_shown_to_cuda) {
  for (int i = 0; i < 4; ++i) machine.write_gpu(i, "");
  machine.write_driver("580.95.05");
  machine.write_smi(1, "NVIDIA H100", "9.0", "OK", "PIX");
  build = {.has_cuda = true, .has_kernels = [](int capability) { return capability == 90; }};
  EXPECT_EQ(about("CUDA backend").commands, std::vector<std::string>{});  // vfio-pci has three
  machine.write("/smi/list",
                "NVIDIA T400, 00000000:19:00.0, 4096, 4, 7.5, Enabled, Disabled\n"
                "NVIDIA H100, 00000000:21:00.0, 81559, 4, 9.0, Enabled, Disabled\n");
  const std::string show = "export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1";
  EXPECT_EQ(about("CUDA backend").commands, std::vector<std::string>{show});
  EXPECT_TRUE(about("uses").text.starts_with("the GPU;"));
}

TEST_F(Doctor, variables_that_slow_nccl_down_are_named) {
  write_node("identity");
  machine.write_smi(8, "NVIDIA H200", "9.0", "OK", "NV18");
  variables = {"NCCL_P2P_DISABLE=1"};
  EXPECT_EQ(about("NCCL_P2P_DISABLE").mark, Mark::kFix);
  machine.write_smi(8, "NVIDIA RTX PRO 6000", "12.0", "OK", "NODE");
  EXPECT_EQ(about("NCCL_P2P_DISABLE").mark, Mark::kNote);
}

TEST_F(Doctor, rates_that_were_measured_are_told) {
  rates = {
      .backend = "amx", .threads = 4, .read_gb_s = 100, .f32_gflops = 500, .matrix_gflops = 8000};
  EXPECT_EQ(about("rates").text,
            "4 threads of amx: memory reads 100.0 GB/s, 500 GFLOP/s in f32, 8000 GFLOP/s in bf16");
  EXPECT_NE(about("uses").text.find("on 4 threads"), std::string::npos);
}

TEST_F(Doctor, the_summary_of_a_machine_names_no_folders) {
  write_node("identity");
  machine.write_smi(8, "NVIDIA H200", "9.0", "OK", "NV18");
  const MachineFacts facts = look_at_machine({.root = machine.root});
  const std::string text = dump_json(machine_summary(facts));
  EXPECT_NE(text.find("\"NVIDIA H200\""), std::string::npos);
  EXPECT_EQ(text.find(machine.root), std::string::npos);
  const Json json = to_json(facts);
  EXPECT_EQ(json.find("gpu")->find("devices")->as_array().size(), 8u);
  // All that findings are made of.
  for (const char* name : {"device_files", "fabric_manager", "acs_bridges_hidden"})
    EXPECT_TRUE(json.find("gpu")->find(name)) << name;
  for (const char* name : {"quota", "frequency_driver"})
    EXPECT_TRUE(json.find("cpu")->find(name)) << name;
}

}  // namespace
}  // namespace glint
