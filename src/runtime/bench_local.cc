#include "runtime/bench_local.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/ceil_div.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/seconds.h"
#include "base/str.h"
#include "runtime/generator.h"
#include "runtime/memory_plan.h"
#include "runtime/step_rows.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kChunk = 512;

// Replicas, or groups of them that share sequences.
int num_groups(const LoadedModel& model) { return model.options().shape.num_sequence_groups(); }

// `count` sequences of random tokens, each with pages of its own, dealt out to the groups of
// replicas.
class Sequences {
 public:
  // Fails if memory does not hold what `count` sequences of `length` tokens fill.
  static Result<Sequences> make(LoadedModel& model, int count, int length) {
    const std::int64_t pages = pages_of(length) * ceil_div(count, num_groups(model));
    GLINT_TRY(const MemoryPlan plan, plan_memory(model, {.max_step_tokens = std::max(kChunk, count),
                                                         .max_running = count,
                                                         .max_seq_len = length}));
    const std::int64_t bytes = pages * plan.page + plan.working_bytes();
    // The cache of those before makes room for this one, and their steps' memory is used again.
    const std::int64_t held =
        model.num_pages() * plan.page +
        std::min(static_cast<std::int64_t>(model.arena_bytes()), plan.working_bytes());
    Device& device = model.ops().device();
    const std::int64_t free =
        held + (device.is_host() ? available_memory() : device.memory().available);
    if (bytes > free) {
      return exhausted(str(human_bytes(bytes), " are needed for ", counted(count, "sequence"),
                           " of length ", with_commas(length), ", and ", human_bytes(free),
                           " are free; measure fewer or shorter ones"));
    }
    GLINT_TRY_STATUS(model.reserve_pages(static_cast<int>(pages), length));
    GLINT_TRY_STATUS(model.reserve_steps(plan.step));
    return Sequences(model, count, length);
  }

  // Positions [first, first + count) of sequence s, in steps of a chunk each; logits of the last
  // one only.
  void prefill(std::size_t s, int first, int count) {
    for (int at = first; at < first + count; at += kChunk) {
      const int size = std::min(kChunk, first + count - at);
      const std::vector<TokenId> tokens = random_tokens(size);
      std::vector<StepRows> groups(num_groups_);
      group_of(s, groups).add(at, tokens, pages_[s], at + size == first + count ? 1 : 0);
      step(groups);
    }
  }

  // The first `count` positions of every sequence.
  void fill(int count) {
    prefill(0, 0, count);
    for (std::size_t s = 1; s < pages_.size(); ++s) {
      if (model_.options().shape.num_ranks() > 1) {
        prefill(s, 0, count);
        continue;
      }
      for (int p = 0; p < pages_of(count); ++p) model_.kv().copy_page(pages_[0][p], pages_[s][p]);
    }
  }

  // One token of every sequence at `position`.
  void decode(int position) {
    std::vector<StepRows> groups(num_groups_);
    for (std::size_t s = 0; s < pages_.size(); ++s)
      group_of(s, groups).add(position, random_tokens(1), pages_[s], 1);
    step(groups);
  }

 private:
  Sequences(LoadedModel& model, int count, int length)
      : model_(model), num_groups_(static_cast<std::size_t>(num_groups(model))) {
    const auto pages_of_each = static_cast<int>(pages_of(length));
    for (int s = 0; s < count; ++s) {
      std::vector<PageId> pages(static_cast<std::size_t>(pages_of_each));
      std::iota(pages.begin(), pages.end(), s / num_groups(model) * pages_of_each);
      pages_.push_back(pages);
    }
  }

  StepRows& group_of(std::size_t s, std::vector<StepRows>& groups) const {
    return groups[s % num_groups_];
  }

  void step(std::vector<StepRows>& groups) {
    if (groups.size() == 1) {
      model_.step(groups.front(), step_options());
    } else {
      count_all_tokens(groups);
      model_.step(groups, step_options());
    }
  }

  // A host's logits are read as a server reads them; a device's stay there, as a server's do.
  StepOptions step_options() {
    const bool on_host = model_.ops().device().is_host();
    return {.to_host = on_host, .graphs = !on_host};
  }

  std::vector<TokenId> random_tokens(int count) {
    std::vector<TokenId> tokens;
    const auto vocab = static_cast<std::uint32_t>(model_.config().vocab_size);
    for (int i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random_.below(vocab)));
    return tokens;
  }

  LoadedModel& model_;
  std::size_t num_groups_;
  std::vector<std::vector<PageId>> pages_;
  Random random_{1};
};

