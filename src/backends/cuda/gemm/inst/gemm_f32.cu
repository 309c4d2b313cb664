#include "backends/cuda/gemm/gemm_sm90.cuh"

namespace glint::cuda {

template void launch_gemm<Epilogue::kF32>(const GemmConfig&, const GemmArgs&, cudaStream_t);

}  // namespace glint::cuda
