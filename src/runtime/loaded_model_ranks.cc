// A loaded model as one of several ranks: what its leader tells, and what the others make of it.
#include <algorithm>
#include <numeric>

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "model/divided_ops.h"
#include "runtime/loaded_model.h"
#include "runtime/rank_groups.h"

namespace glint {
namespace {

std::vector<std::int64_t> count(std::span<const StepRows> replicas,
                                std::int64_t (*of)(const StepRows&)) {
  std::vector<std::int64_t> counts;
  for (const StepRows& rows : replicas) counts.push_back(of(rows));
  return counts;
}
std::int64_t num_tokens(const StepRows& rows) { return std::ssize(rows.tokens); }
std::int64_t num_slices(const StepRows& rows) { return std::ssize(rows.slices); }
std::int64_t num_logits(const StepRows& rows) {
  std::int64_t sum = 0;
  for (const RowSlice& slice : rows.slices) sum += slice.logit_rows;
  return sum;
}

// Results of slices, where some were split: those of their last pieces.
void keep_last_pieces(std::span<const StepRows> groups, std::span<const StepRows> replicas,
                      Device& device, StepOutput& out) {
  std::vector<int> pieces;  // the rows of each
  for (const StepRows& replica : replicas) {
    for (const RowSlice& slice : replica.slices) pieces.push_back(slice.count);
  }
  std::int64_t kept = 0;
  std::size_t piece = 0;
  for (const StepRows& group : groups) {
    for (const RowSlice& slice : group.slices) {
      for (int rows = pieces[piece]; rows < slice.count; rows += pieces[++piece]) {
      }
      for (const Tensor* rows : {&out.hidden, &out.selected}) {
        if (!*rows || kept == static_cast<std::int64_t>(piece)) continue;
        const Tensor from = rows->slice(0, static_cast<std::int64_t>(piece), 1);
        device.copy(rows->slice(0, kept, 1).data, from.data, from.bytes().size());
      }
      ++kept, ++piece;
    }
  }
  for (Tensor* rows : {&out.hidden, &out.selected}) {
    if (*rows) *rows = rows->slice(0, 0, kept);
  }
}

}  // namespace

void LoadedModel::set_followers(Followers* followers) {
  ranks_.followers = followers;
  ranks_.results.reset();
  if (followers && partition_.shape.pp > 1)
    ranks_.results = std::make_unique<StageResults>(*ranks_.host_pp, ops().device());
}

Status LoadedModel::restart_ranks() {
  if (ranks_.results) ranks_.results->abandon();
  GLINT_TRY_STATUS(undo_moves());  // new ranks have the experts that they load
  if (!ranks_.followers) return Ok{};
  graphs_.clear();  // of the groups as they were
  return ranks_.followers->restart([this]() -> Status {
    GLINT_TRY_STATUS(ranks_.groups.connect());
    if (ranks_.record_again) ranks_.record_again();
    return Ok{};
  });
}

Status LoadedModel::on_all(RankCommand command, const std::function<Status()>& own) {
  if (!ranks_.followers) return own();
  ranks_.followers->start(std::move(command));
  Status mine = own();
  Status theirs = ranks_.followers->finish();
  return mine.ok() ? theirs : mine;
}

void LoadedModel::tell(RankCommand command, const HiddenRows& hidden) {
  if (!ranks_.followers) return;
  GLINT_CHECK(command.replicas.empty() || std::ssize(command.replicas) == partition_.shape.dp,
              "followers run the rows of all replicas");
  command.hidden.assign(hidden.on_host.begin(), hidden.on_host.end());
  command.hidden_rows.assign(hidden.rows.begin(), hidden.rows.end());
  if (hidden.on_device) {  // rows of the last step's, in order
    const std::ptrdiff_t begin = hidden.on_device.data - last_.hidden.data;
    const auto row = static_cast<std::ptrdiff_t>(hidden_row_bytes());
    GLINT_CHECK(begin >= 0 && begin % row == 0 && begin / row < last_.hidden.dim(0),
                "states that only the leader has");
    command.hidden_rows.resize(static_cast<std::size_t>(hidden.on_device.dim(0)));
    std::iota(command.hidden_rows.begin(), command.hidden_rows.end(),
              static_cast<std::int32_t>(begin / row));
  }
  ranks_.followers->start(std::move(command));
}

Tensor LoadedModel::bring_home(const Tensor& mine, std::span<const std::int64_t> rows, RowType type,
                               Arena& arena) {
  const Mesh& mesh = options_.mesh;
  const std::int64_t all_rows = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (partition_.tp_rank > 0) return {};
  Tensor all = mine;
  if (partition_.is_last()) {
    const auto own = static_cast<std::size_t>(partition_.replica);
    if (own > 0) {
      if (rows[own] > 0) mesh.dp->send(mine, 0);
      return {};
    }
    if (rows.size() > 1) {
      all = arena.take(type.dtype, {all_rows, type.width});
      if (rows[0] > 0) ops().device().copy(all.data, mine.data, mine.bytes().size());
      std::int64_t begin = rows[0];
      for (std::size_t s = 1; s < rows.size(); begin += rows[s++]) {
        if (rows[s] > 0) mesh.dp->recv(all.slice(0, begin, rows[s]), static_cast<int>(s));
      }
    }
    if (partition_.is_first()) return all ? all : arena.take(type.dtype, {0, type.width});
    if (all_rows > 0) (ranks_.staged_pp ? *ranks_.staged_pp : *ranks_.host_pp).send(all, 0);
    return {};
  }
  if (partition_.replica > 0 || !partition_.is_first()) return {};
  all = arena.take(type.dtype, {all_rows, type.width});
  ranks_.results->receive(all);
  return all;
}

// The rows of each replica of groups that share sequences.
std::vector<StepRows> LoadedModel::divide(std::span<const StepRows> groups) const {
  const int members = partition_.shape.cp;
  GLINT_CHECK(std::ssize(groups) == partition_.shape.num_sequence_groups(),
              "rows of other replicas");
  if (members == 1) return {groups.begin(), groups.end()};
  std::vector<StepRows> replicas;
  for (const StepRows& group : groups) {
    std::vector<std::int64_t> ends;
    for (int i = 1; i <= members; ++i)
      ends.push_back(first_row_of(std::ssize(group.tokens), i, members));
    for (StepRows& part : split_rows(group, ends)) replicas.push_back(std::move(part));
  }
  count_all_tokens(replicas);
  return replicas;
}

LoadedModel::RowPlace LoadedModel::place_of(int group, std::int64_t row) const {
  const int members = partition_.shape.cp;
  if (members == 1) return {.replica = group, .row = row, .count = std::int64_t{1} << 32};
  const std::int64_t rows = last_.rows[static_cast<std::size_t>(group)];
  int member = 0;
  while (row >= first_row_of(rows, member + 1, members)) ++member;
  return {.replica = group * members + member,
          .row = row - first_row_of(rows, member, members),
          .count = first_row_of(rows, member + 1, members) - row};
}

std::vector<StepRows> LoadedModel::tell_step(std::span<const StepRows> groups,
                                             const StepOptions& options) {
  std::vector<StepRows> replicas = divide(groups);
  last_.rows = count(groups, num_tokens);
  tell({.kind = RankCommand::Kind::kStep,
        .replicas = replicas,
        .routed = options.routed,
        .graph = options.graphs && !options.taps,
        .graph_drafts = options.max_drafts},
       {});
  return replicas;
}

void LoadedModel::begin_step(std::span<const StepRows> groups, const StepOptions& options) {
  const std::vector<StepRows> replicas = tell_step(groups, options);
  run_own(replicas[static_cast<std::size_t>(partition_.replica)], options);
  const auto sum = [&](auto of) {
    const std::vector<std::int64_t> counts = count(replicas, of);
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  };
  std::optional<ResultRows> routed;
  if (options.routed) {
    routed = {DType::kI32, sum(num_tokens) * config_.num_moe_layers(), config_.num_experts_per_tok};
  }
  ranks_.results->begin({DType::kF32, sum(num_logits), config_.vocab_size}, routed);
  activity_.end();
}

StepOutput LoadedModel::end_step() {
  activity_.begin("later_stages");
  const StageResults::Step step = ranks_.results->end();
  activity_.end();
  return {.device_logits = step.logits, .device_routed = step.routed, .vocab = config_.vocab_size};
}

StepOutput LoadedModel::step(std::span<const StepRows> groups, const StepOptions& options) {
  if (ranks_.results) {
    begin_step(groups, options);
    return end_step();
  }
  return step_of(tell_step(groups, options), options);
}

StepOutput LoadedModel::step_of(std::span<const StepRows> replicas, const StepOptions& options) {
  StepOptions own = options;
  if (partition_.shape.ep > 1) own.replicas = replicas;
  StepOutput out = run_own(replicas[static_cast<std::size_t>(partition_.replica)], own);
  Arena& arena = step_.arena;
  out.device_logits =
      bring_home(out.device_logits, count(replicas, num_logits), logits_type(), arena);
  if (options.routed) {
    out.routed_rows = graphs_.rows_of(model(), replicas, own);
    std::vector<std::int64_t> rows = out.routed_rows;
    for (std::int64_t& n : rows) n *= config_.num_moe_layers();
    out.device_routed =
        bring_home(out.device_routed, rows, {DType::kI32, config_.num_experts_per_tok}, arena);
  }
  activity_.end();
  return out;
}

StepOutput LoadedModel::draft(std::span<const StepRows> groups, const HiddenRows& target,
                              std::span<const std::int32_t> selection) {
  GLINT_CHECK(has_mtp(), "a draft needs an MTP layer");
  std::vector<StepRows> replicas;
  std::vector<std::int32_t> rows(target.rows.begin(), target.rows.end());
  if (partition_.shape.cp == 1 || rows.empty()) {
    replicas = divide(groups);
  } else {
    // Each replica runs the rows whose states it has.
    std::size_t at = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<std::int64_t> ends(static_cast<std::size_t>(partition_.shape.cp));
      for (std::size_t i = 0; i < groups[g].tokens.size(); ++i, ++at) {
        const RowPlace place = place_of(static_cast<int>(g), rows[at]);
        rows[at] = static_cast<std::int32_t>(place.row);
        for (std::size_t m = static_cast<std::size_t>(place.replica % partition_.shape.cp);
             m < ends.size(); ++m)
          ++ends[m];
      }
      for (StepRows& part : split_rows(groups[g], ends)) replicas.push_back(std::move(part));
    }
    count_all_tokens(replicas);
  }
  const HiddenRows hidden = {
      .on_device = target.on_device, .rows = rows, .on_host = target.on_host};
  tell({.kind = RankCommand::Kind::kDraft,
        .replicas = replicas,
        .selection = {selection.begin(), selection.end()}},
       hidden);
  StepOutput out = draft_of(replicas, hidden, selection);
  keep_last_pieces(groups, replicas, ops().device(), out);
  return out;
}

