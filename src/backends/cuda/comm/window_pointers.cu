#include "backends/cuda/comm/window_pointers.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <nccl_device.h>
#pragma GCC diagnostic pop

#include "backends/cuda/check_cuda.h"

namespace glint::cuda {
namespace {

__global__ void write_pointers(ncclWindow_t window, int size, std::byte** at) {
  const auto rank = static_cast<int>(threadIdx.x);
  if (rank < size) at[rank] = static_cast<std::byte*>(ncclGetLsaPointer(window, 0, rank));
}

}  // namespace

void find_windows(ncclWindow_t window, int size, const Gpu& gpu, Windows* windows) {
  std::byte** on_gpu = nullptr;
  const std::size_t bytes = static_cast<std::size_t>(size) * sizeof(std::byte*);
  check_cuda(cudaMallocAsync(&on_gpu, bytes, gpu.stream), "room for windows' addresses");
  write_pointers<<<1, 32, 0, gpu.stream>>>(window, size, on_gpu);
  check_cuda(cudaMemcpyAsync(windows->at, on_gpu, bytes, cudaMemcpyDeviceToHost, gpu.stream),
             "windows' addresses");
  check_cuda(cudaFreeAsync(on_gpu, gpu.stream), "windows' addresses");
  check_cuda(cudaStreamSynchronize(gpu.stream), "windows' addresses");
}

}  // namespace glint::cuda
