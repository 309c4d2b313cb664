// CudaOps: every primitive as a kernel, and the launches of its blocks (blocks.h).
#include "backends/cuda/cuda_ops.h"

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/backward/cuda_gradients.h"
#include "backends/cuda/blocks.h"
#include "backends/cuda/cache/cache.h"
#include "backends/cuda/comm/make_gpu_comm.h"
#include "backends/cuda/comm/windows.h"
#include "backends/cuda/cuda_plan_ops.h"
#include "backends/cuda/device.h"
#include "backends/cuda/norm/norm.h"
#include "backends/cuda/sampling/sampling.h"
#include "backends/cuda/sequences/sequences.h"
#include "backends/cuda/targets.h"
#include "base/str.h"
#include "ops/capabilities.h"

namespace glint {
namespace cuda {
namespace {

class CudaOps final : public Blocks<Backend> {
 public:
  // `scores`: memory of the device for select_keys and sparse_mla.
  CudaOps(std::unique_ptr<CudaDevice> device, Buffer scores, bool use_windows)
      : device_(std::move(device)), scores_(std::move(scores)), use_windows_(use_windows) {}

  Device& device() override { return *device_; }
  Capabilities capabilities() const override {
    Capabilities all = all_capabilities("cuda");
    all.mixed_stacks = false;
    return all;
  }
  std::unique_ptr<PlanOps> make_plan_ops(Device& device) override {
    return std::make_unique<CudaPlanOps>(device);
  }
  std::unique_ptr<Gradients> make_gradients() override { return make_cuda_gradients(*device_); }
  std::unique_ptr<DeviceComm> make_comm(Comm& host) override {
    return make_gpu_comm(host, *device_, use_windows_);
  }

  Status supports(const ModelDims& dims) const override {
    if (dims.n_routed_experts > kMostExperts) {
      return unsupported(str("the cuda backend routes among at most ", kMostExperts,
                             " experts; the model has ", dims.n_routed_experts,
                             "; run it with --backend cpu"));
    }
    const Arch& arch = device_->gpu().arch;
    GLINT_TRY_STATUS(supports_select_keys(dims.attention, arch));
    return supports_sparse_mla(dims.attention, arch);
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
    if (!is_top_keys(args)) return run("select_keys", args, launch_select_keys);
    run("select_keys", args, [this](const SelectKeysArgs& args, const Gpu& gpu) {
      launch_top_keys(args, scores(), gpu);
    });
  }
  void sparse_mla(const SparseMlaArgs& args) override {
    run("sparse_mla", args, [this](const SparseMlaArgs& args, const Gpu& gpu) {
      launch_sparse_mla(args, scores(), gpu);
    });
  }
  void route(const RouteArgs& args) override { run("route", args, launch_route); }
  void pick_copies(const PickCopiesArgs& args) override {
    run("pick_copies", args, launch_pick_copies);
  }
  void count_experts(const CountExpertsArgs& args) override {
    run("count_experts", args, launch_count_experts);
  }
  void permute(const PermuteArgs& args) override { run("permute", args, launch_permute); }
  void regroup(const RegroupArgs& args) override { run("regroup", args, launch_regroup); }
  void argmax(const ArgmaxArgs& args) override { run("argmax", args, launch_argmax); }
  void place_rows(const PlaceRowsArgs& args) override {
    run("place_rows", args, launch_place_rows);
  }
  void place_draws(const PlaceDrawsArgs& args) override {
    run("place_draws", args, launch_place_draws);
  }
  void accept(const AcceptArgs& args) override { run("accept", args, launch_accept); }
  void keep_rows(const KeepRowsArgs& args) override { run("keep_rows", args, launch_keep_rows); }
  void count_tokens(const CountTokensArgs& args) override {
    run("count_tokens", args, launch_count_tokens);
  }
  void sample(const SampleArgs& args) override { run("sample", args, launch_sample); }
  void token_log_probs(const TokenLogProbsArgs& args) override {
    run("token_log_probs", args, launch_token_log_probs);
  }
  void combine(const CombineArgs& args) override { run("combine", args, launch_combine); }

