#include "backends/cuda/linear/launch.cuh"

namespace glint::cuda {

template void launch_product<WeightFormat::kFp8Block>(const ProductArgs&, Epilogue, int,
                                                      cudaStream_t);

}  // namespace glint::cuda
