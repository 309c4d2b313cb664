#include "runtime/model_executor.h"

#include <algorithm>
#include <chrono>

#include "base/file.h"
#include "base/seconds.h"
#include "base/str.h"
#include "runtime/key_reads.h"
#include "runtime/slice_sampler.h"
#include "tensor/transfer.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

// Less than this is not worth a row that runs again.
constexpr double kMaskSeconds = 0.0005;

// Whether a step may be launched while its tokens are still drawn: only this rank's device knows
// them.
bool runs_ahead(LoadedModel& model) {
  return !model.ops().device().is_host() && model.partition().shape.num_ranks() == 1;
}

ExecutorInfo make_info(LoadedModel& model, const ModelExecutorOptions& options) {
  const ModelConfig& c = model.config();
  ExecutorInfo info = {.vocab_size = static_cast<int>(c.vocab_size),
                       .max_seq_len = static_cast<int>(c.max_position_embeddings),
                       .max_drafts = options.max_drafts,
                       .num_layers = static_cast<int>(c.num_hidden_layers),
                       .num_moe_layers = c.num_moe_layers(),
                       .num_experts = c.n_routed_experts,
                       .num_experts_per_tok = c.num_experts_per_tok,
                       .moe_layers = c.moe_layers(),
                       .depth = runs_ahead(model) ? 2 : 1,
                       .num_replicas = model.partition().shape.num_sequence_groups(),
                       // Drafts need the tokens of the step before.
                       .num_stages = options.max_drafts > 0 ? 1 : model.partition().shape.pp,
                       .tells_keys = model.partition().shape.pp * model.partition().shape.cp == 1};
  if (info.num_stages > 1) info.depth = info.num_stages + 1;
  return info;
}

// Whether drafts need not wait for the host: nobody else runs the passes.
bool drafts_ahead(const LoadedModel& model, const ModelExecutorOptions& options) {
  return options.max_drafts > 0 && model.partition().shape.num_ranks() == 1;
}

ModelExecutorOptions resolve(ModelExecutorOptions options, const LoadedModel& model) {
  if (options.num_token_ids == 0)
    options.num_token_ids = static_cast<TokenId>(model.config().vocab_size);
  return options;
}

bool all_in_vocabulary(const Request& request, const LoadedModel& model) {
  const std::int64_t vocab_size = model.config().vocab_size;
  return check_token_ids("the prompt", request.prompt, vocab_size).ok() &&
         check_token_ids(request.sampling, vocab_size).ok();
}

// Where a profile goes: known to be writable before anything is recorded.
Result<std::string> profile_file(const std::string& path) {
  if (path.empty()) return invalid("the profile has no file; name one, or a folder");
  return find_replaceable(is_directory(path) ? path + "/glint_profile.json" : path);
}

// Whether the host needs a token that is in flight to say what the next one may be.
bool follows_unread(const SliceRun& run) {
  return run.slice->sample && run.sequence->in_flight > 0 && reads_answer(*run.sequence->request);
}

}  // namespace

ModelExecutor::ModelExecutor(LoadedModel& model, const ModelExecutorOptions& options)
    : model_(model),
      options_(resolve(options, model)),
      info_(make_info(model, options)),
      seats_(model.ops().device(),
             seat_sizes(model.config(), model.options().numbers.activations,
                        drafts_ahead(model, options) ? options.max_drafts : 0)),
      drafter_(model, options_.num_token_ids),
      logprobs_(model, options_.num_token_ids),
      masks_(info_.vocab_size),
      routed_(model.ops(), info_.num_moe_layers, info_.num_experts, info_.num_experts_per_tok) {
  GLINT_CHECK(options.max_drafts == 0 || model.has_mtp(), "drafts need the MTP layer");
  if (drafts_ahead(model, options)) {
    seat_drafter_.emplace(model, seats_, options_.num_token_ids);
  }
  if (model.partition().shape.moves_experts) {
    balancer_.emplace(model.partition(), ExpertBalancerOptions{.layers = info_.moe_layers,
                                                               .num_experts = info_.num_experts,
                                                               .interval = options.balance_steps});
  }
  seats_.reserve(options.max_running);
}

