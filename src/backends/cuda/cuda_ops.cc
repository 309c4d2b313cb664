// CudaOps: every primitive as a kernel, and dense_ffn in bf16 in three kernels instead of five.
#include "backends/cuda/cuda_ops.h"

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/cache/cache.h"
#include "backends/cuda/device.h"
#include "backends/cuda/elementwise/elementwise.h"
#include "backends/cuda/gemm/gemm.h"
#include "backends/cuda/linear/linear.h"
#include "backends/cuda/moe/moe.h"
#include "backends/cuda/norm/norm.h"
#include "backends/cuda/sampling/sampling.h"
#include "base/str.h"
#include "ops/capabilities.h"
#include "ops/compose.h"

namespace glint {
namespace cuda {
namespace {

// Whether the tensor cores' kernels compute the product of such activations with `weight`.
bool is_gemm(DType x, const Weight& weight) {
  return x == DType::kBF16 && weight.format == WeightFormat::kBF16;
}

class CudaOps final : public Ops {
 public:
  explicit CudaOps(std::unique_ptr<CudaDevice> device) : device_(std::move(device)) {}

  Device& device() override { return *device_; }
  Capabilities capabilities() const override {
    Capabilities all = all_capabilities("cuda");
    all.mixed_stacks = false;
    all.gradients = false;
    return all;
  }

  Status supports(const ModelDims& dims) const override {
    if (dims.n_routed_experts > kMostExperts) {
      return Error{
          ErrorCode::kUnsupported,
          str("the cuda backend routes among at most ", kMostExperts, " experts; the model has ",
              dims.n_routed_experts, "; run it with --backend cpu")};
    }
    GLINT_TRY_STATUS(supports_select_keys(dims.attention));
    return supports_sparse_mla(dims.attention);
  }

  void embed(const EmbedArgs& args) override { run("embed", args, launch_embed); }
  void gather_rows(const GatherRowsArgs& args) override {
    run("gather_rows", args, launch_gather_rows);
  }
  void add(const AddArgs& args) override { run("add", args, launch_add); }
  void silu_mul(const SiluMulArgs& args) override { run("silu_mul", args, launch_silu_mul); }
  void rms_norm(const RmsNormArgs& args) override { run("rms_norm", args, launch_rms_norm); }
  void layer_norm(const LayerNormArgs& args) override {
    run("layer_norm", args, launch_layer_norm);
  }
  void rope(const RopeArgs& args) override { run("rope", args, launch_rope); }
  void write_latent(const WriteLatentArgs& args) override {
    run("write_latent", args, launch_write_latent);
  }
  void write_index(const WriteIndexArgs& args) override {
    run("write_index", args, launch_write_index);
  }
  void select_keys(const SelectKeysArgs& args) override {
    run("select_keys", args, launch_select_keys);
  }
  void sparse_mla(const SparseMlaArgs& args) override {
    run("sparse_mla", args, launch_sparse_mla);
  }
  void route(const RouteArgs& args) override { run("route", args, launch_route); }
  void permute(const PermuteArgs& args) override { run("permute", args, launch_permute); }
  void regroup(const RegroupArgs& args) override { run("regroup", args, launch_regroup); }
  void argmax(const ArgmaxArgs& args) override { run("argmax", args, launch_argmax); }
  void sample(const SampleArgs& args) override { run("sample", args, launch_sample); }
  void token_log_probs(const TokenLogProbsArgs& args) override {
    run("token_log_probs", args, launch_token_log_probs);
  }
  void combine(const CombineArgs& args) override { run("combine", args, launch_combine); }

  void linear(const LinearArgs& args) override {
    if (!is_gemm(args.x.dtype, args.weight) || args.accumulate) {
      return run("linear", args, launch_any_linear);
    }
    run("linear", args, [&](const LinearArgs&, cudaStream_t stream) {
      launch_linear(args, device_->num_sms(), stream);
    });
  }
  void grouped_linear(const GroupedLinearArgs& args) override {
    run("grouped_linear", args, launch_grouped_linear);
  }
  void per_head(const PerHeadArgs& args) override { run("per_head", args, launch_per_head); }

  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override {
    const FfnWeights& w = args.weights;
    if (!is_gemm(args.delta.dtype, w.gate_proj) || !is_gemm(args.delta.dtype, w.up_proj)) {
      return Ops::dense_ffn(args, scratch);
    }
    const Arena::Scope scope(scratch);
    const Compose f{*this, scratch, args.delta.dtype};
    const Tensor m = f.add_rms_norm(args.x, args.delta, args.norm, args.eps);
    const Tensor inner = scratch.take(f.dtype, {m.dim(0), w.gate_proj.rows});
    gate_up({.x = m, .gate = w.gate_proj, .up = w.up_proj, .out = inner});
    linear({.x = inner, .weight = w.down_proj, .out = args.delta});
  }

 private:
  // `op` is a literal.
  template <class Args, class Launch>
  void run(const char* op, const Args& args, Launch&& launch) {
    check(args);
    device_->run(op, [&](cudaStream_t stream) { launch(args, stream); });
  }

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

Status find_cuda_device(int device) { return cuda::CudaDevice::find(device); }

bool built_with_cuda() { return true; }

}  // namespace glint
