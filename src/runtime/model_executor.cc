#include "runtime/model_executor.h"

#include <chrono>
#include <numeric>

#include "base/file.h"
#include "base/seconds.h"
#include "base/str.h"
#include "runtime/key_reads.h"
#include "runtime/slice_sampler.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

// Prompt rows whose logits are there at once.
constexpr int kLogprobRows = 64;
// Less than this is not worth a row that runs again.
constexpr double kMaskSeconds = 0.0005;

ExecutorInfo make_info(const LoadedModel& model, const ModelExecutorOptions& options) {
  const ModelConfig& c = model.config();
  ExecutorInfo info = {.vocab_size = static_cast<int>(c.vocab_size),
                       .max_seq_len = static_cast<int>(c.max_position_embeddings),
                       .max_drafts = options.max_drafts,
                       .num_moe_layers = c.num_moe_layers(),
                       .num_experts = c.n_routed_experts,
                       .num_experts_per_tok = c.num_experts_per_tok};
  for (int i = 0; i < c.num_hidden_layers; ++i) {
    if (!c.layers[i].is_dense()) info.moe_layers.push_back(i);
  }
  return info;
}

bool all_in_vocabulary(const Request& request, const LoadedModel& model) {
  return check_vocabulary(model, request.prompt).ok() &&
         check_token_ids(request.sampling, static_cast<int>(model.config().vocab_size)).ok();
}

// Where a profile goes: known to be writable before anything is recorded.
Result<std::string> profile_file(const std::string& path) {
  if (path.empty()) return invalid("the profile has no file; name one, or a folder");
  return find_replaceable(is_directory(path) ? path + "/glint_profile.json" : path);
}

// Rows whose tokens are certain after sampling: the known ones and the drafts that were right.
int certain_rows(const SliceRun& run) {
  const int sampled = static_cast<int>(run.result->tokens.size());
  return run.known + std::max(0, sampled - 1);
}

}  // namespace

ModelExecutor::ModelExecutor(LoadedModel& model, const ModelExecutorOptions& options)
    : model_(model),
      options_(options),
      info_(make_info(model, options)),
      drafter_(model, options.num_token_ids ? options.num_token_ids : info_.vocab_size),
      masks_(info_.vocab_size),
      expert_load_(static_cast<std::size_t>(info_.num_moe_layers) * info_.num_experts) {
  GLINT_CHECK(options.max_drafts == 0 || model.has_mtp(), "drafts need the MTP layer");
  if (options_.num_token_ids == 0) options_.num_token_ids = info_.vocab_size;
}

ModelExecutor::~ModelExecutor() = default;

StepResult ModelExecutor::execute(const StepPlan& plan) {
  const auto start = Clock::now();
  Activity& activity = model_.activity();
  activity.set_step(plan.step, static_cast<int>(plan.tokens.size()));
  StepResult result;
  end_and_start_sequences(plan);
  std::vector<SliceRun> runs = locate(plan, result);
  if (!runs.empty()) {
    draft(runs);
    start_masks(runs);
    const StepPlan step = make_step(plan.step, runs);
    KeyReads key_reads(model_, runs);
    const auto forward_start = Clock::now();
    const StepOutput out = model_.step(
        step, {.routed = info_.num_moe_layers > 0, .host_logits = false, .taps = key_reads.taps()});
    activity.begin("grammar_masks");
    await_masks(runs, seconds_since(forward_start));
    activity.begin("sample");
    sample(runs, out);
    tell_routed(runs, out.routed);
    key_reads.tell(runs);
    for (SliceRun& run : runs) tell_prompt_logprobs(run, out.hidden);
    run_draft_rows(runs, out.hidden);
  }
  activity.end();
  result.seconds = seconds_since(start);
  return result;
}

void ModelExecutor::end_and_start_sequences(const StepPlan& plan) {
  for (const RequestId id : plan.ended) {
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) continue;
    if (found->second.masks) found->second.masks->cancelled = true;
    sequences_.erase(found);
  }
  for (const auto& request : plan.started) {
    SequenceState& sequence = sequences_.emplace(request->id, request).first->second;
    // The server looks at these before; nothing that a client sends may read outside the tables.
    if (all_in_vocabulary(*request, model_)) continue;
    sequence.failure = SliceFailure::kNoToken;
    sequence.ended = true;
  }
}