StepOutput LoadedModel::draft_of(std::span<const StepRows> replicas, const HiddenRows& target,
                                 std::span<const std::int32_t> selection) {
  // This replica's among the rows of all.
  const auto own = static_cast<std::size_t>(partition_.replica);
  std::size_t begin = 0;
  for (std::size_t s = 0; s < own; ++s) begin += replicas[s].tokens.size();
  const std::size_t rows = replicas[own].tokens.size();
  const auto part = [&](auto all, std::size_t row) {
    return all.empty() ? all : all.subspan(begin * row, rows * row);
  };
  Arena& arena = draft_.begin();
  StepOutput out = {.vocab = config_.vocab_size};
  if (partition_.is_last()) {
    out = draft_own(
        replicas[own],
        {.rows = part(target.rows, 1), .on_host = part(target.on_host, hidden_row_bytes())},
        {.selection = part(selection, static_cast<std::size_t>(config_.index_topk))}, arena);
  }
  const std::vector<std::int64_t> slices = count(replicas, num_slices);
  out.device_logits =
      bring_home(out.device_logits, count(replicas, num_logits), logits_type(), arena);
  out.hidden =
      bring_home(out.hidden, slices, {options_.numbers.activations, config_.hidden_size}, arena);
  out.selected = bring_home(out.selected, slices, {DType::kI32, config_.index_topk}, arena);
  activity_.end();
  return out;
}

