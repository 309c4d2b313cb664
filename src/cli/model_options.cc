#include "cli/model_options.h"

#include "base/progress.h"
#include "checkpoint/model_dir.h"
#include "cli/backends.h"

namespace glint {

Result<std::string> model_dir(const std::string& model, const Cli& cli) {
  return resolve_model(model, cli.environment.hf_hub_cache);
}

Result<ModelOptions> resolve(const RunOptions& options, const Cli& cli, bool with_mtp) {
  ModelOptions out;
  GLINT_TRY(out.dir, model_dir(options.model, cli));
  const bool f32 = options.dtype == "f32";
  out.activations = f32 ? DType::kF32 : DType::kBF16;
  const std::string kv = options.kv_dtype.empty() ? options.dtype : options.kv_dtype;
  out.latent = kv == "f32"    ? LatentFormat::kF32
               : kv == "bf16" ? LatentFormat::kBF16
                              : LatentFormat::kFp8;
  const bool exact = options.index.empty() ? f32 : options.index == "exact";
  out.index = !exact ? IndexFormat::kFp8 : f32 ? IndexFormat::kF32 : IndexFormat::kBF16;
  if (options.load_format == "dummy") out.dummy_format = "bf16";
  if (options.load_format.starts_with("dummy_")) out.dummy_format = options.load_format.substr(6);
  out.with_mtp = with_mtp;
  return out;
}

Result<std::unique_ptr<LoadedModel>> load_model(const RunOptions& options, Cli& cli,
                                                bool with_mtp) {
  GLINT_TRY(const ModelOptions resolved, resolve(options, cli, with_mtp));
  GLINT_TRY(const int threads, resolve_threads(options.threads, cli.environment));
  GLINT_TRY(
      std::unique_ptr<Ops> ops,
      make_backend({.name = options.backend, .cpu_isa = options.cpu_isa, .threads = threads}));
  std::unique_ptr<Progress> progress;
  std::int64_t shown = 0;
  const LoadProgress report = [&](std::int64_t done, std::int64_t total) {
    if (!progress) progress = std::make_unique<Progress>("loading", total, Progress::Unit::kBytes);
    progress->add(done - shown);
    shown = done;
  };
  return LoadedModel::load(resolved, std::move(ops), report);
}

}  // namespace glint
