// silu(gate) * up as one product: one instance a file, so that they compile side by side.
#include "backends/cuda/gemm/gemm_sm90.cuh"

namespace glint::cuda {

template void launch_gemm<Epilogue::kSiluMul>(const GemmConfig&, const GemmArgs&, cudaStream_t);

}  // namespace glint::cuda
