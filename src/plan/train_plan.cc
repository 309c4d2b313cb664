#include "plan/train_plan.h"

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "base/str.h"
#include "model/model_partition.h"

namespace glint {
namespace {

// Free for contexts, buffers of collectives, what a sleeping engine keeps, and fragments: a rule,
// not a measurement.
constexpr double kFreeShare = 0.15;
constexpr int kLogProbRows = 1024;      // rows whose logits are in memory together
constexpr std::int64_t kPrompt = 2048;  // room for the prompt

std::string gib(std::int64_t bytes) {
  return formatted("%.1f GiB", static_cast<double>(bytes) / (1 << 30));
}

// Elements that one GPU of a stage holds.
struct Held {
  double dense = 0, experts = 0;                  // all
  double trained_dense = 0, trained_experts = 0;  // that gradients reach
};

class Planner {
 public:
  Planner(const ModelConfig& config, TrainPlan& plan)
      : c_(config), plan_(plan), o_(plan.options), l_(plan.options.layout) {}

  Status run() {
    GLINT_TRY_STATUS(check_drafts());
    GLINT_TRY_STATUS(divide());
    find_largest_stage();
    GLINT_TRY_STATUS(plan_engine());
    judge();
    if (o_.device.bandwidth > 0) find_times();
    return Ok{};
  }

 private:
  Status check_drafts() const {
    if (c_.num_nextn_predict_layers > 0 || (o_.drafts == 0 && !o_.drafts_learn)) return Ok{};
    return invalid(str(o_.model, " has no MTP layer; leave --enable-mtp",
                       o_.drafts == 0 ? "-training" : "", " out"));
  }

  Status divide() {
    if (l_.gpus % l_.of_model() != 0 || (l_.gpus / l_.pp) % (l_.ep * l_.etp) != 0) {
      return invalid(str(describe(l_), " does not divide ", l_.gpus,
                         " GPUs; TP x PP x CP and PP x EP x expert TP must"));
    }
    if (c_.num_attention_heads % l_.tp != 0 || c_.n_routed_experts % l_.ep != 0) {
      return invalid(str(describe(l_), " does not divide ", c_.num_attention_heads, " heads and ",
                         c_.n_routed_experts, " experts"));
    }
    const int last = l_.last_stage_layers ? l_.last_stage_layers : c_.num_hidden_layers / l_.pp;
    const int others = c_.num_hidden_layers - last;
    if (last < 1 || others < 0 || (l_.pp == 1 ? others != 0 : others % (l_.pp - 1) != 0) ||
        (l_.pp > 1 && others == 0)) {
      return invalid(str("PP ", l_.pp, " with ", counted(last, "layer"),
                         " in the last stage does not divide ", c_.num_hidden_layers,
                         " layers; give --decoder-last-pipeline-num-layers that does"));
    }
    plan_.stage_layers.assign(static_cast<std::size_t>(l_.pp - 1), others / std::max(1, l_.pp - 1));
    plan_.stage_layers.push_back(last);
    return Ok{};
  }

  int first_layer(int stage) const { return stage * plan_.stage_layers.front(); }
  ModelPartition partition_of(int stage) const {
    const int first = first_layer(stage);
    return {.shape = {.pp = l_.pp},
            .stage = stage,
            .layers = {first, first + plan_.stage_layers[static_cast<std::size_t>(stage)]}};
  }

  Held held(int stage, bool with_mtp) const {
    Held held;
    const ModelPartition partition = partition_of(stage);
    for (const ModelTensor& tensor : model_tensors(c_)) {
      if (!partition.holds(tensor, c_, with_mtp)) continue;
      const auto all = static_cast<double>(tensor.parameters());
      if (tensor.num_experts > 0) {
        held.experts += all / (l_.ep * l_.etp);
        held.trained_experts += tensor.is_trained ? all / (l_.ep * l_.etp) : 0;
      } else {
        const double part = tensor.split == Split::kWhole ? all : all / l_.tp;
        held.dense += part;
        held.trained_dense += tensor.is_trained ? part : 0;
      }
    }
    return held;
  }

  // Tokens of a prompt and its answer at most.
  std::int64_t longest() const {
    return std::min(o_.response_len + kPrompt, c_.max_position_embeddings);
  }
  // Tokens of a GPU in a micro-batch: an answer that is longer is one by itself.
  double batch_rows() const {
    return static_cast<double>(
        std::max<std::int64_t>(o_.tokens_per_gpu, ceil_div(longest(), std::int64_t{l_.cp})));
  }
  // Rows that a rank holds between blocks: sequence parallelism divides them.
  double own_rows() const { return batch_rows() / l_.tp; }

  // Half a layer's temporaries in BF16.
  double layer_bytes() const {
    const double T = batch_rows(), H = static_cast<double>(c_.hidden_size);
    const double heads = static_cast<double>(c_.num_attention_heads) / l_.tp;
    const auto width = static_cast<double>(c_.qk_head_dim() + 2 * c_.kv_lora_rank + c_.v_head_dim);
    const double attention = T * (heads * width + static_cast<double>(c_.q_lora_rank));
    const auto inner = static_cast<double>(c_.moe_intermediate_size);
    const double routed = own_rows() * c_.num_experts_per_tok * (2 * H + 3 * inner);
    return 2 * (std::max(attention, routed) + 4 * own_rows() * H);
  }

