// glint miles, glint slime: argument lists of these trainers, as `glint train grpo`.
#include "base/str.h"
#include "cli/commands.h"
#include "cli/train_flags.h"

namespace glint {
namespace {

struct Options : CommonOptions {};

// Ranks that the list asks for, one by one: this is one process.
void find_ranks(TranslatedTrainArgs& args) {
  for (const auto& [flag, value] : args.values) {
    const TrainFlag* const known = find_train_flag(flag);
    int number = 0;
    if (known->does != TrainFlag::Does::kPlan || !option_detail::parse(value, number)) continue;
    if (number > 1) args.planned.push_back(str("--", flag, " ", value, ": training over ranks"));
  }
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
  find_ranks(given);
  if (!given.planned.empty()) {
    std::string all;
    for (const std::string& one : given.planned) all += (all.empty() ? "" : "; ") + one;
    return Error{ErrorCode::kUnsupported, str(info.name, ": not built: ", all)};
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
  grpo.insert(grpo.end(), given.options.begin(), given.options.end());
  const Command command = train_grpo_command();
  return command.run(command.info, grpo, cli);
}

Command as(const char* name) {
  return {.info = {.name = name,
                   .group = "Training",
                   .summary = str("`glint train grpo` by an argument list of ", name),
                   .description = str(
                       "Takes what ", name,
                       "'s train.py takes, as far as recipes of GLM-5 use it: flags with a meaning "
                       "here keep it, --load that is --save goes on with the run, the others are "
                       "told as ignored, and what is not built is refused. `glint help train grpo` "
                       "explains the options."),
                   .examples = {{str("glint ", name,
                                     " --hf-checkpoint DIR --prompt-data F --rm-type math "
                                     "--num-rollout 60 --save D --load D"),
                                 "begin, or go on"}}},
          .run = run};
}

}  // namespace

Command miles_command() { return as("miles"); }
Command slime_command() { return as("slime"); }

}  // namespace glint
