// Groups whose ranks are GPUs, in builds with and without NCCL's headers.
#pragma once

#include <memory>

#include "backends/cuda/device.h"
#include "comm/device_comm.h"

namespace glint::cuda {

// `host` and `device` outlive it. `use_windows` false: NCCL moves all bytes.
std::unique_ptr<DeviceComm> make_gpu_comm(Comm& host, CudaDevice& device, bool use_windows);

}  // namespace glint::cuda
