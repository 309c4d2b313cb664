#include "train/trainer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/memory.h"
#include "base/str.h"
#include "base/thread_pool.h"
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

Result<std::unique_ptr<Trainer>> Trainer::open(TrainerOptions options, std::unique_ptr<Ops> ops,
                                               const LoadProgress& progress) {
  options.model.packing = Packing::kNever;
  std::unique_ptr<Trainer> trainer(new Trainer(std::move(options)));
  Trainer& t = *trainer;
  auto tape = std::make_unique<TapeOps>(std::move(ops));
  t.tape_ = tape.get();
  GLINT_TRY(t.model_, LoadedModel::load(t.options_.model, std::move(tape), progress));
  t.source_dir_ = t.options_.model.dir;
  if (!t.model_->ops().host_threads()) t.own_pool_.emplace(std::max(t.options_.model.threads, 1));
  GLINT_TRY(t.weights_, TrainedWeights::make(*t.model_));
  GLINT_TRY(Parameters parameters, Parameters::make(t.model_->weights(), *t.tape_));
  t.parameters_.emplace(std::move(parameters));
  const std::int64_t count = t.parameters_->count(), bytes = 3 * count * 4;
  if (const std::int64_t free = available_memory(); bytes > free) {
    return Error{ErrorCode::kResourceExhausted,
                 str("the optimiser's state of ", count, " parameters takes ",
                     human_bytes(static_cast<double>(bytes)), ", and ",
                     human_bytes(static_cast<double>(free)), " are free")};
  }
  for (auto* state : {&t.master_, &t.exp_avg_, &t.exp_avg_sq_}) {
    state->resize(static_cast<std::size_t>(count));
  }
  t.weights_.read(*t.parameters_, t.master_, t.pool());
  t.pass_.emplace(*t.model_, *t.tape_);
  return trainer;
}

ThreadPool& Trainer::pool() { return own_pool_ ? *own_pool_ : *model_->ops().host_threads(); }

Result<StepReport> Trainer::step(double lr) {
  const AdamWOptions& o = options_.adamw;
  const std::span<const float> gradient = parameters_->flat();
  StepReport report = {.step = steps_ + 1, .lr = lr, .grad_norm = norm_of(gradient, pool())};
  if (!std::isfinite(report.grad_norm)) {
    parameters_->set_zero();
    return invalid(str("the gradient of step ", report.step,
                       " is not a number; weights are as after step ", steps_,
                       ". A smaller learning rate, or --dtype f32, may help"));
  }
  const double scale = clip_scale(report.grad_norm, o.clip_grad);
  report.is_clipped = scale < 1;
  for (const Parameter& p : parameters_->all()) {
    const auto part = [&](auto& values) {
      return std::span(values).subspan(static_cast<std::size_t>(p.offset),
                                       static_cast<std::size_t>(p.count()));
    };
    glint::adamw({.lr = lr,
                  .beta1 = o.beta1,
                  .beta2 = o.beta2,
                  .eps = o.eps,
                  .weight_decay = p.tensor.is_matrix() ? o.weight_decay : 0,
                  .step = report.step,
                  .gradient_scale = scale},
                 part(gradient), part(master_), part(exp_avg_), part(exp_avg_sq_), pool());
  }
  weights_.write(*parameters_, master_, *model_, pool());
  parameters_->set_zero();
  steps_ = report.step;
  return report;
}

Status Trainer::write_optimizer(const std::string& dir, const Json& state) const {
  std::error_code error;
  if (!fs::create_directory(dir, error)) return system_error("cannot create", dir, error.value());
  const struct {
    const char* name;
    const std::vector<float>& values;
  } parts[] = {{"master", master_}, {"exp_avg", exp_avg_}, {"exp_avg_sq", exp_avg_sq_}};
  for (const auto& part : parts) {
    const auto of = [&](const Parameter& p) {
      const auto first = part.values.begin() + p.offset;
      return std::vector<float>(first, first + p.count());
    };
    GLINT_TRY_STATUS(
        write_parameter_file(*parameters_, of, str(dir, "/", part.name, ".safetensors")));
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
    GLINT_TRY(CheckpointWriter writer, CheckpointWriter::create(dir, weights_.specs()));
    GLINT_TRY_STATUS(check_free_space(partial, 3 * parameters_->count() * 4));
    GLINT_TRY_STATUS(write_optimizer(str(partial, "/", kFolder), state));
    GLINT_TRY(const std::string config, read_file(source_dir_ + "/config.json"));
    GLINT_TRY_STATUS(writer.add_file("config.json", config));
    GLINT_TRY_STATUS(copy_other_files(source_dir_, partial));
    const std::vector<StoredTensor>& tensors = weights_.tensors();
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
  const auto read = [&](const char* name, std::vector<float>& values) {
    return read_parameter_file(*parameters_, str(dir, "/", name, ".safetensors"), values);
  };
  std::vector<float> weights(master_.size());
  weights_.read(*parameters_, weights, pool());
  GLINT_TRY_STATUS(read("master", master_));
  GLINT_TRY_STATUS(read("exp_avg", exp_avg_));
  GLINT_TRY_STATUS(read("exp_avg_sq", exp_avg_sq_));
  // The masters, rounded, are the weights.
  weights_.write(*parameters_, master_, *model_, pool());
  std::vector<float> rounded(master_.size());
  weights_.read(*parameters_, rounded, pool());
  if (rounded != weights) {
    return invalid(str("the weights of ", checkpoint_dir, " are not those of its ", dir,
                       ": one of them was changed after it was written"));
  }
  steps_ = step->as_int();
  return *caller;
}

}  // namespace glint
