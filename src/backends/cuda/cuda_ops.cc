// CudaOps: every primitive as a kernel; in bf16 the gate and up products of an FFN and what joins
// them are one.
#include "backends/cuda/cuda_ops.h"

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/attention/inputs.h"
#include "backends/cuda/backward/cuda_gradients.h"
#include "backends/cuda/cache/cache.h"
#include "backends/cuda/comm/make_gpu_comm.h"
#include "backends/cuda/comm/windows.h"
#include "backends/cuda/device.h"
#include "backends/cuda/elementwise/elementwise.h"
#include "backends/cuda/linear/linear.h"
#include "backends/cuda/moe/moe.h"
#include "backends/cuda/norm/norm.h"
#include "backends/cuda/sampling/sampling.h"
#include "backends/cuda/sequences/sequences.h"
#include "backends/cuda/targets.h"
#include "base/str.h"
#include "ops/capabilities.h"
#include "ops/compose.h"

namespace glint {
namespace cuda {
namespace {

// Whether the tensor cores' kernels compute the product of such activations with `weight`, one or
// a stack.
template <class Weights>
bool is_product(DType x, const Weights& weight) {
  return x == DType::kBF16 && has_product(weight.format, weight.cols, weight.block_cols);
}

// Whether one of them computes gate, up and what joins them.
template <class Weights>
bool is_gate_up(DType x, const Weights& gate, const Weights& up) {
  return is_product(x, gate) && gate.format == up.format && gate.block_rows == up.block_rows &&
         gate.block_cols == up.block_cols;
}

class CudaOps final : public Backend {
 public:
  // `scores`: memory of the device for select_keys.
  CudaOps(std::unique_ptr<CudaDevice> device, Buffer scores, bool use_windows)
      : device_(std::move(device)), scores_(std::move(scores)), use_windows_(use_windows) {}

  Device& device() override { return *device_; }
  Capabilities capabilities() const override {
    Capabilities all = all_capabilities("cuda");
    all.mixed_stacks = false;
    return all;
  }
  std::unique_ptr<Gradients> make_gradients() override { return make_cuda_gradients(*device_); }
  std::unique_ptr<DeviceComm> make_comm(Comm& host) override {
    return make_gpu_comm(host, *device_, use_windows_);
  }

