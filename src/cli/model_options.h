// Options of every command that runs a model, and how they become a loaded model on a backend.
#pragma once

#include <memory>
#include <string>

#include "cli/backends.h"
#include "cli/command.h"
#include "cli/hub_model.h"
#include "runtime/loaded_model.h"

namespace glint {

// Help of those options that commands put in their own terms.
struct ComputeHelp {
  const char* dtype = "what to compute in; f32 rounds nothing to bf16 anywhere";
  const char* backend = "who computes; auto: a GPU that is fit for it, else the CPU";
};

struct ComputeOptions {
  std::string backend = "auto";
  std::string cpu_isa = "auto";
  std::optional<int> threads = {};
  std::string dtype = "bf16";
  std::string index = {};  // empty: exact with f32, else fp8

  template <class Visitor>
  void visit(Visitor&& v, const ComputeHelp& help = {}) {
    v.section("Running");
    v("dtype", dtype, help.dtype, {"bf16", "f32"});
    v("index", index,
      "index keys as they are, or in fp8 as in production (default: exact with f32, else fp8)",
      {"exact", "fp8"});
    v("threads,t=N", threads, "threads (default: OMP_NUM_THREADS, else one per CPU)");
    v("backend", backend, help.backend, {"auto", "cpu", "reference", "cuda"});
    v("cpu-isa", cpu_isa, "instruction set of the cpu backend (default: the best of this machine)",
      {"auto", "avx2", "avx512", "avx512_bf16", "amx", "amx_emulated"});
  }
};

struct RunOptions : ComputeOptions {
  std::string model = {};
  std::string kv_dtype = {};  // empty: dtype
  std::string load_format = "auto";
  std::string pack = "auto";

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model, "directory of a checkpoint, or an id in the Hugging Face cache");
    visit_running(v);
  }

  // All but MODEL.
  template <class Visitor>
  void visit_running(Visitor&& v) {
    ComputeOptions::visit(v);
    v("kv-dtype", kv_dtype, "KV cache (default: that of --dtype)", {"f32", "bf16", "fp8"});
    v("load-format", load_format,
      "auto: the checkpoint's files; dummy_*: synthetic weights in memory, from config.json alone",
      {"auto", "dummy", "dummy_bf16", "dummy_fp8", "dummy_nvfp4"});
    v("pack", pack,
      "copy weights into the order of the kernels, for speed; auto: if the copies fit in memory, "
      "else they are read where the files are mapped",
      {"auto", "always", "never"});
  }
};

// "exact" or "fp8": --index, or its default.
std::string index_of(const ComputeOptions& options);

// Names of --dtype, --kv-dtype and --index, all given, as formats.
NumberFormats number_formats(std::string_view dtype, std::string_view kv_dtype,
                             std::string_view index);

// The part of MODEL that runs: no weights where they are made up.
ModelPart part_of(const RunOptions& options);

// Options as the runtime takes them; what the user left open is decided here. Of a model at the
// hub `part` is fetched.
Result<ModelOptions> resolve(const RunOptions& options, const Cli& cli, bool with_mtp,
                             ModelPart part);
Result<ModelOptions> resolve(const RunOptions& options, const Cli& cli, bool with_mtp);

Result<std::unique_ptr<Backend>> make_backend(const ComputeOptions& options, const Cli& cli);
Result<BackendOptions> backend_options(const ComputeOptions& options, const Cli& cli);

// Warns of tensors of `dir` that its configuration leaves out.
void note_unused(const std::string& dir, const std::vector<std::string>& unused, Cli& cli,
                 std::string_view fate = "not used");
// Warns so of a model that is trained, and saved without them.
void note_untrained(const LoadedModel& model, Cli& cli);

// Loads onto `backend`, with a progress bar. `opened`: the model, if it has been looked at already.
Result<std::unique_ptr<LoadedModel>> load_model(const ModelOptions& resolved,
                                                DecoratedBackend backend, Cli& cli,
                                                std::optional<OpenedModel> opened = {});
Result<std::unique_ptr<LoadedModel>> load_model(const RunOptions& options, Cli& cli, bool with_mtp);

// Fails if an option that needs the MTP layer is `wanted` of a model in `dir` without one.
Status check_mtp(const OpenedModel& model, const std::string& dir, bool wanted, const char* option);

}  // namespace glint
