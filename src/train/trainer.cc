#include "train/trainer.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/directory.h"
#include "base/disk_space.h"
#include "base/file.h"
#include "base/parse_number.h"
#include "base/str.h"
#include "base/system_error.h"
#include "checkpoint/other_files.h"
#include "checkpoint/writer.h"
#include "train/parameter_file.h"
#include "train/parameter_part.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTracker = "latest_checkpointed_iteration.txt";
constexpr const char* kRemedy = "; without this file the newest step is taken";
constexpr std::string_view kStep = "step-", kPartial = ".partial";
constexpr const char* kFolder = "optimizer";
constexpr const char* kStateName = "state.json";
constexpr int kStateVersion = 1;
// Ours, so as large as it was written: a round of long answers with their experts is gigabytes.
constexpr std::size_t kMaxState = std::size_t{1} << 40;

// Files of a checkpoint, each of all ranks' shares, whatever their number.
constexpr std::pair<const char*, OptimizerPart::Value> kStates[] = {
    {"master", OptimizerPart::Value::kMaster},
    {"exp_avg", OptimizerPart::Value::kExpAvg},
    {"exp_avg_sq", OptimizerPart::Value::kExpAvgSq}};

std::size_t num_wholes(const TrainRanks& ranks) {
  return std::size(kStates) * ranks.trained().size();
}

std::string name_of_step(const std::string& run_dir, std::int64_t step) {
  return str(run_dir, "/", kStep, step);
}

std::optional<std::int64_t> parse_step(std::string_view text) {
  const auto step = parse_number<std::int64_t>(text);
  return step.value_or(-1) >= 0 ? step : std::nullopt;
}

// The newest of the steps that are there. A folder gets its name when it is complete.
std::optional<std::int64_t> newest_step(const std::string& run_dir) {
  std::optional<std::int64_t> newest;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run_dir, error)) {
    const std::string name = entry.path().filename().string();
    const auto step =
        name.starts_with(kStep) ? parse_step(name.substr(kStep.size())) : std::nullopt;
    if (step && file_exists(str(run_dir, "/", name, "/", kFolder, "/", kStateName))) {
      newest = std::max(newest, step);
    }
  }
  return newest;
}

// The step that the tracker names or, where it is lost, the newest; none: there is none.
Result<std::optional<std::int64_t>> latest_step(const std::string& run_dir) {
  const std::string path = str(run_dir, "/", kTracker);
  if (!file_exists(path)) return newest_step(run_dir);
  GLINT_TRY(const std::string text, read_file(path, 100));
  if (const auto step = parse_step(trimmed(text))) return step;
  return invalid(
      str(path, " holds ", quoted(trimmed(text)), ", not the number of a step", kRemedy));
}

// A rank's share of the optimiser's state, with the zeros behind the last.
std::int64_t bytes_of_share(const Parameters& parameters) {
  std::int64_t numbers = 0;
  for (const ParameterSection& section : parameters.sections()) {
    if (section.kind != ParameterSection::Kind::kBorrowed) numbers += section.share;
  }
  return OptimizerPart::bytes(numbers);
}