  void linear(const LinearArgs& args) override {
    if (is_narrow(args)) return run("linear", args, launch_narrow_linear);
    if (!is_product(args.x.dtype, args.weight)) return run("linear", args, launch_exact_linear);
    run("linear", args, launch_linear);
  }
  void grouped_linear(const GroupedLinearArgs& args) override {
    if (!is_product(args.x.dtype, args.weights)) {
      return run("grouped_linear", args, launch_exact_grouped_linear);
    }
    run("grouped_linear", args, launch_grouped_linear);
  }
  void per_head(const PerHeadArgs& args) override {
    if (!is_product(args.x.dtype, args.weights)) {
      return run("per_head", args, launch_exact_per_head);
    }
    run("per_head", args, launch_per_head);
  }

 private:
  // `op` is a literal.
  template <class Args, class Launch>
  void run(const char* op, const Args& args, Launch&& launch_op) {
    check(args);
    start(op, args, launch_op);
  }
  template <class Args, class Launch>
  void start(const char* op, const Args& args, Launch&& launch_op) {
    device_->run(op, [&](const Gpu& gpu) { launch_op(args, gpu); });
  }

  float* scores() const { return reinterpret_cast<float*>(scores_.data()); }

  void beside(const std::function<void()>& launches) override { device_->beside(launches); }
  void fork(std::int64_t rows) override { device_->fork(rows); }
  void join() override { device_->join(); }
  void launch(const LatentInputsArgs& args) override {
    start("latent_inputs", args, launch_latent_inputs);
  }
  void launch(const KeyInputsArgs& args) override { start("key_inputs", args, launch_key_inputs); }
  void launch(const RopePair& args) override { start("rope", args, launch_rope_pair); }
  void launch(const GateUpArgs& args) override {
    for (const LinearArgs& product : products_of(args)) check(product);
    start("gate_up", args, launch_gate_up);
  }
  void launch(const GroupedGateUpArgs& args) override {
    for (const GroupedLinearArgs& product : products_of(args)) check(product);
    start("grouped gate_up", args, launch_grouped_gate_up);
  }
  void launch(const GroupedDownArgs& args) override {
    check(args.product);
    start("grouped_linear", args, launch_grouped_down);
  }
  void launch(const RouterInputArgs& args) override {
    start("router_input", args, launch_router_input);
  }
  void launch(const RoutePermuteArgs& args) override {
    check(args.permute);
    start("route", args, launch_route_permute);
  }

  std::unique_ptr<CudaDevice> device_;
  const Buffer scores_;
  const bool use_windows_;
};

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Backend>> make_cuda_ops(int device, bool use_windows) {
  GLINT_TRY(std::unique_ptr<cuda::CudaDevice> cuda_device, cuda::CudaDevice::make(device));
  Buffer scores = cuda_device->allocate(cuda::kScoreBytes);
  if (!scores.data()) {
    return exhausted(str(cuda_device->name(), " has no ", cuda::kScoreBytes >> 20,
                         " MiB left for scores of keys; end what else runs on it"));
  }
  return std::unique_ptr<Backend>(
      std::make_unique<cuda::CudaOps>(std::move(cuda_device), std::move(scores), use_windows));
}

int num_cuda_devices() { return cuda::CudaDevice::count(); }

std::int64_t cuda_group_bytes() {
  // NCCL's own, as measured for two H100 (bench/results/cuda-ranks-h100.txt).
  constexpr std::int64_t kOfNccl = std::int64_t{512} << 20;
  return static_cast<std::int64_t>(cuda::kWindowBytes + cuda::kGroupScratch) + kOfNccl;
}

Status find_cuda_device(int device) { return cuda::CudaDevice::find(device); }

std::string cuda_device_note(int device) { return cuda::CudaDevice::note(device); }

bool built_with_cuda() { return true; }

bool built_for_cuda_capability(int capability) {
  return cuda::runs_on(GLINT_CUDA_TARGETS, capability);
}

}  // namespace glint