Tensor LoadedModel::logits_of(const HiddenRows& hidden, int replica) {
  tell({.kind = RankCommand::Kind::kHead, .replica = replica}, hidden);
  Arena& arena = head_.begin();
  activity_.begin("lm_head");
  std::int64_t rows = hidden.on_device ? hidden.on_device.dim(0) : std::ssize(hidden.rows);
  if (!hidden.on_host.empty())
    rows = std::ssize(hidden.on_host) / static_cast<std::int64_t>(hidden_row_bytes());
  Tensor logits;
  if (partition_.replica == replica && partition_.is_last()) {
    logits = gather_logits(model(), run_head(model(), place(hidden, arena), arena), arena);
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(partition_.shape.dp));
  counts[static_cast<std::size_t>(replica)] = rows;
  logits = bring_home(logits, counts, logits_type(), arena);
  activity_.end();
  return logits;
}

std::string LoadedModel::fingerprint() const {
  constexpr std::size_t kMostSamples = 1024, kSample = 64;  // few pages that no rank else reads
  const Result<std::string> config = read_file(options_.dir + "/config.json");
  std::string all = config.ok() ? config.value() : "";
  const std::span<const StoredTensor> tensors = checkpoint_->source().tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& tensor = tensors[i];
    all += str(tensor.name, ' ', tensor.describe(), ' ', tensor.file, '\n');
    if (i % (tensors.size() / kMostSamples + 1) != 0) continue;
    all.append(reinterpret_cast<const char*>(tensor.bytes.data()),
               std::min(kSample, tensor.bytes.size()));
  }
  return std::to_string(fnv1a(all));
}

