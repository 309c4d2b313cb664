#include "backends/cuda/linear/launch.cuh"

namespace glint::cuda {

template void launch_product<WeightFormat::kBF16>(const ProductArgs&, Epilogue, const Gpu&);

}  // namespace glint::cuda