  TrainMemory memory_of(int stage) const {
    const Held h = held(stage, o_.drafts_learn);
    // Inputs are f32, attention's answers BF16; the chosen keys are kept as well, and experts'
    // numbers are little beside.
    const double a_token =
        6.0 * static_cast<double>(c_.hidden_size) + 4.0 * static_cast<double>(c_.index_topk);
    const int in_flight = l_.pp - stage;
    const bool is_last = stage + 1 == l_.pp;
    const int layers = plan_.stage_layers[static_cast<std::size_t>(stage)] +
                       (is_last && o_.drafts_learn ? c_.num_nextn_predict_layers : 0);
    const auto vocab = static_cast<double>(c_.vocab_size) / l_.tp;
    TrainMemory m;
    m.weights = static_cast<std::int64_t>(2 * (h.dense + h.experts));
    m.gradients = static_cast<std::int64_t>(4 * (h.trained_dense + h.trained_experts));
    // f32 masters and two moments: dense parts are divided among all that have the same.
    m.optimizer = static_cast<std::int64_t>(
        12 * (h.trained_dense / (l_.dp() * l_.cp) + h.trained_experts / l_.expert_dp()));
    if (o_.has_reference) {
      const Held r = held(stage, false);
      m.reference = static_cast<std::int64_t>(2 * (r.dense + r.experts) + layer_bytes());
    }
    m.saved = static_cast<std::int64_t>(in_flight * layers * own_rows() * a_token);
    // Kept for its backward pass, with gradients in f32.
    m.layer = static_cast<std::int64_t>(3 * layer_bytes());
    m.buffers = o_.update_buffer;
    if (is_last) m.buffers += static_cast<std::int64_t>(2 * 4 * kLogProbRows * vocab);
    return m;
  }

  void find_largest_stage() {
    for (int stage = 0; stage < l_.pp; ++stage) {
      const TrainMemory m = memory_of(stage);
      if (stage > 0 && m.total() <= plan_.gpu.total()) continue;
      plan_.gpu = m;
      plan_.stage = stage;
    }
  }

  Status plan_engine() {
    const MeshShape trainer = l_.shape();
    plan_.options.on_trainer = o_.on_trainer && plan_partition(c_, trainer, 0).ok();
    if (o_.on_trainer) plan_.options.engine_gpus = l_.gpus;
    const int W = o_.engine_gpus;
    if (W < 1 || l_.gpus % W != 0) {
      return invalid(str("an engine of ", W, " GPUs does not divide ", l_.gpus, " GPUs"));
    }
    plan_.engines = l_.gpus / W;
    plan_.mean_answer = std::max<std::int64_t>(1, o_.response_len / 4);
    const int answers = o_.prompts * o_.samples;
    const Release release = o_.fp8_rollout ? Release::kFp8 : Release::kBF16;
    DeploymentOptions d = {.model = o_.model,
                           .format = name_of(release),
                           .formats = formats_of(c_, release),
                           .device = o_.device,
                           .count = W,
                           .layout = {.ep = W, .dp = W},
                           .max_drafts = o_.drafts,
                           .max_model_len = longest(),
                           .concurrency = std::max(1, answers / plan_.engines),
                           .step_tokens = 2048,
                           .input_len = 512,
                           .output_len = plan_.mean_answer,
                           .memory_share = o_.engine_share,
                           .share_is_static = true};
    if (o_.on_trainer) d.layout = trainer;
    // One process holds both at once.
    if (o_.device.is_host()) {
      const auto memory = static_cast<double>(o_.device.memory);
      d.memory_share =
          std::max(0.01, 1 - kFreeShare - static_cast<double>(plan_.gpu.total()) / memory);
    }
    GLINT_TRY(plan_.engine, plan_deployment(c_, d));
    return Ok{};
  }

  bool is_gpu() const { return !o_.device.is_host(); }
  std::string more_machines() const {
    return is_gpu() ? "more nodes take less of each GPU" : "a machine with more memory is needed";
  }

  // How an engine would take less of each GPU: what was asked for already is not named.
  std::string smaller_engine() const {
    std::vector<std::string> remedies;
    if (o_.engine_gpus < l_.gpus) remedies.push_back("a larger --rollout-num-gpus-per-engine");
    if (!o_.fp8_rollout && !o_.on_trainer) remedies.push_back("--fp8-rollout");
    if (remedies.empty()) return more_machines();
    return joined(remedies, " or ") + (is_gpu() ? " takes less of each GPU" : " takes less");
  }

