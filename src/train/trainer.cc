#include "train/trainer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"
#include "checkpoint/other_files.h"
#include "checkpoint/writer.h"
#include "train/parameter_file.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTracker = "latest_checkpointed_iteration.txt";
constexpr const char* kFolder = "optimizer";
constexpr const char* kStateName = "state.json";
constexpr int kStateVersion = 1;

// Files of a checkpoint, each of all ranks' shares, whatever their number.
constexpr std::pair<const char*, OptimizerPart::Value> kStates[] = {
    {"master", OptimizerPart::Value::kMaster},
    {"exp_avg", OptimizerPart::Value::kExpAvg},
    {"exp_avg_sq", OptimizerPart::Value::kExpAvgSq}};

std::string name_of_step(const std::string& run_dir, std::int64_t step) {
  return str(run_dir, "/step-", step);
}

// The step that the tracker names; none: there is no tracker.
Result<std::optional<std::int64_t>> read_tracker(const std::string& run_dir) {
  const std::string path = str(run_dir, "/", kTracker);
  if (!file_exists(path)) return std::optional<std::int64_t>();
  GLINT_TRY(std::string text, read_file(path, 100));
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 0) {
    return invalid(str(path, " holds ", quoted(text), ", not the number of a step"));
  }
  return std::optional(step);
}

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::open(TrainerOptions options,
                                               std::vector<std::unique_ptr<Backend>> backends,
                                               const LoadProgress& progress) {
  const MeshShape& shape = options.model.shape;
  GLINT_CHECK(shape == MeshShape{.dp = shape.dp}, "parameters are divided among ranks");
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(options)));
  Trainer& t = *trainer;
  GLINT_TRY(t.ranks_, TrainRanks::open(t.options_.model, std::move(backends), progress));
  TrainRanks& ranks = *t.ranks_;
  t.source_dir_ = t.options_.model.dir;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    GLINT_TRY(TrainedWeights weights, TrainedWeights::make(ranks.model(rank)));
    t.weights_.push_back(std::move(weights));
  }
  GLINT_TRY_STATUS(ranks.make_parameters());
  const std::int64_t count = t.parameters().count(), bytes = OptimizerPart::bytes(count);
  if (const std::int64_t free = available_memory(); bytes > free) {
    return Error{ErrorCode::kResourceExhausted,
                 str("the optimiser's state of ", count, " parameters takes ",
                     human_bytes(static_cast<double>(bytes)), ", and ",
                     human_bytes(static_cast<double>(free)), " are free")};
  }
  for (int rank = 0; rank < ranks.size(); ++rank) {
    t.optimizer_.emplace_back(ranks.parameters(rank), ranks.replicas(rank));
  }
  const std::span<float> flat = t.parameters().flat();
  t.weights().read(t.parameters(), flat, ranks.pool());
  for (OptimizerPart& part : t.optimizer_) part.take(OptimizerPart::Value::kMaster, flat);
  t.parameters().set_zero();
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
      TrainedWeights& weights = weights_[static_cast<std::size_t>(rank)];
      weights.write(parameters, parameters.flat(), ranks_->model(rank), pool);
      GLINT_TRY_STATUS(weights.place(ranks_->model(rank)));
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
  steps_ = report.step;
  return report;
}

Status Trainer::write_optimizer(const std::string& dir, const Json& state) const {
  std::error_code error;
  if (!fs::create_directory(dir, error)) return system_error("cannot create", dir, error.value());
  const Parameters& parameters = ranks_->parameters();
  for (const auto& [name, value] : kStates) {
    const auto of = [&](std::size_t i) {
      const Parameter& p = parameters.all()[i];
      std::vector<float> values(static_cast<std::size_t>(p.count()));
      for (const OptimizerPart& part : optimizer_) part.give(value, p.offset, values);
      return to_checkpoint_order(p, values);
    };
    GLINT_TRY_STATUS(write_parameter_file(parameters, of, str(dir, "/", name, ".safetensors")));
  }
  const Json json = Json::Object{{"version", kStateVersion}, {"step", steps_}, {"caller", state}};
  GLINT_TRY_STATUS(
      write_file_atomic(str(dir, "/", kStateName), dump_json(json, JsonStyle::kIndent2) + "\n"));
  return sync_directory(dir);
}