Status LoadedModel::follow(const RankCommand& command) {
  const HiddenRows hidden = {.rows = command.hidden_rows, .on_host = command.hidden};
  switch (command.kind) {
    case RankCommand::Kind::kStep:
      (void)step_of(command.replicas, {.routed = command.routed != 0,
                                       .to_host = false,
                                       .graphs = command.graph != 0,
                                       .max_drafts = command.graph_drafts});
      return Ok{};
    case RankCommand::Kind::kDraft:
      (void)draft_of(command.replicas, hidden, command.selection);
      return Ok{};
    case RankCommand::Kind::kHead:
      (void)logits_of(hidden, command.replica);
      return Ok{};
    case RankCommand::Kind::kReservePages:
      return reserve_pages(command.num_pages, command.max_seq_len);
    case RankCommand::Kind::kReserveSteps:
      return reserve_steps(command.memory);
    case RankCommand::Kind::kUpdateWeights:
      return take_weights(command.path);
    case RankCommand::Kind::kRecordGraphs:
      graphs_.use(graph_sizes(command.graph_sizes));
      record_own_graphs(
          command.max_seq_len,
          {.routed = command.routed != 0, .to_host = false, .max_drafts = command.graph_drafts});
      return Ok{};
    case RankCommand::Kind::kMoveExperts:
      move_experts(command.layer, command.slots);
      return Ok{};
  }
  GLINT_CHECK(false, "an unknown command");
}

}  // namespace glint