// Folders of saves that were cut off.
void remove_partial_steps(const std::string& run_dir) {
  std::error_code error;
  std::vector<fs::path> partial;
  for (const auto& entry : fs::directory_iterator(run_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kStep) && name.ends_with(kPartial)) partial.push_back(entry.path());
  }
  for (const fs::path& path : partial) fs::remove_all(path, error);
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::open(TrainerOptions options,
                                               std::vector<std::unique_ptr<Backend>> backends,
                                               const LoadProgress& progress,
                                               std::optional<OpenedModel> opened) {
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(options)));
  Trainer& t = *trainer;
  GLINT_TRY(t.ranks_, TrainRanks::open(t.options_.model, std::move(backends), progress,
                                       std::move(opened), t.options_.peers));
  TrainRanks& ranks = *t.ranks_;
  t.source_dir_ = t.options_.model.dir;
  const bool whole = t.options_.gathers && ranks.peers().is_first();
  GLINT_TRY(t.weights_, TrainedWeights::make(ranks.model(), ranks.peers(), whole));
  for (int rank = 1; rank < ranks.size(); ++rank) {
    GLINT_TRY_STATUS(ranks.model(rank).update_weights(t.weights().checkpoint()));
  }
  GLINT_TRY_STATUS(ranks.make_parameters());
  const std::int64_t count = ranks.num_trained();
  std::size_t most = 0;
  for (const Parameter& p : ranks.parameters().all()) {
    most = std::max(most, static_cast<std::size_t>(p.is_kv_b() ? 2 * p.count() : p.count()));
  }
  if (ranks.shape().num_ranks() > 1) most = 0;
  std::int64_t bytes = static_cast<std::int64_t>(most * sizeof(float));
  for (int rank = 0; rank < ranks.size(); ++rank) bytes += bytes_of_share(ranks.parameters(rank));
  GLINT_TRY_STATUS(ranks.peers().expect_memory(
      str("the optimiser's state of ", count, " parameters takes"), bytes));
  t.whole_.reserve(most);
  for (int rank = 0; rank < ranks.size(); ++rank) {
    OptimizerPart& part = t.optimizer_.emplace_back(ranks.parameters(rank), ranks.mesh(rank));
    for (const Parameter& p : ranks.parameters(rank).all()) {
      std::vector<float> values(static_cast<std::size_t>(p.count()));
      t.weights().read(p, ranks.model(rank).partition(), values, ranks.pool(rank));
      part.take(OptimizerPart::Value::kMaster, p.offset, values);
    }
  }
  return trainer;
}

Result<std::unique_ptr<Trainer>> Trainer::open(TrainerOptions options,
                                               std::unique_ptr<Backend> backend,
                                               const LoadProgress& progress) {
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::move(backend));
  return open(std::move(options), std::move(backends), progress);
}

Result<StepReport> Trainer::step(double lr) {
  const AdamWOptions& o = options_.adamw;
  StepReport report = {.step = steps_ + 1, .lr = lr};
  const auto work = [&](int rank, const GradientSource::OnPart&) -> Status {
    OptimizerPart& part = optimizer_[static_cast<std::size_t>(rank)];
    Parameters& parameters = ranks_->parameters(rank);
    ThreadPool& pool = ranks_->pool(rank);
    const double norm = part.reduce(pool), scale = clip_scale(norm, o.clip_grad);
    if (rank == 0) {
      report.grad_norm = norm;
      report.is_clipped = scale < 1;
    }
    if (std::isfinite(norm)) {
      part.update({.lr = lr,
                   .beta1 = o.beta1,
                   .beta2 = o.beta2,
                   .eps = o.eps,
                   .weight_decay = o.weight_decay,
                   .step = report.step,
                   .gradient_scale = scale},
                  pool);
      for (const Parameter& p : parameters.all()) {
        weights_->write(p, parameters.values_of(p), ranks_->model(rank), pool);
      }
    }
    parameters.set_zero();
    return Ok{};
  };
  GLINT_TRY_STATUS(ranks_->on_all(work));
  if (!std::isfinite(report.grad_norm)) {
    return invalid(str("the gradient of step ", report.step,
                       " is not a number; weights are as after step ", steps_,
                       ". A smaller learning rate, or --dtype f32, may help"));
  }
  GLINT_TRY_STATUS(ranks_->on_all([&](int rank, const GradientSource::OnPart&) {
    return weights_->place(ranks_->model(rank));
  }));
  steps_ = report.step;
  return report;
}

template <class F>
void Trainer::for_parts(const ModelTensor& tensor, std::span<const float> whole, F f) {
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const Parameter* const p = ranks_->parameters(rank).find(tensor);
    if (!p) continue;
    std::vector<float> values(static_cast<std::size_t>(p->count()));
    const ParameterBox box = box_of(tensor, ranks_->model(rank).partition());
    from_checkpoint_order(*p, take_part(tensor, box, whole), values);
    f(rank, *p, values);
  }
}