// Steps in flight write to memory of this object.
ModelExecutor::~ModelExecutor() { model_.ops().device().synchronize(); }

void ModelExecutor::launch(std::shared_ptr<const StepPlan> plan) {
  GLINT_CHECK(static_cast<int>(launched_.size()) < info_.depth, "too many steps are launched");
  if (spare_.empty()) spare_.emplace_back();
  LaunchedStep& step = launched_.emplace_back(std::move(spare_.back()));
  spare_.pop_back();
  step.plan = std::move(plan);
  step.begin = Clock::now();
  step.result = {};
  step.failure.reset();
  model_.activity().set_step(step.plan->step, static_cast<int>(step.plan->tokens.size()));
  start_sequences(*step.plan);
  if (needs_tokens(*step.plan)) read_launched();
  for (const SeqSlice& slice : step.plan->slices) seats_.reserve(slice.seat + 1);
  step.runs = locate(*step.plan, step.result);
  if (!step.runs.empty()) {
    balance_experts();
    run(step);
  }
  model_.activity().end();
}

// Before a step that runs, at most one layer's experts move.
void ModelExecutor::balance_experts() {
  if (!balancer_ || !model_.ranks_state().ok()) return;
  const auto move = balancer_->before_step([this] { return routed_.load(); });
  if (move) model_.move_experts(move->layer, move->slots);
}

// Whether the host must have read what was launched before it launches the plan: drafts are for a
// grammar or bad words to look at, or min_tokens may end in the midst of drafts.
bool ModelExecutor::needs_tokens(const StepPlan& plan) const {
  return std::any_of(plan.slices.begin(), plan.slices.end(), [&](const SeqSlice& slice) {
    const auto found = sequences_.find(slice.id);
    if (found == sequences_.end() || found->second->in_flight == 0) return false;
    const SequenceState& sequence = *found->second;
    return needs_size(sequence) || (slice.num_drafts > 0 && reads_answer(*sequence.request));
  });
}

StepOptions ModelExecutor::step_options() const {
  StepOptions options = {.routed = info_.num_moe_layers > 0,
                         .to_host = false,
                         .seats = seats_.tensors(),
                         // A profile is of operations, which a graph hides.
                         .graphs = !model_.activity().recording(),
                         .max_drafts = options_.max_drafts};
  options.seats.rejected = {};  // no row of a step is one of the step before
  return options;
}

GraphStats ModelExecutor::record_graphs(std::int64_t max_seq_len) {
  return model_.record_graphs(max_seq_len, step_options());
}

void ModelExecutor::run(LaunchedStep& step) {
  std::vector<SliceRun>& runs = step.runs;
  draft(runs);
  start_masks(runs);
  const std::vector<StepRows> rows = make_rows(step.plan->step, runs);
  step.replica_rows.clear();
  const int members = model_.partition().shape.cp;
  for (const StepRows& one : rows) {
    const std::int64_t all = std::ssize(one.tokens);
    for (int i = 0; i < members; ++i) {
      step.replica_rows.push_back(
          static_cast<int>(first_row_of(all, i + 1, members) - first_row_of(all, i, members)));
    }
  }
  if (info_.num_stages > 1) return begin(step, rows);
  const std::span<const SliceRun> all_runs = runs;
  KeyReads key_reads(model_, info_.tells_keys ? all_runs : std::span<const SliceRun>());
  const auto forward_start = Clock::now();
  StepOptions options = step_options();
  options.taps = key_reads.taps();
  step.begun = {};
  if (options_.times_gaps) options.begun = &step.begun;
  const StepOutput out = model_.step(rows, options);
  end(step, out, forward_start);
  const bool drafts_wait = options_.max_drafts > 0 && !seat_drafter_;
  if (step.failure || (!drafts_wait && !key_reads.taps())) return;
  read_launched();
  if (step.failure) return;
  key_reads.tell(runs);
  if (drafts_wait) run_draft_rows(runs);
}

// The first of several stages.
void ModelExecutor::begin(LaunchedStep& step, std::span<const StepRows> rows) {
  model_.begin_step(rows, step_options());
  step.is_begun = true;
  // Their hidden states are there until the next step.
  const bool asks_prompts = std::any_of(
      step.runs.begin(), step.runs.end(),
      [](const SliceRun& run) { return run.sequence->request->want.prompt_logprobs >= 0; });
  if (asks_prompts) end_begun(launched_.size());
}

