#include "cli/model_options.h"

#include <mutex>

#include "base/progress.h"
#include "base/str.h"
#include "cli/backends.h"
#include "model/inventory.h"

namespace glint {

std::string index_of(const ComputeOptions& options) {
  if (!options.index.empty()) return options.index;
  return options.dtype == "f32" ? "exact" : "fp8";
}

NumberFormats number_formats(std::string_view dtype, std::string_view kv_dtype,
                             std::string_view index) {
  const bool f32 = dtype == "f32";
  return {.activations = f32 ? DType::kF32 : DType::kBF16,
          .latent = kv_dtype == "f32"    ? LatentFormat::kF32
                    : kv_dtype == "bf16" ? LatentFormat::kBF16
                                         : LatentFormat::kFp8,
          .index = index == "fp8" ? IndexFormat::kFp8
                   : f32          ? IndexFormat::kF32
                                  : IndexFormat::kBF16};
}

ModelPart part_of(const RunOptions& options) {
  return options.load_format.starts_with("dummy") ? ModelPart::kText : ModelPart::kAll;
}

Result<ModelOptions> resolve(const RunOptions& options, const Cli& cli, bool with_mtp) {
  return resolve(options, cli, with_mtp, part_of(options));
}

Result<ModelOptions> resolve(const RunOptions& options, const Cli& cli, bool with_mtp,
                             ModelPart part) {
  ModelOptions out;
  const bool config_alone =
      options.load_format.starts_with("dummy") && options.model.ends_with(".json");
  if (config_alone) {
    out.dir = options.model;
  } else {
    GLINT_TRY(out.dir, model_dir(options.model, cli, part));
  }
  out.numbers =
      number_formats(options.dtype, options.kv_dtype.empty() ? options.dtype : options.kv_dtype,
                     index_of(options));
  if (options.load_format == "dummy" || options.load_format == "dummy_bf16")
    out.dummy = Release::kBF16;
  if (options.load_format == "dummy_fp8") out.dummy = Release::kFp8;
  if (options.load_format == "dummy_nvfp4") out.dummy = Release::kNvfp4;
  out.with_mtp = with_mtp;
  GLINT_TRY(out.threads, resolve_threads(options.threads, cli.environment));
  out.packing = options.pack == "auto"     ? Packing::kIfRoom
                : options.pack == "always" ? Packing::kAlways
                                           : Packing::kNever;
  return out;
}

Result<BackendOptions> backend_options(const ComputeOptions& options, const Cli& cli) {
  GLINT_TRY(const int threads, resolve_threads(options.threads, cli.environment));
  return BackendOptions{.name = options.backend, .cpu_isa = options.cpu_isa, .threads = threads};
}

Result<std::unique_ptr<Backend>> make_backend(const ComputeOptions& options, const Cli& cli) {
  GLINT_TRY(const BackendOptions resolved, backend_options(options, cli));
  return make_backend(resolved);
}

void note_unused(const std::string& dir, const std::vector<std::string>& unused, Cli& cli,
                 std::string_view fate) {
  if (!unused.empty()) cli.console.note("warning: " + describe_unused(dir, unused, fate));
}

void note_untrained(const LoadedModel& model, Cli& cli) {
  note_unused(model.options().dir, model.load_stats().unused, cli, "neither trained nor saved");
}

Result<std::unique_ptr<LoadedModel>> load_model(const ModelOptions& resolved,
                                                DecoratedBackend backend, Cli& cli,
                                                std::optional<OpenedModel> opened) {
  std::unique_ptr<Progress> progress;
  std::once_flag first;
  const LoadProgress report = [&](std::int64_t bytes, std::int64_t total) {
    std::call_once(first, [&] {
      progress = std::make_unique<Progress>("loading", total, Progress::Unit::kBytes);
    });
    progress->add(bytes);
  };
  GLINT_TRY(std::unique_ptr<LoadedModel> model,
            LoadedModel::load(resolved, std::move(backend), report, std::move(opened)));
  progress.reset();  // erases the bar before anything else is printed
  note_unused(model->options().dir, model->load_stats().unused, cli);
  const Placement& placement = model->load_stats().placement;
  if (resolved.packing == Packing::kIfRoom && placement.packed_bytes > 0 && !placement.is_packed) {
    cli.console.note(str("weights stay where the files are mapped, which is slower: packing takes ",
                         human_bytes(placement.packed_bytes), ", and ",
                         human_bytes(placement.available), " are free"));
  }
  return model;
}

Result<std::unique_ptr<LoadedModel>> load_model(const RunOptions& options, Cli& cli,
                                                bool with_mtp) {
  GLINT_TRY(const ModelOptions resolved, resolve(options, cli, with_mtp));
  GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(options, cli));
  return load_model(resolved, std::move(backend), cli);
}

Status check_mtp(const OpenedModel& model, const std::string& dir, bool wanted,
                 const char* option) {
  if (!wanted || model.has_mtp()) return Ok{};
  return invalid(str(dir, " has no MTP layer; leave --", option, " out"));
}

}  // namespace glint
