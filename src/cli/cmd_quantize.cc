// glint quantize: a checkpoint in another format.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/json.h"
#include "base/progress.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/option_checks.h"
#include "quant/convert.h"

namespace glint {
namespace {

struct Nvfp4Flags {
  std::optional<ScaleRule> scale;
  bool power_of_two = true;
  std::optional<Nvfp4Layout> layout;
  std::string calibration;
  std::optional<float> headroom, input_scale;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("NVFP4");
    v("scale", scale,
      "how the scale of 16 weights is chosen: of least error among the numbers from amax/8 to "
      "amax/3.5; amax/6, as ModelOpt; the better of amax/6 and amax/4 (default: search)",
      {"search", "absmax", "four-over-six"});
    v("power-of-two", power_of_two,
      "round weight_scale_2 up to a power of two, so that every weight is exactly a BF16 number; "
      "--no-power-of-two writes amax/2688, as ModelOpt");
    v("layout", layout, "names and descriptors of the result (default: modelopt)",
      {"modelopt", "compressed-tensors"});
    v("calibration=FILE", calibration, "input scales from a file of glint calibrate");
    v("headroom=X", headroom,
      "input_scale is so many times the calibrated amax / 2688 (default: 2)");
    v("input-scale=X", input_scale,
      "input_scale without calibration; 1 clips nothing below 2688 and loses no bits of groups "
      "above 0.1 (default: 1)");
  }
};

struct OtherSpelling {
  std::optional<std::string> model_dir, save_dir, strategy;
  std::vector<int> block_size;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("As other converters spell it");
    v("model-dir", model_dir, "SRC");
    v("save-dir", save_dir, "OUT");
    v("strategy", strategy, "block is what there is; implies --format fp8",
      {"block", "channel", "tensor"});
    v("block-size=N N", block_size, "128 128 is what there is");
  }
};

struct Options : Nvfp4Flags, OtherSpelling {
  std::optional<std::string> source, out;
  std::optional<TargetFormat> format;
  std::optional<Scope> scope;
  std::vector<std::string> rules, exclude;
  std::optional<MtpChoice> mtp;
  std::optional<Fp8ScaleFormat> scale_fmt;
  int max_shard_mb = 4096;
  std::optional<int> threads = {};
  bool json = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("SRC", source, "directory of a checkpoint, or an id in the Hugging Face cache");
    v("OUT", out, "the directory to make; while it is made, it is called OUT.partial");
    v("format,f", format, "what the weights become; bf16 undoes fp8 and nvfp4",
      {"nvfp4", "fp8", "bf16"});
    v("threads,t,max-workers=N", threads, "threads (default: OMP_NUM_THREADS, else one per CPU)");
    v("max-shard-mb=MB", max_shard_mb, "size of the files of OUT, in MiB");
    v("json", json, "print one JSON object");
    v.section("Which layers");
    v("scope", scope,
      "experts: routed experts; mlp: shared experts and dense layers too; all-linear: attention "
      "too (fp8: and the indexer) (default: nvfp4 experts, fp8 all-linear)",
      {"experts", "mlp", "all-linear"});
    v("rules=GLOB", rules,
      "instead of --scope, the layers whose names match, as model.layers.*.mlp.experts.*; "
      "repeatable");
    v("exclude=GLOB", exclude, "but not these; repeatable");
    v("mtp", mtp,
      "the draft layer: left as it is, or converted as the others (default: nvfp4 "
      "exclude, fp8 convert)",
      {"exclude", "convert"});
    Nvfp4Flags::visit(v);
    v.section("FP8");
    v("scale-fmt", scale_fmt, "scales of blocks: any f32, or powers of two (default: fp32)",
      {"fp32", "ue8m0"});
    OtherSpelling::visit(v);
  }
};

