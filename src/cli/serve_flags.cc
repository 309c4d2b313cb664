#include "cli/serve_flags.h"

#include <algorithm>

#include "base/str.h"

namespace glint {
namespace {

using Takes = FlagRule::Takes;
using Does = FlagRule::Does;
using Converted = FlagRule::Converted;

bool one_of(std::string_view value, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Result<Converted> dtype(const std::string& value) {
  if (value == "auto") return Converted{};
  if (one_of(value, {"bf16", "bfloat16"})) return Converted{"bf16"};
  if (one_of(value, {"f32", "float32", "float"})) return Converted{"f32"};
  return invalid(str("dtype ", quoted(value), " is not computed in here; use bfloat16 or float32"));
}

Result<Converted> kv_dtype(const std::string& value) {
  if (value == "auto") return Converted{};
  if (one_of(value, {"bf16", "bfloat16"})) return Converted{"bf16"};
  if (one_of(value, {"fp8", "fp8_e4m3", "fp8_ds_mla"})) return Converted{"fp8"};
  if (one_of(value, {"f32", "float32"})) return Converted{"f32"};
  return invalid(str("a KV cache in ", quoted(value), " is not available; use bf16, fp8 or auto"));
}

Result<Converted> load_format(const std::string& value) {
  if (value.starts_with("dummy")) return Converted{value};
  if (one_of(value, {"auto", "safetensors"})) return Converted{"auto"};
  if (one_of(value, {"fastsafetensors", "runai_streamer", "instanttensor", "prefetch"}))
    return Converted{"auto", "safetensors files are mapped"};
  return invalid(str("load format ", quoted(value),
                     " is not available; checkpoints are safetensors (auto), or dummy"));
}

Result<Converted> switch_only_on(const std::string& value) {
  if (value == "-1") return Converted{{}, "prompts are always cut into steps"};
  return Converted{value};
}

Result<Converted> page_size(const std::string& value) {
  if (value == "64") return Converted{};
  return Converted{{}, "pages hold 64 tokens, as the sparse attention of this model needs"};
}

Result<Converted> not_auto(const std::string& value) {
  if (one_of(value, {"auto", "none", "None", "null"})) return Converted{};
  return Converted{value};
}

Result<Converted> graph_mode(const std::string& value) {
  if (lower(value) == "none") return Converted{"true"};
  return Converted{{}, "decode steps are CUDA graphs, whole, and others are not"};
}

Result<Converted> log_level(const std::string& value) {
  if (one_of(value, {"critical", "internal_error"})) return Converted{"error"};
  if (one_of(value, {"verbose", "trace"})) return Converted{"debug"};
  return Converted{value};
}

// TensorRT-LLM's own values; the rest are glint's.
Result<Converted> backend(const std::string& value) {
  if (one_of(value, {"pytorch", "tensorrt", "trt", "autodeploy", "_autodeploy"}))
    return Converted{{}, "glint is the backend"};
  return Converted{value};
}

Result<Converted> no_template(const std::string& value) {
  if (one_of(value, {"auto", "string", "openai"})) return Converted{};
  return invalid(
      str("chat template content format ", quoted(value), " is none of auto, string, openai"));
}

Result<Converted> no_adapters(const std::string& value) {
  return invalid(str("there are no adapters, so nothing would be served as ", quoted(value),
                     "; merge it into the checkpoint, or leave the flag out"));
}

constexpr char kShards[] = "layouts are --tp, --dp, --cp, --ep and --pp";
constexpr char kKernels[] = "kernels are chosen by the machine and the format";
constexpr char kGraphs[] = "decode steps are CUDA graphs, whole, and others are not";
constexpr char kPython[] = "nothing of a checkpoint is executed, and there is no Python";
constexpr char kOne[] = "there is one process";
constexpr char kAlways[] = "always so";
constexpr char kCollectives[] = "collectives are glint's own";
constexpr char kBalance[] = "experts are packed greedily, by all rows since the last look";
constexpr char kNoAdapter[] = "there are no adapters";
constexpr char kNoOffload[] = "weights are mapped; the system pages them";

constexpr unsigned V = kVllmBit, S = kSglangBit, T = kTrtllmBit;

// clang-format off: a row reads as a row.
const FlagRule kRules[] = {
    // Files
    {"config extra-llm-api-options f", kAllBits, Takes::kValue, Does::kFile, ""},
    // The model
    {"model model-path model-name", kAllBits, Takes::kValue, Does::kSet, "MODEL"},
    {"dtype", kAllBits, Takes::kValue, Does::kSet, "dtype", dtype},
    {"kv-dtype kv-cache-dtype kv-cache-config.dtype cache-config.cache-dtype", kAllBits,
     Takes::kValue, Does::kSet, "kv-dtype", kv_dtype},
    {"load-format", kAllBits, Takes::kValue, Does::kSet, "load-format", load_format},
    {"quantization -q", V | S, Takes::kValue, Does::kSet, "quantization", not_auto},
    {"trust-remote-code", kAllBits, Takes::kNothing, Does::kIgnore, kPython},
    {R"(tokenizer-mode config-format tokenizer-backend model-impl runner convert task
        custom-tokenizer checkpoint-format)",
     kAllBits, Takes::kValue, Does::kIgnore, "the checkpoint says what it is"},
    {R"(skip-tokenizer-init use-fast-tokenizer is-embedding enable-multimodal language-only)",
     kAllBits, Takes::kNothing, Does::kIgnore, "the checkpoint says what it is"},
    {R"(model-loader-extra-config.* hf-overrides.* limit-mm-per-prompt.* mm-processor-kwargs.*
        json-model-override-args.* additional-config.* override-neuron-config.*)",
     kAllBits, Takes::kJson, Does::kIgnore, "the checkpoint is read as it is"},
    {R"(download-dir code-revision tokenizer-revision hf-token hf-config-path hf-revision
        safetensors-load-strategy max-parallel-loading-workers num-prefetch-threads
        checkpoint-engine weight-loader-prefetch-num-threads)",
     kAllBits, Takes::kValue, Does::kIgnore, "checkpoints are directories that are already there"},
    {R"(use-tqdm-on-load disable-fast-image-processor enable-prefetch-weights
        weight-loader-disable-mmap skip-model-check)",
     kAllBits, Takes::kNothing, Does::kIgnore,
     "checkpoints are directories that are already there"},
    // The server
    {"served-model-name", V | S | T, Takes::kValues, Does::kSet, "served-model-name"},
    {"api-key", V, Takes::kValues, Does::kSet, "api-key"},
    {"allowed-origins", V, Takes::kValues, Does::kSet, "allowed-origins"},
    {"allowed-methods allowed-headers", V, Takes::kValues, Does::kIgnore,
     "an allowed origin may use every method and header of the API"},
    {"allow-credentials", V, Takes::kNothing, Does::kIgnore,
     "keys travel in headers, not in cookies"},
    {R"(ssl-ca-certs ssl-cert-reqs ssl-keyfile-password ssl-ciphers root-path middleware uds
        socket-permissions h11-max-incomplete-event-size h11-max-header-count fastapi-root-path
        smg-grpc-port grpc-port)",
     kAllBits, Takes::kValue, Does::kIgnore, "the server is glint's own"},
    {R"(enable-ssl-refresh enable-http2 disable-fastapi-docs disable-uvicorn-access-log headless
        enable-server-load-tracking enable-request-id-headers grpc grpc-mode enable-cache-report
        enable-offline-docs disable-access-log-for-endpoints)",
     kAllBits, Takes::kNothing, Does::kIgnore, "the server is glint's own"},
    {R"(api-server-count -asc num-postprocess-workers tokenizer-worker-num
        detokenizer-worker-num)",
     kAllBits, Takes::kValue, Does::kIgnore, "see --text-threads"},
    {R"(uvicorn-log-level log-config-file max-log-len log-level-http log-requests-level
        log-requests-format log-requests-target crash-dump-folder decode-log-interval
        uvicorn-access-log-exclude-prefixes)",
     kAllBits, Takes::kValue, Does::kIgnore, "see --log-level and --log-format"},
    {"log-level", S | T, Takes::kValue, Does::kSet, "log-level", log_level},
    {"disable-log-requests no-enable-log-requests", V, Takes::kNothing, Does::kClear,
     "log-requests"},
    {"disable-log-stats", V, Takes::kNothing, Does::kClear, "log-stats"},
    {R"(enable-metrics return-perf-metrics print-iter-log enable-iter-perf-stats
        enable-iter-req-stats show-time-cost enable-metrics-for-all-schedulers
        enable-log-outputs enable-log-deltas aggregate-engine-logging kv-cache-metrics
        enable-mfu-metrics disable-log-requests-level)",
     kAllBits, Takes::kNothing, Does::kIgnore, "/metrics is always there"},
    {R"(bucket-time-to-first-token bucket-inter-token-latency bucket-e2e-request-latency
        tokenizer-metrics-custom-labels-header tokenizer-metrics-allowed-custom-labels
        generation-tokens-buckets prompt-tokens-buckets)",
     S, Takes::kValues, Does::kIgnore, "buckets are fixed"},
    {"enable-trace", S, Takes::kNothing, Does::kIgnore, "give --otlp-traces-endpoint"},
    {"collect-detailed-traces trace-level otlp-metrics-endpoint", kAllBits, Takes::kValue,
     Does::kIgnore, "spans hold all that is known"},
    {"timeout-keep-alive keep-alive-timeout", kAllBits, Takes::kValue, Does::kIgnore,
     "idle connections are kept for 75 s"},
    // The engine
    {"chunked-prefill-size", S, Takes::kValue, Does::kSet, "max-num-batched-tokens",
     switch_only_on},
    {R"(max-prefill-tokens max-num-partial-prefills max-long-partial-prefills
        long-prefill-token-threshold prefill-max-requests num-scheduler-steps new-token-ratio
        schedule-conservativeness num-continuous-decode-steps prefill-delayer-max-delay-passes
        max-num-encoder-input-tokens max-input-len max-beam-width scheduler-recv-interval
        soft-watchdog-timeout dist-timeout)",
     kAllBits, Takes::kValue, Does::kIgnore,
     "steps are cut by --max-num-batched-tokens and --step-slowdown"},
    {R"(enable-mixed-chunk enable-dynamic-chunking async-scheduling disable-overlap-schedule
        disable-overlap-scheduler scheduler-reserve-full-isl disable-chunked-mm-input
        enable-prefill-delayer skip-server-warmup disable-hybrid-kv-cache-manager
        disable-sliding-window disable-cascade-attn enable-dbo enable-two-batch-overlap
        enable-single-batch-overlap fail-fast-on-attention-window-too-large sleep-on-idle)",
     kAllBits, Takes::kNothing, Does::kIgnore,
     "there is one kind of step, planned while the last one runs"},
    {"chunked-prefill enable-chunked-prefill", kAllBits, Takes::kNothing, Does::kIgnore,
     "long prompts are always cut into steps, so that short answers need not wait"},
    {"deterministic enable-deterministic-inference", kAllBits, Takes::kNothing, Does::kIgnore,
     "every kernel is deterministic"},
    {"schedule-policy scheduling-policy scheduler-config.waiting-queue-policy", kAllBits,
     Takes::kValue, Does::kIgnore, "first come, first served, lower or higher priorities first"},
    {"enable-priority-scheduling", S, Takes::kNothing, Does::kIgnore, kAlways},
    {"schedule-low-priority-values-first", S, Takes::kNothing, Does::kSet, "priority-order=lower"},
    {"priority-scheduling-preemption-threshold default-priority-value", S, Takes::kValue,
     Does::kIgnore, "a higher priority always runs first"},
    {"scheduler-config.capacity-scheduler-policy", T, Takes::kValue, Does::kIgnore,
     "requests are admitted while pages last, and preempted when they run out"},
    {"scheduler-config.*", T, Takes::kJson, Does::kIgnore, "the scheduler is glint's own"},
    {"disable-radix-cache", S, Takes::kNothing, Does::kClear, "prefix-caching"},
    {"kv-cache-config.enable-block-reuse", T, Takes::kNothing, Does::kSet, "prefix-caching"},
    {"kv-cache-config.enable-partial-reuse kv-cache-config.copy-on-partial-reuse", T,
     Takes::kNothing, Does::kIgnore, "whole pages are shared"},
    {"kv-cache-config.free-gpu-memory-fraction", T, Takes::kValue, Does::kSet,
     "free-gpu-memory-fraction"},
    {"kv-cache-free-gpu-memory-fraction", T, Takes::kValue, Does::kSet, "free-gpu-memory-fraction"},
    {"kv-cache-free-gpu-mem-fraction", T, Takes::kValue, Does::kSet, "free-gpu-memory-fraction"},
    {"kv-cache-config.max-tokens", T, Takes::kValue, Does::kSet, "kv-cache-tokens", not_auto},
    {"kv-cache-config.tokens-per-block tokens-per-block block-size page-size", kAllBits,
     Takes::kValue, Does::kIgnore, "", page_size},
    {"kv-cache-config.*", T, Takes::kJson, Does::kIgnore, "the cache is glint's own"},
    {R"(prefix-caching-hash-algo radix-eviction-policy num-gpu-blocks-override swap-space
        prefix-match-threshold num-lookahead-slots kv-events-config preemption-mode
        mamba-cache-dtype mamba-ssm-dtype mamba-block-size)",
     kAllBits, Takes::kValue, Does::kIgnore, "the cache is glint's own"},
    {R"(calculate-kv-scales kv-sharing-fast-prefill enable-hierarchical-cache enable-lmcache
        enable-hisparse disable-chunked-prefix-cache disable-shared-experts-fusion
        enable-memory-saver enable-sleep-mode enable-session-cache enable-streaming-session)",
     kAllBits, Takes::kNothing, Does::kIgnore, "the cache is glint's own"},
    {R"(hicache-ratio hicache-size hicache-write-policy hicache-io-backend hicache-mem-layout
        hicache-storage-backend hicache-storage-prefetch-policy kv-offloading-size
        kv-offloading-backend kv-transfer-config.* hicache-storage-backend-extra-config.*
        cache-transceiver-config.* ec-transfer-config.*)",
     kAllBits, Takes::kValue, Does::kIgnore, "the cache is in memory"},
    {"enforce-eager disable-cuda-graph", kAllBits, Takes::kNothing, Does::kGraphs, "eager"},
    {"use-cuda-graph", kAllBits, Takes::kNothing, Does::kGraphs, "no eager"},
    {R"(compilation-config.cudagraph-mode -cc.cudagraph-mode -O.cudagraph-mode)", kAllBits,
     Takes::kValue, Does::kGraphs, "eager", graph_mode},
    {R"(enable-cuda-graph-padding cuda-graph-padding-enabled cuda-graph-config.enable-padding)",
     kAllBits, Takes::kNothing, Does::kGraphs, "pads"},
    {"disable-cuda-graph-padding", kAllBits, Takes::kNothing, Does::kGraphs, "no pads"},
    {R"(cuda-graph-bs cuda-graph-batch-sizes cuda-graph-config.batch-sizes
        cudagraph-capture-sizes compilation-config.cudagraph-capture-sizes
        -cc.cudagraph-capture-sizes -O.cudagraph-capture-sizes)",
     kAllBits, Takes::kValues, Does::kGraphs, "rows"},
    {R"(cuda-graph-max-bs cuda-graph-sizes cuda-graph-config.max-batch-size
        max-cudagraph-capture-size compilation-config.max-cudagraph-capture-size
        -cc.max-cudagraph-capture-size -O.max-cudagraph-capture-size)",
     kAllBits, Takes::kValue, Does::kGraphs, "most"},
    {R"(enable-cudagraph-gc enable-profile-cuda-graph enable-torch-compile
        enable-piecewise-cuda-graph disable-piecewise-cuda-graph cudagraph-copy-inputs)",
     kAllBits, Takes::kNothing, Does::kIgnore, kGraphs},
    {R"(max-seq-len-to-capture torch-compile-max-bs piecewise-cuda-graph-max-tokens
        -O optimization-level cuda-graph-gc-interval)",
     kAllBits, Takes::kValue, Does::kIgnore, kGraphs},
    {"piecewise-cuda-graph-tokens", kAllBits, Takes::kValues, Does::kIgnore, kGraphs},
    {"compilation-config.* cuda-graph-config.* torch-compile-config.* -cc.* -O.*", kAllBits,
     Takes::kJson, Does::kIgnore, kGraphs},
    {"backend", T, Takes::kValue, Does::kSet, "backend", backend},
    {R"(attention-backend moe-backend moe-runner-backend fp8-gemm-backend
        fp8-gemm-runner-backend fp4-gemm-backend fp4-gemm-runner-backend bf16-gemm-backend
        sampling-backend prefill-attention-backend decode-attention-backend nsa-prefill-backend
        nsa-decode-backend dsa-prefill-backend dsa-decode-backend dsa-topk-backend
        sparse-indexer-topk-backend speculative-attention-mode speculative-moe-runner-backend
        mm-attention-backend flashinfer-mxfp4-moe-precision linear-attn-backend attn-backend
        mamba-backend triton-attention-num-kv-splits quantization-param-path ds-mla-kernel
        sampler-type)",
     kAllBits, Takes::kValue, Does::kIgnore, kKernels},
    {R"(moe-config.backend moe-config.max-num-tokens moe-config.load-balancer
        moe-config.disable-finalize-fusion moe-config.use-low-precision-moe-combine
        attention-dp-config.enable-balance attention-dp-config.timeout-iters
        attention-dp-config.batching-wait-iters)",
     T, Takes::kJson, Does::kIgnore, kKernels},
    {R"(attention-config.* moe-config.* kernel-config.* nvfp4-gemm-config.*
        attention-dp-config.* build-config.* peft-cache-config.*)",
     kAllBits, Takes::kJson, Does::kIgnore, kKernels},
    {R"(enable-flashinfer-autotune disable-flashinfer-autotune enable-nan-detection
        enable-flashinfer-moe triton-attention-reduce-in-fp32 enable-autotuner enable-p2p-check
        disable-flashinfer-cutlass-moe-fp4-allgather enable-fused-moe-sum-all-reduce
        enable-fused-qk-norm-rope keep-mm-feature-on-device flashinfer-mla-disable-ragged
        disable-fp8-gemm enable-min-latency)",
     kAllBits, Takes::kNothing, Does::kIgnore, kKernels},
    {"sparse-attention-config.algorithm", T, Takes::kValue, Does::kExpect, "sparse attention"},
    {"sparse-attention-config.index-n-heads", T, Takes::kValue, Does::kExpect, "index_n_heads",
     not_auto},
    {"sparse-attention-config.index-head-dim", T, Takes::kValue, Does::kExpect, "index_head_dim",
     not_auto},
    {"sparse-attention-config.index-topk", T, Takes::kValue, Does::kExpect, "index_topk", not_auto},
    {"sparse-attention-config.*", T, Takes::kJson, Does::kIgnore,
     "the indexer is what config.json says"},
    {"watchdog-timeout hang-detection-timeout", kAllBits, Takes::kValue, Does::kSet,
     "watchdog-timeout"},
    // Parallelism
    {"tensor-parallel-size -tp tp tp-size", kAllBits, Takes::kValue, Does::kLayout, "tp"},
    {"data-parallel-size -dp dp dp-size", kAllBits, Takes::kValue, Does::kLayout, "dp"},
    {"expert-parallel-size -ep ep ep-size moe-expert-parallel-size", kAllBits, Takes::kValue,
     Does::kLayout, "ep"},
    {"enable-dp-attention enable-attention-dp", S | T, Takes::kNothing, Does::kLayout,
     "attention-dp"},
    {"enable-expert-parallel enable-ep-moe enable-deepep-moe", V | S, Takes::kNothing,
     Does::kLayout, "all-experts"},
    {"pipeline-parallel-size -pp pp pp-size", kAllBits, Takes::kValue, Does::kLayout, "pp"},
    {"prefill-context-parallel-size -pcp cp context-parallel-size cp-size attn-cp-size", kAllBits,
     Takes::kValue, Does::kLayout, "cp"},
    {R"(moe-dense-tp-size dcp-size moe-dp-size
        decode-context-parallel-size -dcp cluster-size moe-tensor-parallel-size
        moe-cluster-parallel-size gpus-per-node gpu-id-step base-gpu-id
        pp-max-micro-batch-size pp-async-batch-depth cp-strategy dcp-kv-cache-interleave-size
        cp-kv-cache-interleave-size)",
     kAllBits, Takes::kValue, Does::kIgnore, kShards},
    {R"(nnodes -n node-rank -r master-addr master-port dist-init-addr nccl-init-addr nccl-port
        data-parallel-size-local -dpl data-parallel-rank -dpn data-parallel-start-rank -dpr
        data-parallel-address -dpa data-parallel-rpc-port -dpp data-parallel-backend -dpb
        distributed-executor-backend distributed-timeout-seconds worker-cls worker-extension-cls
        load-balance-method metadata-server-config-file server-role disaggregation-mode
        disaggregation-transfer-backend disaggregation-bootstrap-port disaggregation-ib-device
        disaggregation-decode-tp disaggregation-prefill-pp num-reserved-decode-tokens device
        orchestrator-type ray-placement-config)",
     kAllBits, Takes::kValue, Does::kIgnore, kOne},
    {R"(disable-custom-all-reduce enable-flashinfer-allreduce-fusion enable-symm-mem
        enable-nccl-nvls enable-mscclpp enable-torch-symm-mem enable-dp-lm-head
        enable-lm-head-tp-in-adp eplb-log-balancedness
        enable-dp-attention-local-control-broadcast enable-prefill-cp
        enable-nsa-prefill-context-parallel enable-expert-distribution-metrics
        ray-workers-use-nsight data-parallel-hybrid-lb -dph data-parallel-external-lb -dpe
        enable-elastic-ep gather-generation-logits disable-nccl-for-dp-synchronization
        enable-ep-weight-filter enable-attn-tp-input-scattered trust-remote-code-ep)",
     kAllBits, Takes::kNothing, Does::kIgnore, kCollectives},
    {"enable-eplb", V | S, Takes::kNothing, Does::kSet, "enable-eplb"},
    {"ep-num-redundant-experts num-redundant-experts eplb-config.num-redundant-experts", V | S,
     Takes::kValue, Does::kSet, "ep-num-redundant-experts"},
    {"eplb-rebalance-num-iterations eplb-step-interval eplb-config.step-interval", V | S,
     Takes::kValue, Does::kSet, "eplb-rebalance-num-iterations"},
    {R"(eplb-algorithm eplb-window-size eplb-rebalance-layers-per-chunk
        eplb-min-rebalancing-utilization-threshold ep-dispatch-algorithm init-expert-location)",
     kAllBits, Takes::kValue, Does::kIgnore, kBalance},
    {"eplb-config.*", kAllBits, Takes::kJson, Does::kIgnore, kBalance},
    {R"(all2all-backend moe-a2a-backend deepep-mode deepep-config
        expert-placement-strategy expert-distribution-recorder-mode
        expert-distribution-recorder-buffer-size allreduce-strategy
        flashinfer-allreduce-fusion-backend mm-encoder-tp-mode dbo-decode-token-threshold
        dbo-prefill-token-threshold tbo-token-distribution-threshold elastic-ep-backend
        mooncake-ib-device numa-node)",
     kAllBits, Takes::kValue, Does::kIgnore, kCollectives},
    {"parallel-config.* pp-partition.*", kAllBits, Takes::kJson, Does::kIgnore, kShards},
    {R"(cpu-offload-gb offload-group-size offload-num-in-group offload-prefetch-step
        offload-mode kt-weight-path kt-method kt-cpuinfer kt-threadpool-count kt-num-gpu-experts
        kt-max-deferred-experts-per-token)",
     kAllBits, Takes::kValue, Does::kIgnore, kNoOffload},
    {"enable-lora enable-lora-bias fully-sharded-loras", kAllBits, Takes::kNothing, Does::kIgnore,
     kNoAdapter},
    {"lora-modules lora-paths", kAllBits, Takes::kValues, Does::kIgnore, kNoAdapter, no_adapters},
    {R"(max-loras max-lora-rank lora-dtype max-cpu-loras
        max-loras-per-batch lora-backend lora-target-modules lora-eviction-policy
        max-loaded-loras default-mm-loras lora-config.*)",
     kAllBits, Takes::kValues, Does::kIgnore, kNoAdapter},
    // Speculation
    {"speculative-config.method spec-method", V, Takes::kValue, Does::kSpec, "method"},
    {"speculative-config.num-speculative-tokens spec-tokens", V, Takes::kValue, Does::kSpec,
     "tokens"},
    {"speculative-config.model", V | T, Takes::kValue, Does::kSpec, "model"},
    {"speculative-config.decoding-type", T, Takes::kValue, Does::kSpec, "method"},
    {"speculative-config.num-nextn-predict-layers speculative-config.max-draft-len", T,
     Takes::kValue, Does::kSpec, "tokens"},
    {"speculative-config.*", V | T, Takes::kJson, Does::kIgnore,
     "drafts come from the MTP layer, verified exactly"},
    {"speculative-algorithm speculative-algo", S, Takes::kValue, Does::kSpec, "method"},
    {"speculative-num-steps", S, Takes::kValue, Does::kSpec, "tokens"},
    {R"(speculative-eagle-topk speculative-num-draft-tokens speculative-accept-threshold-single
        speculative-accept-threshold-acc speculative-token-map
        speculative-draft-model-quantization speculative-draft-attention-backend
        speculative-draft-load-format speculative-draft-model-revision
        speculative-moe-a2a-backend speculative-disable-by-batch-size)",
     S, Takes::kValue, Does::kIgnore,
     "drafts are a chain of the MTP layer's guesses, verified exactly"},
    {"speculative-draft-model-path speculative-draft-model", S, Takes::kValue, Does::kSpec,
     "model"},
    {"enable-spec-v2 enable-multi-layer-eagle speculative-adaptive", S, Takes::kNothing,
     Does::kIgnore, kAlways},
    // Answers
    {R"(enable-auto-tool-choice enable-prompt-tokens-details enable-custom-logit-processor
        exclude-tools-when-tool-choice-none return-tokens-as-token-ids
        enable-tokenizer-info-endpoint enable-force-include-usage enable-return-routed-experts
        enable-return-hidden-states enable-return-indexer-topk enable-chunked-logprobs
        trust-request-chat-template incremental-streaming-output stream-output
        enable-tool-call-in-reasoning gather-context-logits detokenize allow-auto-truncate
        enable-strict-thinking)",
     kAllBits, Takes::kNothing, Does::kIgnore, "requests ask for what they want"},
    {"chat-template-content-format", V, Takes::kValue, Does::kIgnore, "", no_template},
    {R"(response-role tool-parser-plugin reasoning-parser-plugin tool-server
        hf-chat-template-name completion-template logits-processors logits-processor-pattern
        io-processor-plugin structured-outputs-backend chat-template-kwargs-plugin
        disable-any-whitespace preferred-sampling-params sampling-defaults
        mm-encoder-attn-backend max-mm-items video-pruning-rate media-io-kwargs
        allowed-local-media-path allowed-media-domains override-generation-config logprobs-mode)",
     kAllBits, Takes::kValue, Does::kIgnore, "answers are made as the model's format says"},
    {R"(guided-decoding-backend grammar-backend structured-outputs-config.backend
        reasoning-config.* constrained-json-whitespace-pattern)",
     kAllBits, Takes::kValue, Does::kIgnore, "grammars are compiled by xgrammar"},
    {R"(structured-outputs-config.* guided-decoding-config.* profiler-config.*
        observability-config.* pooler-config.* override-pooler-config.*)",
     kAllBits, Takes::kJson, Does::kIgnore, "requests ask for what they want"},
    {R"(constrained-json-disable-any-whitespace guided-decoding-disable-any-whitespace
        guided-decoding-disable-fallback guided-decoding-disable-additional-properties)",
     kAllBits, Takes::kNothing, Does::kIgnore, "requests ask for what they want"},
};
// clang-format on

}  // namespace

std::span<const FlagRule> flag_rules() { return kRules; }

}  // namespace glint