// Ends the steps among the first `count` launched ones whose later stages still run.
void ModelExecutor::end_begun(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    LaunchedStep& step = launched_[i];
    if (!std::exchange(step.is_begun, false)) continue;
    end(step, model_.end_step(), step.begin);
  }
}

// Sampling, and what else follows the forward pass.
void ModelExecutor::end(LaunchedStep& step, const StepOutput& out,
                        Clock::time_point forward_start) {
  std::vector<SliceRun>& runs = step.runs;
  step.told_prompt_tokens.clear();
  for (const SliceRun& run : runs)
    step.told_prompt_tokens.push_back(run.sequence->told_prompt_tokens);
  logprobs_.ask_prompts(runs, step.prompt_logprobs);
  if (come_to_nothing(step)) return;
  if (options_.times_gaps) step.passed = model_.ops().device().record();
  model_.activity().begin("grammar_masks");
  if (std::any_of(runs.begin(), runs.end(), follows_unread)) {
    read_launched();
    start_masks(runs);
  }
  await_masks(runs, seconds_since(forward_start));
  model_.activity().begin("sample");
  if (options_.times_gaps) step.drawing = model_.ops().device().record();
  const Arena::Scope scope(model_.scratch());
  const Tensor tokens = sample(step, out.device_logits);
  std::vector<std::int64_t> rows_of_replicas = out.routed_rows;
  if (rows_of_replicas.empty())
    rows_of_replicas.assign(step.replica_rows.begin(), step.replica_rows.end());
  routed_.ask(out.device_routed, std::move(rows_of_replicas), runs, step.routes);
  step.done = model_.ops().device().record();
  step.is_unread = true;
  if (seat_drafter_) seat_drafter_->run_rows(runs, tokens);
}

// Whether a rank was lost before its part of the step was there. Later losses are the next step's:
// what this one sampled is right.
bool ModelExecutor::come_to_nothing(LaunchedStep& step) {
  const Status ranks = model_.ranks_state();
  if (ranks.ok()) return false;
  step.failure = ranks.error();
  step.is_unread = false;
  failed_ = true;
  take_back(step);
  return true;
}

// Leaves the sequences of `step` as if it had not ended. Of several steps the last one comes first.
void ModelExecutor::take_back(LaunchedStep& step) {
  for (std::size_t i = 0; i < step.told_prompt_tokens.size(); ++i) {
    SliceRun& run = step.runs[i];
    run.sequence->told_prompt_tokens = step.told_prompt_tokens[i];
    if (run.masks) run.sequence->masks = std::move(run.masks);
  }
}

// All that was launched, oldest first.
void ModelExecutor::read_launched() {
  for (LaunchedStep& step : launched_) {
    if (step.is_unread) read(step);
  }
}

void ModelExecutor::read(LaunchedStep& step) {
  Device& device = model_.ops().device();
  device.wait(step.done);
  // On a device the ranks' parts are there only now.
  if (!device.is_host() && come_to_nothing(step)) return;
  step.is_unread = false;
  if (options_.times_gaps) {
    if (step.begun.handle() && last_computed_.handle()) {
      gaps_.push_back(device.seconds_between(last_computed_, step.begun) +
                      device.seconds_between(step.passed, step.drawing));
    }
    last_computed_ = step.begun.handle() ? step.computed : Event();
  }
  const std::span<const std::int32_t> drawn = step.tokens.ints();
  for (SliceRun& run : step.runs) {
    SequenceState& sequence = *run.sequence;
    if (run.pending) run.first = sequence.size() - 1;
    if (!run.slice->sample || run.late) continue;
    --sequence.in_flight;
    sequence.drafts_in_flight -= static_cast<int>(run.drafts.size());
    if (step.reads_drafts) {
      const auto ran = step.drafts.ints().subspan(run.logit_begin + 1, run.drafts.size());
      run.drafts.assign(ran.begin(), ran.end());
    }
    const std::shared_ptr<MaskTask> masks = std::exchange(run.masks, nullptr);
    if (run.sequence->ended) continue;
    take_rows(drawn.subspan(run.logit_begin, run.sampling_rows()),
              masks ? std::span<const MaskRow>(masks->rows) : std::span<const MaskRow>(), run);
  }
  Logprobs::tell_prompts(step.runs, step.prompt_logprobs);
  Logprobs::tell(step.runs, step.logprobs);
  routed_.tell(step.routes, step.replica_rows, model_.partition().shape.cp, step.runs);
}

