#include "plan/deployment.h"

#include <algorithm>
#include <cmath>

#include "base/ceil_div.h"
#include "base/str.h"

namespace glint {
namespace {

TrialOptions trial_options(const DeploymentOptions& o) {
  return {.shape = o.layout,
          .format = o.formats,
          .with_mtp = o.max_drafts > 0,
          .numbers = o.numbers,
          .like = o.program.like,
          .group_bytes = o.program.group_bytes};
}

// For passes whose time is told.
TrialOptions floor_options(const DeploymentOptions& o, int stage) {
  TrialOptions options = trial_options(o);
  options.shape.cp = 1;  // what replicas of a sequence exchange is not counted
  options.stage = stage;
  return options;
}

// The step limits of a server that runs `d`.
StepLimits limits_of(const ModelConfig& config, const Deployment& d) {
  const DeploymentOptions& o = d.options;
  const int running = d.all_running();
  GraphSizes graphs;
  if (StepGraphs::can_record(o.layout) && !o.device.is_host()) {
    graphs = sizes_of({}, running, o.step_tokens);
  }
  return {.max_step_tokens = o.step_tokens,
          .max_running = running,
          .max_drafts = o.max_drafts,
          .max_logprobs = o.max_logprobs,
          .max_seq_len = d.max_model_len,
          .num_graphs = count_graphs(graphs, config.index_topk, d.max_model_len, o.max_drafts)};
}

// Adds up the ranks of every stage.
Status add_memory(const ModelConfig& config, Deployment& d) {
  const DeploymentOptions& o = d.options;
  const StepLimits limits = o.program.limits ? *o.program.limits : limits_of(config, d);
  GLINT_TRY(const std::vector<MemoryPlan> stages, plan_stages(config, trial_options(o), limits));
  const int ranks = o.layout.tp * o.layout.dp;
  std::int64_t largest_page = 0;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const MemoryPlan& one = stages[stage];
    // Routed experts that are dealt out whole: `one` has as many as any, and others may have fewer.
    const std::int64_t dealt =
        o.layout.ep > 1 ? one.weights[static_cast<std::size_t>(TensorRole::kRoutedExpert)] : 0;
    d.all_weights += (one.weight_bytes() - dealt) * ranks;
    if (dealt > 0) {
      GLINT_TRY(const ModelPartition partition,
                partition_of(config, o.layout, static_cast<int>(stage)));
      d.all_weights += dealt / partition.experts.count * partition.num_expert_slots;
    }
    d.all_pages += one.page;
    largest_page = std::max(largest_page, one.page);
    if (stage == 0 || one.weight_bytes() > d.rank.weight_bytes()) d.rank = one;
  }
  d.rank.page = o.program.sharing ? d.all_pages / o.layout.pp : largest_page;
  return Ok{};
}

using Stages = std::vector<std::unique_ptr<StepTrial>>;

Floor floor_of(Stages& stages, const ModelConfig& config, const DeploymentOptions& o,
               const PassShape& shape) {
  Floor floor;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    stages[i]->run(shape);
    add_stage(*stages[i], config, floor_options(o, static_cast<int>(i)), shape, o.device, floor);
  }
  return floor;
}

