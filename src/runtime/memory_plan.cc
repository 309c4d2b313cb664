#include "runtime/memory_plan.h"

#include <map>
#include <numeric>
#include <vector>

#include "base/ceil_div.h"
#include "base/memory.h"
#include "base/str.h"

namespace glint {
namespace {

std::function<WeightFormat(const ModelTensor&)> by_name(
    std::map<std::string, WeightFormat> formats) {
  return [formats = std::move(formats)](const ModelTensor& tensor) {
    const auto found = formats.find(tensor.name);
    return found == formats.end() ? WeightFormat::kBF16 : found->second;
  };
}

// The number of groups that a rank belongs to.
int num_groups(const MeshShape& shape) {
  return (shape.tp > 1) + (shape.cp > 1) + (shape.dp > 1) + (shape.ep > 1) + (shape.pp > 1);
}

// Logits and chosen experts of all ranks, as they come to the first: into its step's memory, and
// from stages into one of their own for each step.
void add_results(const ModelConfig& c, const MeshShape& shape, StepMemory& steps) {
  const StepLimits& limits = steps.limits;
  const std::int64_t rows = std::int64_t{limits.max_step_tokens} * shape.num_sequence_groups();
  const std::int64_t drawn = std::int64_t{limits.max_running} * (1 + limits.max_drafts);
  const std::int64_t logits = limits.all_logits ? rows : std::min(rows, drawn);
  const std::int64_t bytes = round_up(4 * logits * c.vocab_size, 256) +
                             round_up(4 * rows * c.num_moe_layers() * c.num_experts_per_tok, 256);
  if (shape.dp > 1) steps.step += bytes;
  if (shape.pp == 1) return;
  // Results of the steps that are begun at once, and of the last that has ended.
  const bool one_by_one = limits.max_drafts > 0 || limits.all_logits;
  steps.num_results = one_by_one ? 2 : shape.pp + 2;
  steps.result = bytes;
}

}  // namespace

std::int64_t MemoryPlan::weight_bytes() const {
  return std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
}

MemoryPlan plan_memory(StepTrial& trial, const ModelConfig& config, const TrialOptions& options,
                       const StepLimits& limits) {
  MemoryPlan plan;
  ModelWeights& weights = trial.weights();
  visit(weights, [&](const ModelTensor& tensor, Held held) {
    struct Bytes {
      bool is_tied;  // a head that is the embedding
      std::int64_t operator()(Tensor* x) const {
        return static_cast<std::int64_t>(x->bytes().size());
      }
      std::int64_t operator()(Weight* w) const { return is_tied ? 0 : bytes_of(*w); }
      std::int64_t operator()(WeightStack* w) const { return bytes_of(*w); }
      std::int64_t operator()(KvHalves w) const { return bytes_of(*w.w_uk) + bytes_of(*w.w_uv); }
    };
    const std::int64_t bytes = std::visit(Bytes{tensor.role == TensorRole::kEmbedding}, held);
    plan.weights[static_cast<std::size_t>(tensor.role)] += bytes;
    const bool is_dealt = tensor.num_experts && options.shape.ep > 1;
    const bool is_cut = !trial.partition().is_whole(tensor) && options.shape.tp > 1;
    if (options.shape.tp * options.shape.dp > 1 && !is_dealt && !is_cut) plan.replicated += bytes;
  });
  plan.page = page_bytes(config, {.latent = options.numbers.latent,
                                  .index = options.numbers.index,
                                  .with_mtp = !weights.mtp.empty(),
                                  .layers = trial.partition().layers});
  plan.rope = (limits.max_seq_len + kPageSize) * config.qk_rope_head_dim * std::int64_t{4};
  plan.step = trial.memory(limits);
  return plan;
}

std::function<WeightFormat(const ModelTensor&)> formats_of(const ModelConfig& config,
                                                           Release release) {
  return
      [release, &config](const ModelTensor& tensor) { return format_in(release, tensor, config); };
}

std::function<WeightFormat(const ModelTensor&)> formats_of(const ModelConfig& config,
                                                           Checkpoint& checkpoint) {
  const std::vector<ModelTensor> tensors = model_tensors(config);
  std::map<std::string, WeightFormat> formats;
  for (const ModelTensor& tensor : tensors) {
    if (!tensor.is_matrix() || !checkpoint.has_weight(tensor.name_of_copy(0))) continue;
    const Result<WeightFormat> format =
        checkpoint.format(tensor.name_of_copy(0), tensor.rows, tensor.cols);
    if (format.ok()) formats[tensor.name] = format.value();
  }
  return by_name(std::move(formats));
}

TrialOptions trial_options(LoadedModel& model) {
  std::map<std::string, WeightFormat> formats;
  visit_matrices(model.weights(), [&](const ModelTensor& tensor, const Weight& weight) {
    formats.emplace(tensor.name, weight.format);
  });
  const ModelOptions& options = model.options();
  return {.shape = options.shape,
          .stage = model.partition().stage,
          .format = by_name(std::move(formats)),
          .with_mtp = model.has_mtp(),
          .numbers = options.numbers,
          .like = &model.backend()};
}

Result<std::vector<MemoryPlan>> plan_stages(const ModelConfig& config, TrialOptions options,
                                            const StepLimits& limits) {
  std::vector<MemoryPlan> plans;
  StepMemory steps;
  for (int& stage = options.stage = 0; stage < options.shape.pp; ++stage) {
    GLINT_TRY(const std::unique_ptr<StepTrial> trial, StepTrial::make(config, options));
    plans.push_back(plan_memory(*trial, config, options, limits));
    steps = larger(steps, plans.back().step);
  }
  add_results(config, options.shape, steps);
  steps.scratch += num_groups(options.shape) * options.group_bytes;
  for (MemoryPlan& plan : plans) plan.step = steps;
  return plans;
}

Result<MemoryPlan> plan_memory(LoadedModel& model, const StepLimits& limits) {
  const TrialOptions options = trial_options(model);
  if (model.is_leader()) {
    GLINT_TRY(const std::vector<MemoryPlan> plans, plan_stages(model.config(), options, limits));
    return plans.front();
  }
  GLINT_TRY(const std::unique_ptr<StepTrial> trial, StepTrial::make(model.config(), options));
  return plan_memory(*trial, model.config(), options, limits);
}

Status reserve(LoadedModel& model, int num_pages, const StepLimits& limits) {
  GLINT_TRY(const MemoryPlan plan, plan_memory(model, limits));
  GLINT_TRY_STATUS(model.reserve_pages(num_pages, limits.max_seq_len));
  // A device tells by itself; a host lends memory that it lacks.
  const std::int64_t free = available_memory();
  const int ranks = model.options().ranks_here;
  if (model.ops().device().is_host() && plan.working_bytes(ranks) > free) {
    return exhausted(str("activations need ", human_bytes(plan.working_bytes()),
                         ranks > 1 ? str(" on each of ", ranks, " ranks") : "", ", and ",
                         human_bytes(free),
                         " are free; smaller steps and shorter sequences need less"));
  }
  return model.reserve_steps(plan.step);
}

}  // namespace glint