Result<StepResult> ModelExecutor::collect() {
  GLINT_CHECK(!launched_.empty(), "no step is launched");
  end_begun(1);
  LaunchedStep& step = launched_.front();
  if (step.is_unread) read(step);
  if (const std::optional<Error> failure = step.failure) {
    model_.ops().device().synchronize();
    for (auto lost = launched_.rbegin(); lost != launched_.rend(); ++lost) take_back(*lost);
    for (LaunchedStep& lost : launched_) {
      lost.is_begun = lost.is_unread = false;
      lost.runs.clear();
      lost.told_prompt_tokens.clear();
      spare_.push_back(std::move(lost));
    }
    launched_.clear();
    return *failure;
  }
  step.result.seconds = seconds_since(std::max(step.begin, last_collected_));
  last_collected_ = Clock::now();
  end_sequences(*step.plan);
  StepResult result = std::move(step.result);
  step.plan = nullptr;
  step.runs.clear();
  step.told_prompt_tokens.clear();
  spare_.push_back(std::move(step));
  launched_.pop_front();
  return result;
}

// A failure of this device ends the process; ranks can be lost.
Status ModelExecutor::recover() {
  failed_ = true;
  seats_.forget();
  for (const auto& [id, sequence] : sequences_) {
    sequence->seed.position = -1;
    sequence->in_flight = sequence->drafts_in_flight = 0;
  }
  if (balancer_) balancer_->forget_moves();
  Status status = model_.restart_ranks();
  failed_ = false;
  return status;
}

void ModelExecutor::start_sequences(const StepPlan& plan) {
  for (const RequestId id : plan.ended) {
    const auto found = sequences_.find(id);
    if (found == sequences_.end()) continue;
    found->second->ended = true;  // its slices in flight are nobody's
    if (found->second->masks) found->second->masks->cancelled = true;
  }
  for (const auto& request : plan.started) {
    const auto sequence = std::make_shared<SequenceState>(request);
    if (!sequences_.emplace(request->id, sequence).second) continue;
    // The server looks at these before; nothing that a client sends may read outside the tables.
    if (all_in_vocabulary(*request, model_)) continue;
    sequence->failure = SliceFailure::kNoToken;
    sequence->ended = true;
  }
}

void ModelExecutor::end_sequences(const StepPlan& plan) {
  for (const RequestId id : plan.ended) sequences_.erase(id);
}

// The slices that run, where their sequences are, in the order of replicas. A step in front may
// have accepted fewer drafts than it ran, or have ended the answer.
std::vector<SliceRun> ModelExecutor::locate(const StepPlan& plan, StepResult& result) {
  std::vector<SliceRun> runs;
  result.sampled.resize(plan.slices.size());
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    const SeqSlice& slice = plan.slices[i];
    const auto found = sequences_.find(slice.id);
    GLINT_CHECK(found != sequences_.end(),
                str("step ", plan.step, " runs request ", slice.id, ", which no plan has started"));
    SequenceState& sequence = *found->second;
    result.sampled[i].id = slice.id;
    result.sampled[i].failure = sequence.failure;
    if (sequence.ended) continue;
    SliceRun run = {.slice = &slice, .sequence = found->second, .result = &result.sampled[i]};
    run.pages = std::span(plan.pages).subspan(slice.page_begin, slice.num_pages);
    run.first = std::min(slice.first, sequence.largest_size() - 1);
    run.known = sequence.largest_size() - run.first;
    run.pending = sequence.in_flight > 0;
    if (!slice.sample) run.known = std::min(run.known, slice.count);
    GLINT_CHECK(
        run.known <= slice.count - slice.num_drafts && (run.known == 1 || !run.pending),
        str("step ", plan.step, " runs positions ", slice.first, " to ", slice.first + slice.count,
            " of request ", slice.id, ", which has ", sequence.largest_size(), " tokens"));
    // Its row was run before, and its masks are still not there: it costs nothing to sit out.
    if (sequence.masks && run.known == 1 && !masks_.claim(*sequence.masks)) {
      result.sampled[i].late = sequence.masks->number;
      continue;
    }
    runs.push_back(std::move(run));
  }
  std::stable_sort(runs.begin(), runs.end(), [](const SliceRun& a, const SliceRun& b) {
    return a.slice->replica < b.slice->replica;
  });
  return runs;
}