void Trainer::give_out(OptimizerPart::Value value, const ModelTensor& tensor,
                       std::span<const float> whole) {
  for_parts(tensor, whole, [&](int rank, const Parameter& p, std::span<const float> part) {
    optimizer_[static_cast<std::size_t>(rank)].take(value, p.offset, part);
  });
}

void Trainer::write_weights(const ModelTensor& tensor, std::span<const float> whole) {
  for_parts(tensor, whole, [&](int rank, const Parameter& p, std::span<const float> part) {
    weights_->write(p, part, ranks_->model(rank), ranks_->pool(rank));
  });
}

std::span<const float> Trainer::whole_of(OptimizerPart::Value value, const ModelTensor& tensor) {
  if (ranks_->shape().num_ranks() == 1) {
    const Parameter& p = *ranks_->parameters().find(tensor);
    const auto size = static_cast<std::size_t>(p.count());
    whole_.resize(p.is_kv_b() ? 2 * size : size);
    const auto whole = std::span(whole_).first(size), values = std::span(whole_).last(size);
    optimizer_[0].give(value, p.offset, values);
    if (p.is_kv_b()) to_checkpoint_order(p, values, whole);
    return whole;
  }
  whole_.assign(static_cast<std::size_t>(tensor.parameters()), 0.0f);
  const auto whole = std::span(whole_);
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const Parameter* const p = ranks_->parameters(rank).find(tensor);
    if (!p) continue;
    // Zeros where others have the shares.
    std::vector<float> values(static_cast<std::size_t>(p->count()));
    optimizer_[static_cast<std::size_t>(rank)].give(value, p->offset, values);
    const ParameterBox box = box_of(tensor, ranks_->model(rank).partition());
    std::vector<float> part = take_part(tensor, box, whole), stored(values.size());
    to_checkpoint_order(*p, values, stored);
    join_shares(part, stored);
    put_part(tensor, box, part, whole);
  }
  const TrainPeers& peers = ranks_->peers();
  if (peers.is_alone()) return whole;
  for (const std::string& said : peers.to_first(write_share(whole))) read_share(said, whole);
  return whole;
}

std::span<const float> Trainer::next_whole() {
  const std::vector<ModelTensor>& tensors = ranks_->trained();
  const auto value = kStates[wholes_ / tensors.size()].second;
  const ModelTensor& tensor = tensors[wholes_ % tensors.size()];
  ++wholes_;
  return whole_of(value, tensor);
}

void Trainer::gather_weights() {
  const TrainPeers& peers = ranks_->peers();
  if (peers.is_alone()) return;
  const MeshShape& shape = ranks_->shape();
  for (const ModelTensor& tensor : ranks_->trained()) {
    if (shape.pp == 1 && !is_divided(tensor, shape)) continue;  // the first has all of it
    const std::span<const float> whole = whole_of(OptimizerPart::Value::kMaster, tensor);
    if (peers.is_first()) weights_->write(tensor, whole, ranks_->pool());
  }
}

Status Trainer::write_optimizer(const std::string& dir, const Json& state,
                                const CheckpointWriter& writer) {
  std::error_code error;
  if (!fs::create_directory(dir, error)) return system_error("cannot create", dir, error.value());
  const std::vector<ModelTensor>& tensors = ranks_->trained();
  Status saved = Ok{};
  for (const auto& [name, value] : kStates) {
    const auto of = [&, value = value](std::size_t i) {
      const std::span<const float> whole = next_whole();
      // The masters, rounded, are the weights, of which this process may have a part.
      const bool has_part = value == OptimizerPart::Value::kMaster && !ranks_->peers().is_alone();
      if (has_part && saved.ok()) saved = weights_->save(writer, tensors[i], whole, ranks_->pool());
      return whole;
    };
    GLINT_TRY_STATUS(write_parameter_file(tensors, of, str(dir, "/", name, ".safetensors")));
    GLINT_TRY_STATUS(saved);
  }
  const Json json = Json::Object{{"version", kStateVersion}, {"step", steps_}, {"caller", state}};
  GLINT_TRY_STATUS(
      write_file_atomic(str(dir, "/", kStateName), dump_json(json, JsonStyle::kIndent2) + "\n"));
  return sync_directory(dir);
}

