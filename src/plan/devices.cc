#include "plan/devices.h"

#include "base/memory.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::int64_t gib(double n) { return static_cast<std::int64_t>(n * (1 << 30)); }
constexpr std::int64_t gb(double n) { return static_cast<std::int64_t>(n * 1e9); }

constexpr double kT = 1e12, kG = 1e9;

// Rates that were not measured are 90 % of the data sheet's bandwidth and 80 % of its dense FLOP/s.
// Where no total that a driver reports is known, memory is the data sheet's in units of 1e9, which
// is less.
constexpr DeviceModel kDevices[] = {
    {"h100", "NVIDIA H100 SXM 80 GB", gib(79.1), 3.0 * kT, 790 * kT, 1300 * kT, 1300 * kT, 450 * kG,
     "data sheet (3.35 TB/s); FLOP/s as the H200, which has the same die"},
    {"h200", "NVIDIA H200 SXM 141 GB", gib(139.8), 4.3 * kT, 790 * kT, 1300 * kT, 1300 * kT,
     450 * kG, "copies and BF16 products measured; FP8: the best public grouped product; no FP4"},
    {"b100", "NVIDIA B100", gb(180), 7.2 * kT, 1400 * kT, 2800 * kT, 5600 * kT, 900 * kG,
     "data sheet"},
    {"b200", "NVIDIA B200", gib(178.36), 7.2 * kT, 1800 * kT, 3600 * kT, 7200 * kT, 900 * kG,
     "memory as drivers report it; data sheet (8 TB/s)"},
    {"gb200", "NVIDIA GB200", gb(186), 7.2 * kT, 2000 * kT, 4000 * kT, 8000 * kT, 900 * kG,
     "data sheet", 72, 50 * kG, 4},
    {"b300", "NVIDIA B300", gb(270), 7.2 * kT, 1800 * kT, 3600 * kT, 11200 * kT, 900 * kG,
     "data sheet", 8, 100 * kG},
    {"gb300", "NVIDIA GB300", gb(279), 7.2 * kT, 2000 * kT, 4000 * kT, 12000 * kT, 900 * kG,
     "data sheet", 72, 100 * kG, 4},
    {"rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell 96 GB", gb(96), 1.61 * kT, 400 * kT, 800 * kT,
     1600 * kT, 50 * kG, "data sheet (1.79 TB/s); PCIe 5.0 x16"},
    {"rtx-5090", "NVIDIA GeForce RTX 5090 32 GB", gb(32), 1.61 * kT, 168 * kT, 335 * kT, 1340 * kT,
     50 * kG, "data sheet (1.79 TB/s); PCIe 5.0 x16"},
};

}  // namespace

std::optional<DeviceModel> find_device(std::string_view name) {
  for (const DeviceModel& device : kDevices) {
    if (device.name == name) return device;
  }
  if (name != "cpu") return {};
  return DeviceModel{.name = "cpu",
                     .product = "this machine's memory",
                     .memory = total_memory(),
                     .source = "this machine; `glint bench local` measures its speed",
                     .per_host = 1,
                     .per_machine = 1};
}

std::string device_names() {
  std::string names;
  for (const DeviceModel& device : kDevices) names += str(device.name, ", ");
  return names + "cpu";
}

}  // namespace glint