// Guesses for the slices that run the last token alone; elsewhere the layer's caches are not there
// yet.
void ModelExecutor::draft(std::span<SliceRun> runs) {
  if (seat_drafter_) return draft_ahead(runs);
  std::vector<Drafter::Guess> guesses;
  for (SliceRun& run : runs) {
    const bool ready = run.known == 1 && run.sequence->seed.position == run.first - 1;
    const int count = std::min({run.slice->num_drafts, options_.max_drafts, run.limit() - 1});
    if (!ready || !run.slice->sample || count <= 0) continue;
    guesses.push_back({.replica = run.slice->replica,
                       .seed = &run.sequence->seed,
                       .pages = run.pages,
                       .count = count,
                       .drafts = &run.drafts});
  }
  drafter_.guess(guesses);
}

// Drafts without the host, unless it must look at the drafts.
void ModelExecutor::draft_ahead(std::span<SliceRun> runs) {
  std::vector<SliceRun*> drafting, read;
  for (SliceRun& run : runs) {
    const int count = std::min({run.slice->num_drafts, options_.max_drafts, run.limit() - 1});
    if (count <= 0 || !seat_drafter_->ready(run)) continue;
    run.drafts.resize(static_cast<std::size_t>(count));
    drafting.push_back(&run);
    if (reads_answer(*run.sequence->request)) read.push_back(&run);
  }
  seat_drafter_->guess(drafting);
  seat_drafter_->read(read);
}