// The passes of each step, one for each replica that has rows: chunks of a prompt, in parts for
// --cp, or a decode step halfway.
std::vector<std::vector<PassShape>> steps_of(const BenchResult& r, const MeshShape& mesh) {
  std::vector<std::vector<PassShape>> steps;
  for (int at = 0; r.prefill && at < r.tokens; at += kChunk) {
    const int size = std::min(kChunk, r.tokens - at);
    std::vector<PassShape>& parts = steps.emplace_back();
    for (int part = 0; part < mesh.cp; ++part) {
      const auto first = static_cast<int>(first_row_of(size, part, mesh.cp));
      const auto end = static_cast<int>(first_row_of(size, part + 1, mesh.cp));
      if (first == end) continue;
      parts.push_back({.tokens = end - first,
                       .length = r.depth + at + end,
                       .logit_rows = at + end == r.tokens});
    }
  }
  if (r.prefill) return steps;
  std::vector<PassShape>& replicas = steps.emplace_back();
  for (int replica = 0; replica < std::min(mesh.dp, r.batch); ++replica) {
    const int own = ceil_div(r.batch - replica, mesh.dp);
    replicas.push_back(
        {.tokens = own, .sequences = own, .length = r.depth + r.tokens / 2 + 1, .logit_rows = own});
  }
  return steps;
}

// Traffic and arithmetic of a token of such a pass, on all ranks together. A scan of index keys
// counts for each rank of a replica, though those of a host share long ones.
Status expect_cost(LoadedModel& model, BenchResult& r) {
  TrialOptions options = trial_options(model);
  const MeshShape& mesh = options.shape;
  const ModelConfig& config = model.config();
  const auto add = [&](const OpCost& cost, int ranks) {
    const double share = static_cast<double>(ranks) / (r.prefill ? r.tokens : r.batch);
    r.bytes_per_token += (cost.weight_bytes + cost.cache_bytes) * share;
    r.flops_per_token += cost.flops * share;
  };
  for (int& stage = options.stage = 0; stage < mesh.pp; ++stage) {
    GLINT_TRY(const std::unique_ptr<StepTrial> trial, StepTrial::make(config, options));
    for (std::vector<PassShape>& passes : steps_of(r, mesh)) {
      int tokens = 0;
      for (const PassShape& pass : passes) tokens += pass.tokens;
      const ExpertLoad all =
          expert_load(config.n_routed_experts, config.num_experts_per_tok, tokens, 1);
      for (PassShape& pass : passes) {
        // Ranks that share the experts have a part of all tokens' load each, once in a step, also
        // those without rows.
        if (mesh.ep > 1) pass.load = {.experts = all.experts / mesh.ep, .rows = all.rows / mesh.ep};
        trial->run(pass);
        for (const PlanOps::Call& call : trial->ops().calls()) {
          const bool shared = mesh.ep > 1 && call.op == Op::kGroupedLinear;
          if (!shared || &pass == &passes.front()) add(call.cost, shared ? mesh.ep : mesh.tp);
        }
      }
    }
  }
  return Ok{};
}

// Times `sample` (which runs `tokens` tokens) after a warm-up: on a device two runs, in the second
// of which steps become graphs where it has them.
template <class Sample>
Status measure(LoadedModel& model, BenchResult& result, const BenchOptions& options, int tokens,
               Sample&& sample) {
  GLINT_TRY_STATUS(expect_cost(model, result));
  Device& device = model.ops().device();
  if (!device.is_host()) sample();
  sample();
  for (int i = 0; i < options.repeat; ++i) {
    result.limits.push_back(options.limits());
    device.synchronize();
    const auto start = Clock::now();
    sample();
    device.synchronize();
    result.tokens_per_s.push_back(tokens / seconds_since(start));
  }
  return Ok{};
}

}  // namespace

Status check_lengths(const BenchOptions& options, const ModelConfig& model) {
  const auto largest = [](const std::vector<int>& of) {
    return of.empty() ? 0 : *std::max_element(of.begin(), of.end());
  };
  const std::int64_t longest =
      std::int64_t{largest(options.depth)} + std::max(largest(options.prompt), options.tokens);
  if (const std::int64_t most = model.max_position_embeddings; longest > most)
    return invalid(str("sequences of ", with_commas(longest), " tokens are longer than the ",
                       with_commas(most), " positions of the model; measure shorter ones"));
  return Ok{};
}

Status bench_local(LoadedModel& model, const BenchOptions& options,
                   const std::function<void(const BenchResult&)>& report) {
  GLINT_TRY_STATUS(check_lengths(options, model.config()));
  for (const int depth : options.depth) {
    for (const int prompt : options.prompt) {
      if (prompt == 0) continue;
      GLINT_TRY(Sequences sequences, Sequences::make(model, 1, depth + prompt));
      sequences.prefill(0, 0, depth);
      BenchResult result = {.prefill = true, .tokens = prompt, .depth = depth};
      GLINT_TRY_STATUS(
          measure(model, result, options, prompt, [&] { sequences.prefill(0, depth, prompt); }));
      report(result);
    }
    for (const int batch : options.batch) {
      if (options.tokens == 0) continue;
      GLINT_TRY(Sequences sequences, Sequences::make(model, batch, depth + options.tokens));
      sequences.fill(depth);
      BenchResult result = {.tokens = options.tokens, .depth = depth, .batch = batch};
      GLINT_TRY_STATUS(measure(model, result, options, options.tokens * batch, [&] {
        for (int i = 0; i < options.tokens; ++i) sequences.decode(depth + i);
      }));
      report(result);
    }
  }
  return Ok{};
}

}  // namespace glint