Status Trainer::save(const std::string& run_dir, const Json& state) {
  const TrainPeers& peers = ranks_->peers();
  if (!peers.is_alone() && saved_ == name_of_step(run_dir, steps_)) return Ok{};
  GLINT_TRY_STATUS(
      write_on_first(num_wholes(*ranks_), [&] { return write_checkpoint(run_dir, state); }));
  saved_ = name_of_step(run_dir, steps_);
  return Ok{};
}

// Once: they may be gone when the run ends.
Status Trainer::read_files() {
  if (!config_file_.empty()) return Ok{};
  GLINT_TRY(other_files_, read_other_files(source_dir_));
  const std::string path = source_dir_ + "/config.json";
  GLINT_TRY(config_file_, read_file(path));
  const ModelConfig& config = ranks_->model().config();
  if (config.num_unused_mtp_layers == 0) return Ok{};
  GLINT_TRY(Json json, parse_json(config_file_).in(path));
  leave_out_unused_layers(config, json);
  config_file_ = dump_json(json, JsonStyle::kIndent2) + "\n";
  return Ok{};
}

Status Trainer::make_room(const std::string& run_dir) {
  GLINT_TRY_STATUS(read_files());
  remove_partial_steps(run_dir);
  std::int64_t bytes = OptimizerPart::bytes(ranks_->num_trained());
  for (const TensorSpec& spec : weights_->specs()) bytes += spec.bytes();
  return check_free_space(str(run_dir, "/step-*"), bytes);
}

Status Trainer::write_files(const std::string& dir,
                            const std::function<Status(const CheckpointWriter&)>& of_others) {
  GLINT_TRY(CheckpointWriter writer, CheckpointWriter::create(dir, weights().specs()));
  GLINT_TRY_STATUS(of_others(writer));
  GLINT_TRY_STATUS(read_files());
  GLINT_TRY_STATUS(writer.add_file("config.json", config_file_));
  GLINT_TRY_STATUS(write_other_files(other_files_, str(dir, kPartial)));
  const std::span<const ModelTensor> trained = ranks_->trained();
  GLINT_TRY_STATUS(
      weights_->save_others(writer, ranks_->peers().is_alone() ? trained.first(0) : trained));
  return writer.finish();
}

Status Trainer::write_on_first(std::size_t count, const std::function<Status()>& write) {
  const TrainPeers& peers = ranks_->peers();
  wholes_ = 0;
  const Status status = peers.is_first() ? write() : Status(Ok{});
  // The others give all their shares, whether they are written or not.
  while (!peers.is_alone() && wholes_ < count) next_whole();
  return peers.on_first([&] { return status; });
}

Status Trainer::save_weights(const std::string& dir) {
  const std::vector<ModelTensor>& tensors = ranks_->trained();
  // The masters, which come first of all values.
  const std::size_t count = ranks_->peers().is_alone() ? 0 : tensors.size();
  const auto of_others = [&](const CheckpointWriter& writer) -> Status {
    while (wholes_ < count) {
      const ModelTensor& tensor = tensors[wholes_];
      GLINT_TRY_STATUS(weights_->save(writer, tensor, next_whole(), ranks_->pool()));
    }
    return Ok{};
  };
  return write_on_first(count, [&] { return write_files(dir, of_others); });
}

