#include "backends/cuda/linear/launch.cuh"

namespace glint::cuda {

template void launch_product<WeightFormat::kBF16>(const ProductArgs&, Epilogue, int, cudaStream_t);

}  // namespace glint::cuda
