// A plan of RL training: how a model is divided among GPUs, the memory of one, what goes over its
// links in a round, and the least time that a round takes. Counted from the model's own table of
// tensors, before there is a weight.
#pragma once

#include <string>
#include <vector>

#include "plan/deployment.h"

namespace glint {

// Sizes of groups, as Megatron has them.
struct TrainLayout {
  int gpus = 1;
  int tp = 1, pp = 1, cp = 1, ep = 1, etp = 1;
  int last_stage_layers = 0;  // 0: as many as the others

  int of_model() const { return tp * pp * cp; }  // GPUs that hold one copy, but for experts
  int dp() const { return gpus / of_model(); }
  int expert_dp() const { return gpus / (pp * ep * etp); }
  // The layout of glint's ranks, where each rank that shares a sequence is a replica.
  MeshShape shape() const {
    return {.tp = tp,
            .cp = cp,
            .ep = ep,
            .pp = pp,
            .last_stage_layers = last_stage_layers,
            .dp = gpus / (tp * pp)};
  }
};

// "TP 4  PP 4  CP 2  EP 32"
std::string describe(const TrainLayout& layout);

struct TrainPlanOptions {
  std::string model = {};  // as the user named it
  DeviceModel device = {};
  int gpus_per_node = 8;
  TrainLayout layout = {};
  int tokens_per_gpu = 16384;  // of a micro-batch
  int prompts = 8, samples = 8;
  std::int64_t response_len = 32768;
  bool offload_optimizer = false;  // asked for; the plan turns it on where memory needs it
  bool fp8_rollout = false;
  int drafts = 0;              // of the engine's MTP layer, a step
  bool drafts_learn = false;   // that layer, beside the model
  bool has_reference = false;  // a second model, which the loss's KL is to
  int engine_gpus = 1;         // of one engine, each a replica with all of attention
  // The engine is glint's own: on all GPUs that train, divided as they are. The plan turns it off
  // where glint does not run the layout.
  bool on_trainer = false;
  std::int64_t update_buffer = 0;  // bytes of weights on their way to the engine
  double engine_share = 0.70;      // of a GPU's memory, for the engine's weights and cache
};

// Bytes of one GPU.
struct TrainMemory {
  std::int64_t weights = 0, gradients = 0, optimizer = 0;
  std::int64_t reference = 0;  // a second model and its forward passes
  std::int64_t saved = 0;      // inputs of half layers, from which they are computed again
  std::int64_t layer = 0;      // half of one, computed again, with its gradients
  std::int64_t buffers = 0;    // of log-probabilities and of weights on their way to the engine

  std::int64_t total() const {
    return weights + gradients + optimizer + reference + saved + layer + buffers;
  }
};

// Bytes that a GPU sends in a round.
struct TrainTraffic {
  double tp = 0, ep = 0, cp = 0, pp = 0, dp = 0, update = 0;

  double total() const { return tp + ep + cp + pp + dp + update; }
};

struct TrainPlan {
  TrainPlanOptions options = {};
  std::vector<int> stage_layers = {};
  int stage = 0;  // that needs most memory
  TrainMemory gpu = {};
  std::int64_t budget = 0;        // what training may take of a GPU
  bool offloads = false;          // the optimiser to the host
  std::int64_t host_of_node = 0;  // bytes that a node's GPUs keep in its memory
  Deployment engine = {};
  int engines = 0;
  std::int64_t mean_answer = 0;  // answer length in tokens, assumed for times and traffic
  int micro_batches = 0;         // of a pipeline
  TrainTraffic traffic = {};
  // Seconds at least; 0 where the device's rates are not known.
  double rollout_s = 0, longest_s = 0, compute_s = 0, traffic_s = 0, update_s = 0;
  std::string misfit = {};  // why it cannot run, with the numbers; empty: it fits

  double round_s() const { return rollout_s + std::max(compute_s, traffic_s) + update_s; }
};

// Fails if the model cannot be divided so. A plan that does not fit says why in `misfit`.
Result<TrainPlan> plan_training(const ModelConfig& config, const TrainPlanOptions& options);

std::string to_text(const TrainPlan& plan);
Json to_json(const TrainPlan& plan);

}  // namespace glint