void find_speeds(Stages& stages, const ModelConfig& config, Deployment& d) {
  const DeploymentOptions& o = d.options;
  const int dp = o.layout.dp, cp = o.layout.cp, groups = o.layout.num_sequence_groups();
  const std::int64_t length = std::min(o.input_len + o.output_len, d.max_model_len);
  const std::int64_t mean = std::min(o.input_len + o.output_len / 2, d.max_model_len);
  // At once, of one replica. A step has a token of each of its sequences at least, and they are
  // dealt out over as many steps as there are stages.
  const std::int64_t fitting = d.cache_tokens / length;  // of a group that shares them
  const std::int64_t at_once =
      std::min<std::int64_t>(ceil_div(fitting, std::int64_t{cp}), d.max_running);
  const auto most = static_cast<int>(std::min<std::int64_t>(
      at_once > 0 ? std::max<std::int64_t>(1, at_once / o.layout.pp) : 0, o.step_tokens));
  // A step of so many tokens of prompts, each of which ends at `length`.
  const auto prefill_point = [&](std::int64_t tokens, std::int64_t prompts, std::int64_t length) {
    const int rows = static_cast<int>(std::max<std::int64_t>(1, tokens / cp));
    const int sequences = static_cast<int>(std::min<std::int64_t>(prompts, rows));
    PrefillPoint point = {.tokens = static_cast<int>(tokens)};
    point.floor = floor_of(stages, config, o,
                           {.tokens = rows,
                            .sequences = sequences,
                            .length = std::min(length, d.max_model_len),
                            .logit_rows = sequences});
    point.tokens_per_s = static_cast<double>(tokens * dp / cp) / point.floor.slowest;
    return point;
  };
  for (const std::int64_t tokens : {std::int64_t{512}, o.input_len, std::int64_t{o.step_tokens}}) {
    if (tokens > o.step_tokens) continue;
    if (!d.prefill.empty() && d.prefill.back().tokens >= tokens) continue;
    const std::int64_t prompts = std::max<std::int64_t>(1, tokens / o.input_len);
    d.prefill.push_back(prefill_point(tokens, prompts, tokens / prompts));
  }
  // A prompt of several steps takes as long as if each ended at the mean of their ends.
  const std::int64_t step = o.step_tokens, longest = std::min(o.input_len, d.max_model_len);
  const PrefillPoint prompt =
      longest > step ? prefill_point(step, 1, (longest + step) / 2) : d.prefill.back();
  std::vector<int> batches;
  for (int b = 1; b < most; b *= b == 1 ? 8 : 2) batches.push_back(b);
  if (most > 0) batches.push_back(most);
  for (const int b : batches) {
    DecodePoint point;
    point.floor =
        floor_of(stages, config, o, {.tokens = b, .sequences = b, .length = mean, .logit_rows = b});
    // Fewer sequences than stages leave some of these idle.
    const std::int64_t steps = std::min<std::int64_t>(o.layout.pp, at_once / b);
    const std::int64_t all = fitting * groups;
    const std::int64_t asked = o.concurrency ? std::min<std::int64_t>(all, o.concurrency) : all;
    point.batch = static_cast<int>(std::min<std::int64_t>(b * dp, asked / steps));
    const double seconds =
        std::max(point.floor.slowest, point.floor.seconds / static_cast<double>(steps));
    point.tokens_per_s = point.batch / seconds;
    // Groups of replicas without a sequence have no prompt.
    const double busy = std::min(1.0, static_cast<double>(point.batch * steps) / groups);
    const double prompts = point.batch * static_cast<double>(o.input_len) /
                           (busy * prompt.tokens_per_s) /
                           static_cast<double>(o.output_len);  // of a step's share
    point.sustained = point.batch / (seconds + prompts);
    d.decode.push_back(point);
  }
}

std::string limit_of(const Deployment& d, std::int64_t budget) {
  const auto size = [](std::int64_t bytes) { return human_bytes(bytes); };
  const DeploymentOptions& o = d.options;
  const std::int64_t weights = d.rank.weight_bytes();
  if (budget < 0) {
    return str("activations take ", size(d.rank.working_bytes()), " of each device, and ",
               size(budget + d.rank.working_bytes()),
               " may be used; set --max-num-batched-tokens lower");
  }
  if (weights > budget) {
    return str("weights take ", size(weights), " of each device, and ", size(budget),
               " may be used");
  }
  if (d.used() > o.device.memory) {
    return str("weights take ", size(weights), ", activations ", size(d.rank.working_bytes()),
               " and the cache ", size(d.cache), ", and each device has ", size(o.device.memory));
  }
  if (d.cache_tokens < kPageSize && o.cache_bytes) {
    return str("--kv-cache-memory is ", size(*o.cache_bytes), ", and a page of ", kPageSize,
               " tokens takes ", size(d.rank.page));
  }
  if (d.cache_tokens < kPageSize) {
    return str("weights take ", size(weights), " and activations ", size(d.rank.working_bytes()),
               ", which leaves no room for a cache in ", size(budget));
  }
  if (d.cache_tokens < d.max_model_len) {
    return str("the cache holds ", with_commas(d.cache_tokens),
               " tokens, fewer than the context of ", with_commas(d.max_model_len));
  }
  const std::int64_t sequences = d.cache_tokens / d.max_model_len * o.layout.num_sequence_groups();
  if (o.concurrency > 0 && sequences < o.concurrency) {
    return str("the cache holds ", sequences, " of ", o.concurrency,
               " sequences at the full context of ", with_commas(d.max_model_len),
               "; shorter ones wait less");
  }
  return "the cache";
}

}  // namespace