Status Trainer::save(const std::string& run_dir, const Json& state) {
  std::error_code error;
  fs::create_directories(run_dir, error);
  if (error) return system_error("cannot create", run_dir, error.value());
  const std::string dir = name_of_step(run_dir, steps_), partial = dir + ".partial";
  GLINT_TRY(const std::optional<std::int64_t> latest, read_tracker(run_dir));
  if (latest == steps_) return Ok{};
  // Left by a run that was killed before its tracker said so.
  fs::remove_all(partial, error);
  fs::remove_all(dir, error);
  const auto write = [&]() -> Status {
    GLINT_TRY(CheckpointWriter writer, CheckpointWriter::create(dir, weights().specs()));
    GLINT_TRY_STATUS(check_free_space(partial, OptimizerPart::bytes(parameters().count())));
    GLINT_TRY_STATUS(write_optimizer(str(partial, "/", kFolder), state));
    GLINT_TRY(const std::string config, read_file(source_dir_ + "/config.json"));
    GLINT_TRY_STATUS(writer.add_file("config.json", config));
    GLINT_TRY_STATUS(copy_other_files(source_dir_, partial));
    const std::vector<StoredTensor>& tensors = weights().tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      GLINT_TRY_STATUS(writer.write(i, 0, tensors[i].bytes));
    }
    return writer.finish();
  };
  GLINT_TRY_STATUS(write().in(str("step ", steps_, " is not saved")));
  return write_file_atomic(str(run_dir, "/", kTracker), str(steps_, "\n"));
}

Result<std::optional<std::string>> Trainer::find_latest(const std::string& run_dir) {
  GLINT_TRY(const std::optional<std::int64_t> step, read_tracker(run_dir));
  if (!step) return std::optional<std::string>();
  const std::string dir = name_of_step(run_dir, *step);
  if (!is_directory(dir)) {
    return invalid(str(run_dir, "/", kTracker, " names step ", *step, ", but there is no ", dir));
  }
  return std::optional(dir);
}

Result<Json> Trainer::restore(const std::string& checkpoint_dir) {
  const std::string dir = str(checkpoint_dir, "/", kFolder);
  GLINT_TRY(const Json json, read_json_file(str(dir, "/", kStateName)));
  const Json* const step = json.find("step");
  const Json* const version = json.find("version");
  const Json* const caller = json.find("caller");
  if (!step || !step->is_int() || step->as_int() < 0 || !version || !version->is_int() ||
      version->as_int() != kStateVersion || !caller) {
    return invalid(
        str(dir, "/", kStateName, " is not the state of a training run of this version"));
  }
  const Status status = read_optimizer(checkpoint_dir);
  parameters().set_zero();
  GLINT_TRY_STATUS(status);
  steps_ = step->as_int();
  return *caller;
}

// Files are read to where gradients will be.
Status Trainer::read_optimizer(const std::string& checkpoint_dir) {
  const std::string dir = str(checkpoint_dir, "/", kFolder);
  const Parameters& parameters = ranks_->parameters();
  ThreadPool& pool = ranks_->pool();
  const std::span<float> flat = ranks_->parameters().flat();
  for (const auto& [name, value] : kStates) {
    GLINT_TRY_STATUS(read_parameter_file(parameters, str(dir, "/", name, ".safetensors"), flat));
    for (OptimizerPart& part : optimizer_) part.take(value, flat);
    if (value != OptimizerPart::Value::kMaster) continue;
    // The masters, rounded, are the weights.
    for (const Parameter& p : parameters.all()) {
      std::vector<float> weights(static_cast<std::size_t>(p.count())), rounded(weights.size());
      weights_[0].read(p, weights, pool);
      const auto at = static_cast<std::size_t>(p.offset);
      weights_[0].write(p, flat.subspan(at, weights.size()), model(), pool);
      weights_[0].read(p, rounded, pool);
      if (rounded == weights) continue;
      return invalid(str("the weights of ", checkpoint_dir, " are not those of its ", dir, ": ",
                         p.tensor.name, " was changed after it was written"));
    }
  }
  return Ok{};
}

Json Trainer::describe_ranks() {
  Json::Array all;
  for (int rank = 0; rank < ranks_->size(); ++rank) {
    const std::int64_t numbers = optimizer_[static_cast<std::size_t>(rank)].size();
    all.push_back(ranks_->describe(rank));
    all.back().set("optimizer_bytes", OptimizerPart::bytes(numbers));
  }
  return all;
}

}  // namespace glint