// Fails if an option was given that means nothing for the format.
Status check_options(const Options& o, TargetFormat format) {
  struct Given {
    const char* option;
    bool given, for_nvfp4, for_fp8;
  };
  const Given all[] = {{"--scope", o.scope.has_value(), true, true},
                       {"--rules", !o.rules.empty(), true, true},
                       {"--exclude", !o.exclude.empty(), true, true},
                       {"--mtp", o.mtp.has_value(), true, true},
                       {"--scale", o.scale.has_value(), true, false},
                       {"--no-power-of-two", !o.power_of_two, true, false},
                       {"--layout", o.layout.has_value(), true, false},
                       {"--calibration", !o.calibration.empty(), true, false},
                       {"--headroom", o.headroom.has_value(), true, false},
                       {"--input-scale", o.input_scale.has_value(), true, false},
                       {"--scale-fmt", o.scale_fmt.has_value(), false, true},
                       {"--strategy", o.strategy.has_value(), false, true},
                       {"--block-size", !o.block_size.empty(), false, true}};
  constexpr const char* kNames[] = {"nvfp4", "fp8", "bf16"};
  for (const Given& one : all) {
    const bool fits = (format == TargetFormat::kNvfp4 && one.for_nvfp4) ||
                      (format == TargetFormat::kFp8 && one.for_fp8);
    if (!one.given || fits) continue;
    return invalid(str(one.option, " means nothing for --format ",
                       kNames[static_cast<std::size_t>(format)], "; leave one of them out"));
  }
  if (o.scope && !o.rules.empty()) {
    return invalid("--scope and --rules are both given; expected one of them");
  }
  if (o.headroom && o.calibration.empty()) {
    return invalid("--headroom is for calibrated ranges; give --calibration too");
  }
  if (o.input_scale && !o.calibration.empty()) {
    return invalid("--input-scale and --calibration are both given; expected one of them");
  }
  return Ok{};
}

Result<Recipe> make_recipe(const Options& options) {
  if (!options.format && !options.strategy) {
    return invalid("--format is missing: nvfp4, fp8 or bf16");
  }
  Recipe recipe;
  recipe.format = options.format.value_or(TargetFormat::kFp8);
  const bool is_fp8 = recipe.format == TargetFormat::kFp8;
  GLINT_TRY_STATUS(check_options(options, recipe.format));
  if (options.strategy && *options.strategy != "block") {
    return invalid(str("--strategy is ", *options.strategy,
                       "; expected block: engines load this architecture in blocks only"));
  }
  if (!options.block_size.empty() && options.block_size != std::vector<int>{128, 128}) {
    return invalid("--block-size must be 128 128: engines load this architecture in these only");
  }
  recipe.scope = options.scope.value_or(is_fp8 ? Scope::kAllLinear : Scope::kExperts);
  recipe.mtp = options.mtp.value_or(is_fp8 ? MtpChoice::kConvert : MtpChoice::kExclude);
  recipe.rules = options.rules;
  recipe.excludes = options.exclude;
  recipe.scale = options.scale.value_or(recipe.scale);
  recipe.power_of_two = options.power_of_two;
  recipe.layout = options.layout.value_or(recipe.layout);
  recipe.headroom = options.headroom.value_or(recipe.headroom);
  recipe.input_scale = options.input_scale.value_or(recipe.input_scale);
  recipe.fp8_scales = options.scale_fmt.value_or(recipe.fp8_scales);
  if (!(recipe.headroom >= 1 && recipe.headroom <= 1024)) {
    return invalid(str("--headroom is ", recipe.headroom, "; expected a number from 1 to 1024"));
  }
  if (!(recipe.input_scale > 0 && std::isnormal(recipe.input_scale))) {
    return invalid(str("--input-scale is ", recipe.input_scale, "; expected a number from ",
                       std::numeric_limits<float>::min(), " on"));
  }
  return recipe;
}

Result<std::string> one_of(const std::optional<std::string>& a, const std::optional<std::string>& b,
                           const char* name, const char* option) {
  if (a && b) return invalid(str(name, " and ", option, " are both given; expected one of them"));
  if (a || b) return a ? *a : *b;
  return invalid(str(name, " is missing: a directory"));
}

std::string describe(const Manifest& manifest) {
  std::string text = formatted("%-16s %18s %18s %10s\n", "", "weights", "relative error", "SQNR");
  for (const auto& [role, sum] : manifest.errors()) {
    text += formatted("%-16s %18s %18.3e %7.1f dB\n", name_of(role),
                      with_commas(sum.weights).c_str(), sum.relative(),
                      sum.squared_error > 0 ? -10 * std::log10(sum.relative()) : INFINITY);
  }
  return text;
}