  Status supports(const ModelDims& dims) const override {
    if (dims.n_routed_experts > kMostExperts) {
      return Error{
          ErrorCode::kUnsupported,
          str("the cuda backend routes among at most ", kMostExperts, " experts; the model has ",
              dims.n_routed_experts, "; run it with --backend cpu")};
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
    if (!is_top_keys(args, device_->gpu().arch))
      return run("select_keys", args, launch_select_keys);
    run("select_keys", args, [this](const SelectKeysArgs& args, const Gpu& gpu) {
      launch_top_keys(args, reinterpret_cast<float*>(scores_.data()), gpu);
    });
  }
  void sparse_mla(const SparseMlaArgs& args) override {
    run("sparse_mla", args, launch_sparse_mla);
  }
  void route(const RouteArgs& args) override {
    run("route", args, [](const RouteArgs& args, const Gpu& gpu) { launch_route(args, gpu); });
  }
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

  // All that lies between the products is one launch, and so are both rotations at the end.
  void attention_in(const AttentionInArgs& args, Arena& scratch) override {
    const AttentionDims& d = args.dims;
    const AttentionWeights& w = args.weights;
    const bool with_index = w.indexer && !args.selection_given;
    if (!is_attention_inputs(args, with_index)) return Ops::attention_in(args, scratch);
    const Arena::Scope scope(scratch);
    const Compose f{*this, scratch, args.q.dtype};
    const std::int64_t T = args.q.dim(0);
    const Tensor a = f.add_rms_norm(args.x, args.delta, w.input_layernorm, d.rms_norm_eps);
    const Tensor q_latent = scratch.take_padded(f.dtype, {T, w.q_a_proj.rows});
    const bool with_query = with_index && args.index_q;
    Tensor kv, k;
    device_->beside([&] {
      kv = f.linear(a, w.kv_a_proj_with_mqa);
      if (with_index) k = f.linear(a, w.indexer.wk);
      if (with_query) {
        linear({.x = a, .weight = w.indexer.weights_proj, .out = args.index_weights});
      }
    });
    linear({.x = a, .weight = w.q_a_proj, .out = q_latent});
    device_->join();
    launch("attention_inputs", AttentionInputs{.block = args, .q = q_latent, .kv = kv, .k = k},
           launch_attention_inputs);
    if (with_query) {
      device_->beside(
          [&] { linear({.x = q_latent, .weight = w.indexer.wq_b, .out = args.index_q.flat()}); });
    }
    linear({.x = q_latent, .weight = w.q_b_proj, .out = args.q.flat()});
    const RopeArgs rope_q = {.x = args.q.last(d.qk_rope_head_dim),
                             .positions = args.batch.positions,
                             .table = args.batch.rope_table};
    if (!with_query) return rope(rope_q);
    device_->join();
    const RopeArgs rope_index = {.x = args.index_q.first(d.qk_rope_head_dim),
                                 .positions = args.batch.positions,
                                 .table = args.batch.rope_table,
                                 .interleaved = d.indexer_rope_interleave};
    launch("rope", RopePair{rope_q, rope_index}, launch_rope_pair);
  }

  void dense_ffn(const DenseFfnArgs& args, Arena& scratch) override {
    const FfnWeights& w = args.weights;
    if (!is_gate_up(args.delta.dtype, w.gate_proj, w.up_proj)) {
      return Ops::dense_ffn(args, scratch);
    }
    const Arena::Scope scope(scratch);
    const Compose f{*this, scratch, args.delta.dtype};
    const Tensor m = f.add_rms_norm(args.x, args.delta, args.norm, args.eps);
    ffn(w, m, scratch.take(m.dtype, {m.dim(0), w.gate_proj.rows}), args.answer());
  }

  // The shared experts, whose answer waits where the whole will be, beside the router.
  void moe(const MoeArgs& args, Arena& scratch) override {
    const FfnWeights& shared = args.weights.shared_experts;
    if (!routes_in_parts(args) || !shared ||
        !is_gate_up(args.delta.dtype, shared.gate_proj, shared.up_proj)) {
      return Ops::moe(args, scratch);
    }
    const Arena::Scope scope(scratch);
    const MoeRouteArgs routed = take_routing(args, scratch);
    const Tensor inner = scratch.take(args.delta.dtype, {args.x.dim(0), shared.gate_proj.rows});
    {
      const Arena::Scope of_router(scratch);
      const Tensor parts = split_for_router(routed, scratch);
      device_->beside([&] { ffn(shared, routed.m, inner, args.answer()); });
      route_parts(routed, parts, scratch);
    }
    const Tensor answers = scratch.take(args.answer().dtype, {routed.rows.dim(0), args.x.dim(1)});
    moe_experts({.weights = args.weights,
                 .x = routed.m,
                 .rows = routed.rows,
                 .offsets = routed.offsets,
                 .out = answers},
                scratch);
    device_->join();
    combine({.y = answers,
             .places = routed.places,
             .weights = routed.weights,
             .shared = args.answer(),
             .out = args.answer()});
  }

  void moe_route(const MoeRouteArgs& args, Arena& scratch) override {
    if (!routes_in_parts(args.moe)) return Ops::moe_route(args, scratch);
    const Arena::Scope scope(scratch);
    route_parts(args, split_for_router(args, scratch), scratch);
  }

  void moe_experts(const MoeExpertsArgs& args, Arena& scratch) override {
    const MoeWeights& w = args.weights;
    if (!is_gate_up(args.x.dtype, w.gate_proj, w.up_proj)) {
      return Ops::moe_experts(args, scratch);
    }
    const Arena::Scope scope(scratch);
    const Tensor inner = scratch.take(args.x.dtype, {args.out.dim(0), w.gate_proj.rows});
    for (const WeightStack* weights : {&w.gate_proj, &w.up_proj}) {
      check(GroupedLinearArgs{.x = args.x,
                              .rows = args.rows,
                              .offsets = args.offsets,
                              .weights = *weights,
                              .out = inner});
    }
    const GroupedGateUpArgs gate_up = {.x = args.x,
                                       .rows = args.rows,
                                       .offsets = args.offsets,
                                       .gate = w.gate_proj,
                                       .up = w.up_proj,
                                       .out = inner};
    launch("grouped gate_up", gate_up, launch_grouped_gate_up);
    grouped_linear({.x = inner, .offsets = args.offsets, .weights = w.down_proj, .out = args.out});
  }

  void moe_combine(const MoeCombineArgs& args, Arena& scratch) override {
    const FfnWeights& w = args.weights.shared_experts;
    if (!w || !is_gate_up(args.m.dtype, w.gate_proj, w.up_proj)) {
      return Ops::moe_combine(args, scratch);
    }
    const Arena::Scope scope(scratch);
    ffn(w, args.m, scratch.take(args.m.dtype, {args.m.dim(0), w.gate_proj.rows}), args.delta);
    combine({.y = args.y,
             .places = args.places,
             .weights = args.expert_weights,
             .shared = args.delta,
             .out = args.delta});
  }

 private:
  // `op` is a literal.
  template <class Args, class Launch>
  void run(const char* op, const Args& args, Launch&& launch_op) {
    check(args);
    launch(op, args, launch_op);
  }
  template <class Args, class Launch>
  void launch(const char* op, const Args& args, Launch&& launch_op) {
    device_->run(op, [&](const Gpu& gpu) { launch_op(args, gpu); });
  }
  // out = down(silu(gate(x)) * up(x)) of weights that are is_gate_up().
  void ffn(const FfnWeights& w, const Tensor& x, const Tensor& inner, const Tensor& out) {
    check(LinearArgs{.x = x, .weight = w.gate_proj, .out = inner});
    check(LinearArgs{.x = x, .weight = w.up_proj, .out = inner});
    const GateUpArgs gate_up = {.x = x, .gate = w.gate_proj, .up = w.up_proj, .out = inner};
    launch("gate_up", gate_up, launch_gate_up);
    linear({.x = inner, .weight = w.down_proj, .out = out});
  }

  // The router's norm goes to the tensor cores in three parts, which they multiply exactly.
  static bool routes_in_parts(const MoeArgs& args) {
    const Weight& gate = args.weights.gate;
    return args.delta && args.delta.dtype == DType::kBF16 && gate.format == WeightFormat::kBF16 &&
           is_product(args.delta.dtype, gate);
  }
  Tensor split_for_router(const MoeRouteArgs& args, Arena& scratch) {
    const MoeArgs& moe = args.moe;
    const Tensor parts = scratch.take_padded(DType::kBF16, {3 * moe.x.dim(0), moe.x.dim(1)});
    const RouterInputArgs input = {.x = moe.x,
                                   .delta = moe.delta,
                                   .weight = moe.norm,
                                   .eps = moe.eps,
                                   .m = args.m,
                                   .parts = parts};
    launch("router_input", input, launch_router_input);
    return parts;
  }
  void route_parts(const MoeRouteArgs& args, const Tensor& parts, Arena& scratch) {
    const Weight& gate = args.moe.weights.gate;
    const Tensor logits = scratch.take(DType::kF32, {parts.dim(0), gate.rows});
    linear({.x = parts, .weight = gate, .out = logits});
    const Tensor ids = take_routed(args, scratch);
    launch("route", routing_of(args, logits, ids),
           [](const RouteArgs& args, const Gpu& gpu) { launch_route(args, gpu, 3); });
    permute({.ids = ids, .rows = args.rows, .offsets = args.offsets, .places = args.places});
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
    return Error{ErrorCode::kResourceExhausted,
                 str(cuda_device->name(), " has no ", cuda::kScoreBytes >> 20,
                     " MiB left for scores of keys; end what else runs on it")};
  }
  return std::unique_ptr<Backend>(
      std::make_unique<cuda::CudaOps>(std::move(cuda_device), std::move(scores), use_windows));
}

int num_cuda_devices() { return cuda::CudaDevice::count(); }

std::int64_t cuda_group_bytes() {
  // NCCL's own, as measured for two H100 (bench/results/cuda-ranks-h100.txt).
  constexpr std::int64_t kOfNccl = std::int64_t{512} << 20;
  return static_cast<std::int64_t>(cuda::kWindowBytes) + kOfNccl;
}

Status find_cuda_device(int device) { return cuda::CudaDevice::find(device); }

std::string cuda_device_note(int device) { return cuda::CudaDevice::note(device); }

bool built_with_cuda() { return true; }

bool built_for_cuda_capability(int capability) {
  return cuda::runs_on(GLINT_CUDA_TARGETS, capability);
}

}  // namespace glint