// Starts the masks of runs whose tokens the host has; called again for those whose tokens came
// since.
void ModelExecutor::start_masks(std::span<SliceRun> runs) {
  for (SliceRun& run : runs) {
    SequenceState& sequence = *run.sequence;
    if (!run.constrained() || sequence.in_flight > 0) continue;
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
  for (SliceRun& run : runs) {
    if (run.sequence->ended) run.late = true;  // since the step was launched: nobody computes them
    if (run.constrained() && !run.late) tasks.push_back(run.sequence->masks);
  }
  if (tasks.empty()) return;
  masks_.wait(tasks, std::max(kMaskSeconds, forward_seconds / 2));
  for (SliceRun& run : runs) {
    if (!run.constrained() || run.late || masks_.claim(*run.sequence->masks)) continue;
    run.late = true;
    run.result->late = run.sequence->masks->number;
  }
}

std::vector<StepRows> ModelExecutor::make_rows(std::uint64_t number,
                                               std::span<SliceRun> runs) const {
  std::vector<StepRows> replicas(static_cast<std::size_t>(info_.num_replicas), {.step = number});
  int logit_rows = 0;
  for (SliceRun& run : runs) {
    StepRows& rows = replicas[static_cast<std::size_t>(run.slice->replica)];
    run.row_begin = static_cast<int>(rows.tokens.size());
    run.logit_begin = logit_rows;
    logit_rows += run.sampling_rows();
    std::vector<TokenId> tokens = {kPendingToken};
    if (!run.pending) {
      std::vector<TokenId> buffer;
      const auto known = run.sequence->tokens.read(static_cast<std::size_t>(run.first),
                                                   static_cast<std::size_t>(run.known), buffer);
      tokens.assign(known.begin(), known.end());
    }
    tokens.insert(tokens.end(), run.drafts.begin(), run.drafts.end());
    rows.add(run.first, tokens, run.pages, run.sampling_rows());
    if (!run.pending) continue;
    rows.slices.back().seat = run.slice->seat;
    rows.slices.back().from_length = -1;
  }
  count_all_tokens(replicas);
  return replicas;
}

// The tokens that are drawn [R], in the scratch arena's present scope.
Tensor ModelExecutor::sample(LaunchedStep& step, const Tensor& logits) {
  SampleRows rows(options_.num_token_ids);
  std::vector<std::int32_t> draws;  // of accept
  for (SliceRun& run : step.runs) {
    if (!run.slice->sample) continue;
    // Rows of a late slice are drawn, too, and nobody looks at them: its masks come later.
    if (!run.late) run.masks = std::exchange(run.sequence->masks, nullptr);
    if (run.masks) run.sequence->slow_masks = run.masks->slow;
    SequenceState& sequence = *run.sequence;
    if (sequence.request->sampling.penalizes() && !run.late &&
        !seats_.holds(run.slice->seat, sequence.counts)) {
      GLINT_CHECK(sequence.in_flight == 0, "a sequence changes its seat with a token in flight");
      sequence.counts = seats_.fill(run.slice->seat, sequence.tokens);
    }
    add_rows(run,
             run.masks ? std::span<const MaskRow>(run.masks->rows) : std::span<const MaskRow>(),
             rows);
    draws.insert(draws.end(), {run.logit_begin, run.late ? 0 : run.sampling_rows(), run.slice->seat,
                               sequence.drafts_in_flight > 0 ? -1 : sequence.launched_size()});
    if (run.late) continue;
    ++sequence.in_flight;
    sequence.drafts_in_flight += static_cast<int>(run.drafts.size());
  }
  Arena& scratch = model_.scratch();
  Uploads uploads(scratch);
  const SeatTensors& seats = seats_.tensors();
  AcceptArgs accept = {.last = seats.last, .lengths = seats.lengths, .rejected = seats.rejected};
  uploads.add(draws, {static_cast<std::int64_t>(draws.size() / 4), 4}, &accept.draws);
  const SampleRows::Drawn drawn = rows.draw(model_.ops(), logits, seats, uploads, scratch);
  accept.tokens = drawn.tokens, accept.drafts = drawn.drafts;
  model_.ops().accept(accept);
  step.computed = model_.ops().device().record();
  step.tokens.ask(drawn.tokens, model_.ops().device());
  step.reads_drafts =
      seat_drafter_ && std::any_of(step.runs.begin(), step.runs.end(),
                                   [](const SliceRun& run) { return !run.drafts.empty(); });
  if (step.reads_drafts) step.drafts.ask(drawn.drafts, model_.ops().device());
  logprobs_.ask(step.runs, logits, drawn.tokens, step.logprobs);
  return drawn.tokens;
}

void ModelExecutor::run_draft_rows(std::span<SliceRun> runs) {
  std::vector<Drafter::Rows> rows;
  std::vector<std::vector<TokenId>> buffers(runs.size());
  auto buffer = buffers.begin();
  for (SliceRun& run : runs) {
    SequenceState& sequence = *run.sequence;
    // The last token's row needs the one after it.
    const int count = std::min(run.certain_rows(), sequence.size() - 1 - run.first);
    const bool goes_on = run.slice->sample && !sequence.ended;
    if (count <= 0) continue;  // late: nothing is new
    sequence.seed.position = -1;
    rows.push_back({.replica = run.slice->replica,
                    .first = run.first,
                    .next_tokens = sequence.tokens.read(static_cast<std::size_t>(run.first + 1),
                                                        static_cast<std::size_t>(count), *buffer++),
                    .pages = run.pages,
                    .hidden_row = run.row_begin,
                    .seed = goes_on ? &sequence.seed : nullptr});
  }
  drafter_.run_rows(rows);
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
    case ExecutorCommand::Kind::kRecover:
      return model_.ranks_state().ok() ? Ok{} : recover();
    case ExecutorCommand::Kind::kStartProfile:
      if (activity.recording()) return invalid("a profile is being recorded already");
      { GLINT_TRY(profile_path_, profile_file(command.path)); }
      activity.start_recording([this] { model_.ops().device().synchronize(); });
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

std::optional<ExpertPlaces> ModelExecutor::expert_places() const {
  if (!balancer_) return std::nullopt;
  return balancer_->places();
}

}  // namespace glint
