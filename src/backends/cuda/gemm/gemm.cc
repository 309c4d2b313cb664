#include "backends/cuda/gemm/gemm.h"

#include "backends/cuda/gemm/gemm_launch.h"
#include "backends/cuda/gemm/select_sm90.h"
#include "base/str.h"

namespace glint::cuda {
namespace {

const bf16* elements_of(const Weight& weight) {
  GLINT_CHECK(weight.format == WeightFormat::kBF16,
              str("a ", name_of(weight.format), " weight; capabilities say bf16"));
  return bf16_data(weight.data);
}

bool is_aligned(const GemmArgs& args) {
  for (const void* p : {static_cast<const void*>(args.x), static_cast<const void*>(args.weight),
                        static_cast<const void*>(args.up), static_cast<const void*>(args.out)}) {
    if (reinterpret_cast<std::uintptr_t>(p) % 16 != 0) return false;
  }
  for (const std::int64_t size : {args.x_stride, args.out_stride, args.n, args.k}) {
    if (size % 8 != 0) return false;
  }
  return true;
}

template <Epilogue kEpilogue>
void select_and_launch(const GemmArgs& args, int num_sms, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return;
  const GemmConfig config = select_sm90(
      {.m = args.m, .n = args.n, .k = args.k, .epilogue = kEpilogue, .aligned = is_aligned(args)},
      num_sms);
  launch_gemm<kEpilogue>(config, args, stream);
}

GemmArgs gemm_args(const Tensor& x, const Weight& weight, const Tensor& out) {
  return {.x = bf16_data(x),
          .x_stride = x.stride[0],
          .weight = elements_of(weight),
          .out = out.data,
          .out_stride = out.stride[0],
          .m = x.dim(0),
          .n = weight.rows,
          .k = weight.cols};
}

}  // namespace

void launch_linear(const LinearArgs& args, int num_sms, cudaStream_t stream) {
  const GemmArgs gemm = gemm_args(args.x, args.weight, args.out);
  if (args.out.dtype == DType::kF32) {
    select_and_launch<Epilogue::kF32>(gemm, num_sms, stream);
  } else {
    select_and_launch<Epilogue::kBF16>(gemm, num_sms, stream);
  }
}

void launch_gate_up(const GateUpArgs& args, int num_sms, cudaStream_t stream) {
  GemmArgs gemm = gemm_args(args.x, args.gate, args.out);
  gemm.up = elements_of(args.up);
  select_and_launch<Epilogue::kSiluMul>(gemm, num_sms, stream);
}

}  // namespace glint::cuda
