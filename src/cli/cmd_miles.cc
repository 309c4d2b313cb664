// glint miles, glint slime: argument lists of these trainers, as `glint train grpo`.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/train_flags.h"

namespace glint {
namespace {

struct Options : CommonOptions {};

constexpr int kMostSize = 1024;

// Parts of a plan for GPUs that decide nothing here.
constexpr std::pair<const char*, const char*> kDecidedHere[] = {
    {"rollout-num-gpus-per-engine", "the engine is on the ranks that divide the model"},
    {"sglang-mem-fraction-static", "the engine decides it"},
    {"update-weight-buffer-size", "weights are updated where they lie"},
    {"optimizer-cpu-offload", "masters and moments are always the host's"}};

// The sizes that the list has, as those of `glint train grpo`. There a group of sequences, of which
// each is on `context-parallel-size` ranks, is a shard a rank.
Status add_layout(TranslatedTrainArgs& args) {
  const auto size_of = [&](const char* flag, int otherwise) -> Result<int> {
    const auto at = args.values.find(flag);
    if (at == args.values.end()) return otherwise;
    int size = 0;
    if (option_detail::parse(at->second, size) && size >= 1 && size <= kMostSize) return size;
    return invalid(str("--", flag, " is ", quoted(at->second),
                       "; expected a whole number from 1 to ", kMostSize));
  };
  for (const char* flag : {"expert-tensor-parallel-size", "decoder-last-pipeline-num-layers"}) {
    GLINT_TRY(const int size, size_of(flag, 1));
    if (size > 1) args.planned.push_back(str("--", flag, " ", size));
  }
  for (const auto& [flag, reason] : kDecidedHere) {
    const auto at = args.values.find(flag);
    if (at != args.values.end()) args.meaningless[reason] += str(" --", flag, " ", at->second);
  }
  GLINT_TRY(const int tp, size_of("tensor-model-parallel-size", 1));
  GLINT_TRY(const int pp, size_of("pipeline-model-parallel-size", 1));
  GLINT_TRY(const int cp, size_of("context-parallel-size", 1));
  GLINT_TRY(const int ep, size_of("expert-model-parallel-size", 1));
  GLINT_TRY(const int nodes, size_of("actor-num-nodes", 1));
  const std::int64_t of_model = std::int64_t{tp} * pp * cp;
  GLINT_TRY(const std::int64_t of_node,
            size_of("actor-num-gpus-per-node",
                    static_cast<int>(std::clamp<std::int64_t>(of_model / nodes, 1, kMostSize))));
  if (nodes * of_node % of_model != 0) {
    return invalid(str("--actor-num-nodes ", nodes, " of ", of_node, " are ", nodes * of_node,
                       " ranks, and tensor, pipeline and context parallel sizes ", tp, ", ", pp,
                       " and ", cp, " need a multiple of ", of_model));
  }
  for (const auto& [name, size] : {std::pair<const char*, std::int64_t>("tp", tp),
                                   {"dp", nodes * of_node / (tp * pp)},
                                   {"cp", cp},
                                   {"ep", ep},
                                   {"pp", pp}}) {
    if (size > 1) args.options.push_back(str("--", name, "=", size));
  }
  if (nodes > 1) args.options.push_back("--ranks=processes");
  return Ok{};
}

Status run(const CommandInfo& info, std::span<const std::string> args, Cli& cli) {
  Options options;
  OptionList own(options);
  const bool asks_help = args.empty() || args[0] == "--help" || args[0] == "-h";
  const std::string help[] = {"--help"};
  GLINT_TRY(
      const bool go_on,
      prepare_command(info, own, options, asks_help ? help : std::span<const std::string>(), cli));
  if (!go_on) return Ok{};
  GLINT_TRY(TranslatedTrainArgs given, translate_train_args(args).in(info.name));
  GLINT_TRY_STATUS(add_layout(given).in(info.name));
  if (!given.planned.empty()) {
    return unsupported(str(info.name, ": not built: ", joined(given.planned, "; ")));
  }
  const std::string &model = given.values["hf-checkpoint"], &load = given.values["load"];
  const std::string& save = given.values["save"];
  if (model.empty()) return invalid(str(info.name, ": give a checkpoint: --hf-checkpoint DIR"));
  if (!load.empty() && load != save) {
    return invalid(str(info.name, ": --load is ", load, " and --save ", quoted(save),
                       "; a run goes on in its own folder: give both the same"));
  }
  for (const auto& [reason, flags] : given.meaningless) {
    cli.console.note(str("ignored:", flags, " (", reason, ")"));
  }
  std::vector<std::string> grpo = {model};
  if (!load.empty()) grpo.push_back("--resume");
  std::ranges::copy(given.options, std::back_inserter(grpo));
  std::ranges::copy(default_options(given.values), std::back_inserter(grpo));
  const Command command = train_grpo_command();
  return command.run(command.info, grpo, cli);
}

Command as(const char* name) {
  return {
      .info =
          {.name = name,
           .group = "Training",
           .summary = str("`glint train grpo` by an argument list of ", name),
           .description =
               str("Takes what ", name,
                   "'s train.py takes, as far as recipes of GLM-5 use it: flags with a meaning "
                   "here keep it, --load that is --save goes on with the run, the others are "
                   "told as ignored, and what is not built is refused. Sizes make ranks: threads "
                   "here, and with --actor-num-nodes above 1 processes, which torchrun, "
                   "mpirun or srun may have started. `glint help train grpo` explains the "
                   "options."),
           .examples = {{str("glint ", name,
                             " --hf-checkpoint DIR --prompt-data F --input-key prompt --rm-type "
                             "math \\\n      --num-rollout 60 --rollout-batch-size 8 "
                             "--n-samples-per-prompt 4 --save D --load D"),
                         "begin, or go on"}}},
      .run = run};
}

}  // namespace

Command miles_command() { return as("miles"); }
Command slime_command() { return as("slime"); }

}  // namespace glint