Status Trainer::write_checkpoint(const std::string& run_dir, const Json& state) {
  std::error_code error;
  fs::create_directories(run_dir, error);
  if (error) return system_error("cannot create", run_dir, error.value());
  const std::string dir = name_of_step(run_dir, steps_);
  GLINT_TRY(const std::optional<std::int64_t> latest, latest_step(run_dir));
  const auto write = [&]() -> Status {
    if (latest == steps_) return Ok{};
    fs::remove_all(dir, error);  // left by a run that was killed before its tracker said so
    GLINT_TRY_STATUS(make_room(run_dir));
    return write_files(dir, [&](const CheckpointWriter& writer) {
      return write_optimizer(str(dir, kPartial, "/", kFolder), state, writer);
    });
  };
  GLINT_TRY_STATUS(write().in(str("step ", steps_, " is not saved")));
  return write_file_atomic(str(run_dir, "/", kTracker), str(steps_, "\n"));
}

Result<std::optional<std::string>> Trainer::find_latest(const std::string& run_dir) {
  GLINT_TRY(const std::optional<std::int64_t> step, latest_step(run_dir));
  if (!step) return std::optional<std::string>();
  const std::string dir = name_of_step(run_dir, *step);
  if (!is_directory(dir)) {
    return invalid(
        str(run_dir, "/", kTracker, " names step ", *step, ", but there is no ", dir, kRemedy));
  }
  return std::optional(dir);
}

Result<Json> Trainer::restore(const std::string& checkpoint_dir) {
  const std::string dir = str(checkpoint_dir, "/", kFolder);
  const std::string path = str(dir, "/", kStateName);
  GLINT_TRY(const std::string text, read_file(path, kMaxState));
  GLINT_TRY(const Json json, parse_json(text).in(path));
  const Json* const step = json.find("step");
  const Json* const version = json.find("version");
  const Json* const caller = json.find("caller");
  if (!step || !step->is_int() || step->as_int() < 0 || !version || !version->is_int() ||
      version->as_int() != kStateVersion || !caller) {
    return invalid(path + " is not the state of a training run of this version");
  }
  GLINT_TRY_STATUS(ranks_->peers().agree(read_optimizer(checkpoint_dir)));
  steps_ = step->as_int();
  return *caller;
}

Status Trainer::read_optimizer(const std::string& checkpoint_dir) {
  const std::string dir = str(checkpoint_dir, "/", kFolder);
  const std::vector<ModelTensor>& tensors = ranks_->trained();
  ThreadPool& pool = ranks_->pool();
  for (const auto& [name, value] : kStates) {
    const auto take = [&, value = value](std::size_t i, std::span<const float> whole) -> Status {
      const ModelTensor& tensor = tensors[i];
      give_out(value, tensor, whole);
      if (value != OptimizerPart::Value::kMaster) return Ok{};
      // The masters, rounded, are the weights.
      const std::vector<float> weights = weights_->read(tensor, pool);
      write_weights(tensor, whole);
      if (weights_->read(tensor, pool) == weights) return Ok{};
      return invalid(str("the weights of ", checkpoint_dir, " are not those of its ", dir, ": ",
                         tensor.name, " was changed after it was written"));
    };
    GLINT_TRY_STATUS(read_parameter_file(tensors, str(dir, "/", name, ".safetensors"), take));
  }
  return Ok{};
}

Json Trainer::describe_ranks(TrainRanks* reference) {
  Json::Array all;
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const std::int64_t numbers = optimizer_[static_cast<std::size_t>(rank)].size();
    all.push_back(ranks_->describe(rank));
    all.back().set("optimizer_bytes", OptimizerPart::bytes(numbers));
    if (reference) {
      all.back().set("reference_bytes", reference->model(rank).load_stats().held_bytes);
    }
  }
  if (ranks_->peers().is_alone()) return all;
  all.back().set("pid", static_cast<std::int64_t>(::getpid()));
  all.back().set("memory_of_weights", weights_->bytes());
  const std::string mine = dump_json(all.back());
  all.clear();
  for (const std::string& said : ranks_->peers().gather(mine)) {
    all.push_back(parse_json(said).value());
  }
  return all;
}

}  // namespace glint