  void judge() {
    plan_.budget =
        static_cast<std::int64_t>(static_cast<double>(o_.device.memory) * (1 - kFreeShare));
    plan_.offloads = is_gpu() && (o_.offload_optimizer || plan_.gpu.total() > plan_.budget);
    if (plan_.offloads) {
      plan_.host_of_node = (plan_.gpu.optimizer + plan_.gpu.weights) * o_.gpus_per_node;
      plan_.gpu.optimizer = 0;
    }
    const std::int64_t needed = plan_.gpu.total();
    if (needed > plan_.budget) {
      plan_.misfit =
          str("training takes ", gib(needed), is_gpu() ? " of each GPU" : "",
              plan_.offloads ? " with the optimiser on the host" : "", ", and ", gib(plan_.budget),
              " may be used of ", gib(o_.device.memory), "; ", more_machines());
    } else if (!plan_.engine.fits) {
      plan_.misfit = str("an engine of ", o_.engine_gpus, is_gpu() ? " GPUs in " : " process in ",
                         plan_.engine.options.format, " does not fit: ", plan_.engine.limit,
                         formatted(" (%.0f %% of ", 100 * plan_.engine.options.memory_share),
                         gib(o_.device.memory), "); ", smaller_engine());
    }
  }

  // Tokens that one GPU's pipeline runs in a round, of its share of contexts.
  double tokens_of_round() const {
    const double all =
        static_cast<double>(o_.prompts) * o_.samples * static_cast<double>(plan_.mean_answer);
    return all / (l_.dp() * l_.cp);
  }

  double flops_of_token() const {
    const auto active = static_cast<double>(count_parameters(c_).active);
    const auto attended = static_cast<double>(c_.latent_dim() + c_.kv_lora_rank) *
                          c_.num_attention_heads * static_cast<double>(c_.index_topk) *
                          c_.num_hidden_layers;
    // Forward, forward again, and twice (attention: two and a half times) that backward.
    return 2 * active * 4 + 2 * attended * 4.5;
  }

  void find_traffic() {
    const double n = tokens_of_round(), H = static_cast<double>(c_.hidden_size);
    const int layers = plan_.stage_layers[static_cast<std::size_t>(plan_.stage)];
    const auto share = [](int ranks) { return static_cast<double>(ranks - 1) / ranks; };
    const Held h = held(plan_.stage, o_.drafts_learn);
    TrainTraffic& t = plan_.traffic;
    // Two gathers and two scatters a layer and pass, two gathers more backward; three passes.
    t.tp = 14 * layers * n * H * 2 * share(l_.tp);
    const int dense = c_.num_hidden_layers - c_.num_moe_layers();
    const int moe = layers - std::clamp(dense - first_layer(plan_.stage), 0, layers);
    t.ep = 6 * moe * n / l_.tp * c_.num_experts_per_tok * H * 2 * share(l_.ep);
    t.cp = 3.0 * layers * n * static_cast<double>(c_.latent_dim() + c_.index_head_dim) * 2 *
           (l_.cp - 1);
    t.pp = l_.pp > 1 ? 2 * n / l_.tp * H * 2 : 0;
    t.dp =
        6 * (h.trained_dense * share(l_.dp() * l_.cp) + h.trained_experts * share(l_.expert_dp()));
    t.update = static_cast<double>(plan_.engine.rank.weight_bytes());
  }

  void find_times() {
    const DeviceModel& d = o_.device;
    find_traffic();
    const auto link = [&](int group) { return group > o_.gpus_per_node ? d.network : d.link; };
    const double n = tokens_of_round();
    const double a_batch =
        std::max<double>(o_.tokens_per_gpu, static_cast<double>(plan_.mean_answer) / l_.cp);
    plan_.micro_batches = static_cast<int>(std::max(1.0, std::ceil(n / a_batch)));
    const double bubble = 1 + static_cast<double>(l_.pp - 1) / plan_.micro_batches;
    plan_.compute_s = n * l_.dp() * l_.cp * flops_of_token() / l_.gpus / d.bf16 * bubble;
    const TrainTraffic& t = plan_.traffic;
    plan_.traffic_s = t.tp / link(l_.tp) + t.ep / link(l_.ep * l_.etp) +
                      t.cp / link(l_.tp * l_.cp) + t.pp / link(l_.gpus) + t.dp / link(l_.gpus);
    plan_.update_s = t.update / link(l_.gpus);
    if (plan_.engine.decode.empty()) return;
    const double step = plan_.engine.decode.back().floor.seconds;
    plan_.rollout_s = step * static_cast<double>(plan_.mean_answer);
    plan_.longest_s = step * static_cast<double>(o_.response_len);
  }

  const ModelConfig& c_;
  TrainPlan& plan_;
  const TrainPlanOptions& o_;
  const TrainLayout& l_;
};

}  // namespace

std::string describe(const TrainLayout& l) {
  return str("TP ", l.tp, "  PP ", l.pp, "  CP ", l.cp, "  EP ", l.ep);
}

Result<TrainPlan> plan_training(const ModelConfig& config, const TrainPlanOptions& options) {
  TrainPlan plan = {.options = options};
  GLINT_TRY_STATUS(Planner(config, plan).run());
  return plan;
}

}  // namespace glint