std::int64_t Deployment::all_cache() const {
  const auto bytes = static_cast<double>(std::max<std::int64_t>(cache, 0));
  const int ranks = options.layout.tp * options.layout.dp;
  return ranks * static_cast<std::int64_t>(bytes * static_cast<double>(all_pages) /
                                           static_cast<double>(rank.page));
}

std::int64_t Deployment::used() const {
  const int sharing = options.program.sharing;
  const std::int64_t weights = sharing ? all_weights / options.count : rank.weight_bytes();
  const std::int64_t working =
      sharing ? rank.working_bytes(sharing) / sharing : rank.working_bytes();
  return weights + working + std::max<std::int64_t>(cache, 0);
}

std::string settings_of_dp(const ModelConfig& config, MeshShape layout, int count) {
  layout.dp = count / (layout.tp * layout.pp);
  std::string settings = str("--dp to ", layout.dp);
  const int stage = layout.tp * layout.dp;
  if (layout.ep != 1 && layout.ep != stage) {
    layout.ep = stage;
    settings += str(" and --ep to ", stage);
  }
  const bool fits = layout.num_ranks() == count && plan_partition(config, layout, 0).ok();
  return fits ? settings : "";
}

Result<Deployment> plan_deployment(const ModelConfig& config, const DeploymentOptions& options) {
  Deployment d = {.options = options};
  const DeploymentOptions& o = d.options;
  const MeshShape& layout = o.layout;
  if (layout.num_ranks() != o.count) {
    std::string settings = settings_of_dp(config, layout, o.count);
    if (settings.empty() && plan_partition(config, layout, 0).ok())
      settings = str("--count to ", layout.num_ranks());
    return invalid(str(describe(layout), " is ", counted(layout.num_ranks(), "rank"), " for ",
                       counted(o.count, "device"), " (--count); tp x dp x pp must be their number",
                       settings.empty() ? "" : "; set ", settings));
  }
  GLINT_TRY_STATUS(check_shape(layout));
  d.max_model_len = o.max_model_len ? o.max_model_len : config.max_position_embeddings;
  if (d.max_model_len > config.max_position_embeddings) {
    return invalid(str("--max-model-len is ", d.max_model_len, ", but the model has ",
                       config.max_position_embeddings, " positions; give at most that"));
  }
  const int wanted = o.concurrency ? ceil_div(o.concurrency, layout.dp) : 256;
  d.max_running = std::clamp(wanted, 1, o.step_tokens);
  GLINT_TRY_STATUS(add_memory(config, d));
  const auto share =
      static_cast<std::int64_t>(static_cast<double>(o.device.memory) * o.memory_share);
  const std::int64_t budget = o.share_is_static
                                  ? std::min(share, o.device.memory - d.rank.working_bytes())
                                  : share - d.rank.working_bytes();
  d.cache = o.cache_bytes ? *o.cache_bytes : budget - d.rank.weight_bytes();
  d.cache_tokens = d.cache <= 0 ? 0 : d.cache / d.rank.page * kPageSize;
  d.bytes_per_token = static_cast<double>(d.rank.page) / kPageSize;
  d.fits = d.used() <= o.device.memory &&
           d.cache_tokens >= (o.max_model_len ? d.max_model_len : kPageSize);
  d.limit = limit_of(d, o.cache_bytes ? o.device.memory : budget);
  for (const std::int64_t context : {std::int64_t{2560}, std::int64_t{8192}, std::int64_t{32768},
                                     std::int64_t{131072}, d.max_model_len}) {
    if (context > d.max_model_len ||
        (!d.contexts.empty() && d.contexts.back().context >= context)) {
      continue;
    }
    const std::int64_t pages = pages_of(context);
    d.contexts.push_back(
        {context, d.cache_tokens / kPageSize / pages * o.layout.num_sequence_groups()});
  }
  if (!d.fits || o.device.bandwidth <= 0) return d;
  Stages stages;
  for (int stage = 0; stage < layout.pp; ++stage) {
    GLINT_TRY(stages.emplace_back(), StepTrial::make(config, floor_options(o, stage)));
  }
  find_speeds(stages, config, d);
  return d;
}

}  // namespace glint
