// The machines that a model can be planned for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace glint {

struct DeviceModel {
  std::string_view name;     // "b200"
  std::string_view product;  // "NVIDIA B200"
  std::int64_t memory = 0;   // bytes that programs see
  // Per second, that kernels reach; 0: not known, so there are no floors.
  double bandwidth = 0;
  double bf16 = 0, fp8 = 0, fp4 = 0;  // FLOP
  double link = 0;                    // bytes to other devices of the host, one direction
  std::string_view source;            // of these numbers
  int per_host = 8;                   // devices that the link joins
  double network = 50e9;              // bytes of a device to other hosts, one direction: 400 Gb/s
  int per_machine = 8;                // devices of one operating system

  bool is_host() const { return name == "cpu"; }
};

// "cpu" is this machine. None: not known.
std::optional<DeviceModel> find_device(std::string_view name);
// "h100, h200, ..., cpu"
std::string device_names();

}  // namespace glint