// The slices that run, where their sequences are. A step in front may have accepted fewer drafts
// than it ran, or have ended the answer.
std::vector<SliceRun> ModelExecutor::locate(const StepPlan& plan, StepResult& result) {
  std::vector<SliceRun> runs;
  result.sampled.resize(plan.slices.size());
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    const SeqSlice& slice = plan.slices[i];
    const auto found = sequences_.find(slice.id);
    GLINT_CHECK(found != sequences_.end(),
                str("step ", plan.step, " runs request ", slice.id, ", which no plan has started"));
    SequenceState& sequence = found->second;
    result.sampled[i].id = slice.id;
    result.sampled[i].failure = sequence.failure;
    if (sequence.ended) continue;
    SliceRun run = {.slice = &slice, .sequence = &sequence, .result = &result.sampled[i]};
    run.pages = std::span(plan.pages).subspan(slice.page_begin, slice.num_pages);
    run.first = std::min(slice.first, sequence.size() - 1);
    run.known = sequence.size() - run.first;
    if (!slice.sample) run.known = std::min(run.known, slice.count);
    GLINT_CHECK(
        run.known <= slice.count - slice.num_drafts,
        str("step ", plan.step, " runs positions ", slice.first, " to ", slice.first + slice.count,
            " of request ", slice.id, ", which has ", sequence.size(), " tokens"));
    // Its row was run before, and its masks are still not there: it costs nothing to sit out.
    if (sequence.masks && run.known == 1 && !masks_.claim(*sequence.masks)) {
      result.sampled[i].late = sequence.masks->number;
      continue;
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

// Guesses for the slices that run the last token alone; elsewhere the layer's caches are not there
// yet.
void ModelExecutor::draft(std::span<SliceRun> runs) {
  std::vector<Drafter::Guess> guesses;
  for (SliceRun& run : runs) {
    const bool ready = run.known == 1 && run.sequence->seed.position == run.first - 1;
    const int count = std::min({run.slice->num_drafts, options_.max_drafts, run.limit() - 1});
    if (!ready || !run.slice->sample || count <= 0) continue;
    guesses.push_back(
        {.seed = &run.sequence->seed, .pages = run.pages, .count = count, .drafts = &run.drafts});
  }
  drafter_.guess(guesses);
}

void ModelExecutor::start_masks(std::span<SliceRun> runs) {
  for (SliceRun& run : runs) {
    if (!run.constrained()) continue;
    SequenceState& sequence = *run.sequence;
    if (sequence.masks) {  // of a step before, where they were late: they are for those drafts
      const std::vector<TokenId>& drafts = sequence.masks->drafts;
      const auto same =
          std::mismatch(run.drafts.begin(), run.drafts.end(), drafts.begin(), drafts.end());
      run.drafts.erase(same.first, run.drafts.end());
      continue;
    }
    auto task = std::make_shared<MaskTask>();
    task->request = sequence.request;
    task->number = ++sequence.num_mask_tasks;
    const std::span<const TokenId> answer = sequence.answer();
    task->taken.assign(answer.begin() + sequence.num_matched, answer.end());
    task->drafts = run.drafts;
    task->slow = sequence.slow_masks;
    sequence.num_matched = sequence.answered();
    sequence.masks = task;
    masks_.start(std::move(task));
  }
}

// Others in the step wait for a mask at most half as long again as for the model.
void ModelExecutor::await_masks(std::span<SliceRun> runs, double forward_seconds) {
  std::vector<std::shared_ptr<MaskTask>> tasks;
  for (const SliceRun& run : runs)
    if (run.constrained()) tasks.push_back(run.sequence->masks);
  if (tasks.empty()) return;
  masks_.wait(tasks, std::max(kMaskSeconds, forward_seconds / 2));
  for (SliceRun& run : runs) {
    if (!run.constrained() || masks_.claim(*run.sequence->masks)) continue;
    run.late = true;
    run.result->late = run.sequence->masks->number;
  }
}

StepPlan ModelExecutor::make_step(std::uint64_t number, std::span<SliceRun> runs) const {
  StepPlan step = {.step = number};
  int logit_rows = 0;
  for (SliceRun& run : runs) {
    run.row_begin = static_cast<int>(step.tokens.size());
    run.logit_begin = logit_rows;
    logit_rows += run.sampling_rows();
    std::vector<TokenId> tokens(run.sequence->tokens.begin() + run.first,
                                run.sequence->tokens.begin() + run.first + run.known);
    tokens.insert(tokens.end(), run.drafts.begin(), run.drafts.end());
    step.add(run.first, tokens, run.pages, run.sampling_rows());
  }
  return step;
}

void ModelExecutor::sample(std::span<SliceRun> runs, const StepOutput& out) {
  SampleRows rows(options_.num_token_ids);
  std::vector<std::shared_ptr<MaskTask>> tasks;
  const auto masks_of = [&](std::size_t i) {
    return tasks[i] ? std::span<const MaskRow>(tasks[i]->rows) : std::span<const MaskRow>();
  };
  for (SliceRun& run : runs) {
    // Rows of a late slice are drawn, too, and nobody looks at them: its masks come later.
    tasks.push_back(run.late ? nullptr : std::exchange(run.sequence->masks, nullptr));
    if (tasks.back()) run.sequence->slow_masks = tasks.back()->slow;
    if (run.slice->sample) add_rows(run, masks_of(tasks.size() - 1), rows);
  }
  const std::vector<std::int32_t> drawn =
      rows.sample(model_.ops(), out.device_logits, model_.scratch());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    SliceRun& run = runs[i];
    if (!run.slice->sample || run.late) continue;
    take_rows(std::span(drawn).subspan(run.logit_begin, run.sampling_rows()), masks_of(i), run);
  }
  tell_logprobs(runs, out.device_logits);
}

std::vector<TokenLogprob> ModelExecutor::logprobs_of(const Tensor& logits,
                                                     const std::vector<std::int32_t>& rows,
                                                     const std::vector<std::int32_t>& ids,
                                                     int num_top) {
  Arena& scratch = model_.scratch();
  Device& device = model_.ops().device();
  const Arena::Scope scope(scratch);
  const auto N = static_cast<std::int64_t>(rows.size());
  const std::int64_t K = std::min(num_top, options_.num_token_ids);
  const TokenLogProbsArgs args = {.logits = logits,
                                  .rows = upload(rows, {N}, scratch),
                                  .ids = upload(ids, {N}, scratch),
                                  .num_ids = options_.num_token_ids,
                                  .log_probs = scratch.take(DType::kF32, {N}),
                                  .ranks = scratch.take(DType::kI32, {N}),
                                  .top_ids = scratch.take(DType::kI32, {N, K}),
                                  .top_log_probs = scratch.take(DType::kF32, {N, K})};
  model_.ops().token_log_probs(args);
  const auto log_probs = download<float>(args.log_probs, device);
  const auto ranks = download<std::int32_t>(args.ranks, device);
  const auto top_ids = download<std::int32_t>(args.top_ids, device);
  const auto top = download<float>(args.top_log_probs, device);
  std::vector<TokenLogprob> all(rows.size());
  for (std::size_t n = 0; n < all.size(); ++n) {
    all[n].logprob = log_probs[n];
    all[n].rank = ranks[n];
    const std::size_t begin = n * static_cast<std::size_t>(K);
    for (std::size_t k = begin; k < begin + static_cast<std::size_t>(K); ++k) {
      if (top_ids[k] >= 0) all[n].top.push_back({.id = top_ids[k], .logprob = top[k]});
    }
  }
  return all;
}

// All tokens that were just taken, in one call.
void ModelExecutor::tell_logprobs(std::span<SliceRun> runs, const Tensor& logits) {
  std::vector<std::int32_t> rows, ids;
  int most = 0;
  const auto wanted = [](const SliceRun& run) { return run.sequence->request->want.top_logprobs; };
  for (const SliceRun& run : runs) {
    if (wanted(run) < 0) continue;
    most = std::max(most, wanted(run));
    for (std::size_t i = 0; i < run.result->tokens.size(); ++i) {
      rows.push_back(run.logit_begin + static_cast<std::int32_t>(i));
      ids.push_back(run.result->tokens[i]);
    }
  }
  if (rows.empty()) return;
  auto next = logprobs_of(logits, rows, ids, most);
  std::size_t n = 0;
  for (SliceRun& run : runs) {
    if (wanted(run) < 0) continue;
    for (std::size_t i = 0; i < run.result->tokens.size(); ++i, ++n) {
      const auto count = static_cast<std::size_t>(wanted(run));
      if (next[n].top.size() > count) next[n].top.resize(count);
      run.result->logprobs.push_back(std::move(next[n]));
    }
  }
}

void ModelExecutor::run_draft_rows(std::span<SliceRun> runs, const Tensor& hidden) {
  if (options_.max_drafts == 0) return;
  std::vector<Drafter::Rows> rows;
  for (SliceRun& run : runs) {
    SequenceState& sequence = *run.sequence;
    // The last token's row needs the one after it.
    const int count = std::min(certain_rows(run), sequence.size() - 1 - run.first);
    const bool goes_on = run.slice->sample && !sequence.ended;
    if (count <= 0) continue;  // late: nothing is new
    sequence.seed.position = -1;
    rows.push_back({.first = run.first,
                    .next_tokens = std::span(sequence.tokens).subspan(run.first + 1, count),
                    .pages = run.pages,
                    .hidden_row = run.row_begin,
                    .seed = goes_on ? &sequence.seed : nullptr});
  }
  drafter_.run_rows(hidden, rows);
}

void ModelExecutor::tell_prompt_logprobs(SliceRun& run, const Tensor& hidden) {
  SequenceState& sequence = *run.sequence;
  const int wanted = sequence.request->want.prompt_logprobs;
  if (wanted < 0) return;
  // Row p tells of token p + 1.
  const int end = std::min(run.first + run.known + 1, sequence.prompt_size());
  for (int at = std::max(sequence.told_prompt_tokens, run.first + 1); at < end;) {
    const int count = std::min(kLogprobRows, end - at);
    const Tensor block = hidden.slice(0, run.row_begin + at - 1 - run.first, count);
    std::vector<std::int32_t> rows(static_cast<std::size_t>(count));
    std::iota(rows.begin(), rows.end(), 0);
    const auto next = sequence.tokens.begin() + at;
    for (TokenLogprob& one :
         logprobs_of(model_.logits_of({.on_device = block}), rows, {next, next + count}, wanted)) {
      run.result->extras.prompt_logprobs.push_back(std::move(one));
    }
    at += count;
    sequence.told_prompt_tokens = at;
  }
}

void ModelExecutor::tell_routed(std::span<SliceRun> runs, std::span<const std::int32_t> routed) {
  if (routed.empty()) return;
  const std::size_t layers = static_cast<std::size_t>(info_.num_moe_layers);
  const std::size_t k = static_cast<std::size_t>(info_.num_experts_per_tok);
  const std::size_t layer_size = routed.size() / layers;  // T * k
  for (std::size_t i = 0; i < routed.size(); ++i) {
    auto& load = expert_load_[i / layer_size * info_.num_experts + routed[i]];
    load.store(load.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  for (SliceRun& run : runs) {
    SequenceState& sequence = *run.sequence;
    if (!sequence.request->want.routed_experts) continue;
    std::vector<std::uint16_t>& told = run.result->extras.routed_experts;
    const int end = run.first + certain_rows(run);
    for (int at = std::max(run.first, sequence.told_routed_rows); at < end; ++at) {
      const std::size_t row = static_cast<std::size_t>(run.row_begin + at - run.first);
      for (std::size_t layer = 0; layer < layers; ++layer) {
        const auto chosen = routed.subspan(layer * layer_size + row * k, k);
        for (const std::int32_t expert : chosen) told.push_back(static_cast<std::uint16_t>(expert));
      }
    }
    sequence.told_routed_rows = std::max(sequence.told_routed_rows, end);
  }
}

Status ModelExecutor::control(const ExecutorCommand& command) {
  Activity& activity = model_.activity();
  switch (command.kind) {
    case ExecutorCommand::Kind::kUpdateWeights:
      activity.begin("update_weights");
      {
        const Status status = model_.update_weights(command.path);
        activity.end();
        return status;
      }
    case ExecutorCommand::Kind::kStartProfile:
      if (activity.recording()) return invalid("a profile is being recorded already");
      { GLINT_TRY(profile_path_, profile_file(command.path)); }
      activity.start_recording();
      return Ok{};
    case ExecutorCommand::Kind::kStopProfile:
      if (!activity.recording()) return invalid("no profile is being recorded");
      if (!command.path.empty()) {
        GLINT_TRY(profile_path_, profile_file(command.path));
      }
      return activity.write_recording(profile_path_);
  }
  GLINT_CHECK(false, "an unknown command");
}

std::string ModelExecutor::progress() const { return model_.activity().describe(); }

std::vector<std::uint64_t> ModelExecutor::expert_load() const {
  std::vector<std::uint64_t> load;
  for (const auto& count : expert_load_) load.push_back(count.load(std::memory_order_relaxed));
  return load;
}

}  // namespace glint