Status report(const Options& options, const std::string& out, const Manifest& manifest, Cli& cli) {
  std::int64_t bytes = 0;
  for (const FinishedShard& shard : manifest.shards) bytes += shard.bytes;
  if (options.json) {
    cli.console.print(dump_json(to_json(manifest), JsonStyle::kIndent2) + "\n");
    return Ok{};
  }
  cli.console.print(describe(manifest));
  cli.console.print(str("\n", out, ": ", human_bytes(bytes), " in ",
                        counted(std::ssize(manifest.shards), "file"),
                        "; relative error is sum(err^2) / sum(w^2)\n"));
  return Ok{};
}

void tell_unseen(const std::vector<std::string>& unseen, Cli& cli) {
  if (unseen.empty()) return;
  constexpr std::size_t kShown = 5;
  std::string names = joined(std::span(unseen).first(std::min(kShown, unseen.size())), ", ");
  if (unseen.size() > kShown) names += str(", and ", unseen.size() - kShown, " more");
  cli.console.note(str("glint: ", unseen.size(),
                       " matrices of experts saw no token of the calibration, or zeros alone, and "
                       "take the largest range of their layer: ",
                       names, " (all are listed in ", kManifestName, ")"));
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check_least("max-shard-mb", options.max_shard_mb, 1));
  GLINT_TRY(const Recipe recipe, make_recipe(options));
  GLINT_TRY(const std::string source,
            one_of(options.source, options.model_dir, "SRC", "--model-dir"));
  GLINT_TRY(const std::string out, one_of(options.out, options.save_dir, "OUT", "--save-dir"));
  GLINT_TRY(const std::string dir, model_dir(source, cli, ModelPart::kWeights));
  GLINT_TRY(const int threads, resolve_threads(options.threads, cli.environment));
  GLINT_TRY(Conversion conversion,
            Conversion::prepare({.source = dir,
                                 .out = out,
                                 .recipe = recipe,
                                 .calibration = options.calibration,
                                 .max_shard_bytes = std::int64_t{options.max_shard_mb} << 20}));
  note_unused(dir, conversion.unused_tensors(), cli, "copied as they are");
  tell_unseen(conversion.unseen_experts(), cli);
  if (conversion.num_finished()) {
    Progress progress("checking what is finished", conversion.finished_bytes(),
                      Progress::Unit::kBytes);
    GLINT_TRY_STATUS(conversion.check_finished([&](std::int64_t bytes) { progress.add(bytes); }));
    cli.console.note(str("glint: going on after ", conversion.num_finished(), " of ",
                         conversion.num_shards(), " files"));
  }
  ThreadPool pool(threads);
  {
    Progress progress("converting", conversion.bytes_to_read(), Progress::Unit::kBytes);
    GLINT_TRY_STATUS(conversion.run(pool, [&](std::int64_t bytes) { progress.add(bytes); }));
  }
  return report(options, out, conversion.manifest(), cli);
}

}  // namespace

Command quantize_command() {
  return make_command<Options>(
      {.name = "quantize",
       .group = "Checkpoints",
       .summary = "write a checkpoint in NVFP4, FP8 or BF16",
       .description =
           "Reads SRC once and writes OUT, which vLLM, SGLang, TensorRT-LLM and glint load: NVFP4 "
           "with 16 weights to a scale, FP8 with 128 x 128, or BF16 again from either. It takes "
           "a few hundred MB whatever the model's size, and no GPU. If it is "
           "interrupted or killed, the same command goes on where it was; the result is the same "
           "to the byte. Tokenizer, chat template and other small files are copied. It prints how "
           "far the weights moved; glint verify checks the result.",
       .examples = {{"glint quantize models/glm5-tiny /tmp/tiny-nvfp4 --format nvfp4",
                     "the routed experts in NVFP4, the rest as it is"},
                    {"glint quantize zai-org/GLM-5 GLM-5-FP8 --format fp8 --scale-fmt ue8m0",
                     "as the published FP8 release, with scales that need no second rounding on "
                     "Blackwell"},
                    {"glint quantize zai-org/GLM-5-FP8 GLM-5-BF16 --format bf16", "FP8 undone"}}},
      run);
}

}  // namespace glint
