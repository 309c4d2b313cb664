// glint miles, glint slime: argument lists of these trainers, as `glint train grpo`.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/train_sizes.h"

namespace glint {
namespace {

struct Options : CommonOptions {};

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
  leave_out_corrections(given);
  GLINT_TRY(const TrainPlanOptions sizes, read_sizes(given).in(info.name));
  GLINT_TRY_STATUS(divide_among_ranks(sizes, given).in(info.name));
  if (!given.planned.empty()) {
    return unsupported(str(info.name, ": not built: ", joined(given.planned, "; ")));
  }
  const std::string &model = given.values["hf-checkpoint"], &load = given.values["load"];
  const std::string& save = given.values["save"];
  if (model.empty()) return invalid(str(info.name, ": give a checkpoint: --hf-checkpoint DIR"));
  GLINT_TRY_STATUS(check_reference(given, cli.environment.hf_hub_cache).in(info.name));
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
