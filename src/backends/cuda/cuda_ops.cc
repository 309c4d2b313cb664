// CudaOps: the ops that the GPU has so far, and dense_ffn in three kernels instead of five.
#include "backends/cuda/cuda_ops.h"

#include "backends/cuda/capabilities.h"
#include "backends/cuda/device.h"
#include "backends/cuda/elementwise/elementwise.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/norm/norm.h"
#include "ops/compose.h"
#include "ops/testing/unsupported_ops.h"

namespace glint {
namespace cuda {
namespace {

class CudaOps final : public UnsupportedOps {
 public:
  explicit CudaOps(std::unique_ptr<CudaDevice> device) : device_(std::move(device)) {}

  Device& device() override { return *device_; }
  Capabilities capabilities() const override { return cuda::capabilities(); }

  void embed(const EmbedArgs& args) override {
    check(args);
    device_->run("embed", [&](cudaStream_t stream) { launch_embed(args, stream); });
  }
  void silu_mul(const SiluMulArgs& args) override {
    check(args);
    device_->run("silu_mul", [&](cudaStream_t stream) { launch_silu_mul(args, stream); });
  }
  void rms_norm(const RmsNormArgs& args) override {
    check(args);
    device_->run("rms_norm", [&](cudaStream_t stream) { launch_rms_norm(args, stream); });
  }
  void linear(const LinearArgs& args) override {
    check(args);
    device_->run("linear",
                 [&](cudaStream_t stream) { launch_linear(args, device_->num_sms(), stream); });
  }

  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override {
    const Arena::Scope scope(scratch);
    const Compose f{*this, scratch, args.delta.dtype};
    const FfnWeights& w = args.weights;
    const Tensor m = f.add_rms_norm(args.x, args.delta, args.norm, args.eps);
    const Tensor inner = scratch.take(f.dtype, {m.dim(0), w.gate_proj.rows});
    gate_up({.x = m, .gate = w.gate_proj, .up = w.up_proj, .out = inner});
    linear({.x = inner, .weight = w.down_proj, .out = args.delta});
  }

 private:
  void gate_up(const GateUpArgs& args) {
    check(LinearArgs{.x = args.x, .weight = args.gate, .out = args.out});
    check(LinearArgs{.x = args.x, .weight = args.up, .out = args.out});
    device_->run("gate_up",
                 [&](cudaStream_t stream) { launch_gate_up(args, device_->num_sms(), stream); });
  }

  std::unique_ptr<CudaDevice> device_;
};

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Ops>> make_cuda_ops(int device) {
  GLINT_TRY(std::unique_ptr<cuda::CudaDevice> cuda_device, cuda::CudaDevice::make(device));
  return std::unique_ptr<Ops>(std::make_unique<cuda::CudaOps>(std::move(cuda_device)));
}

}  // namespace glint
