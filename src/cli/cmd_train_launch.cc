// glint train prepare, prepare-cp, train, full-train: miles' recipe for GLM-5, as it is typed
// there.
#include <algorithm>

#include "base/option_value.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/option_checks.h"
#include "cli/train_stages.h"

namespace glint {
namespace {

enum class Stage { kPrepare, kCopy, kTrain, kAll };

struct All : LaunchOptions, CommonOptions {
  template <class Visitor>
  void visit(Visitor&& v) {
    LaunchOptions::visit(v);
    CommonOptions::visit(v);
  }
};

// Divides a command line into the launcher's own arguments and the flags of others' programs.
Status divide(std::span<const std::string> args, const OptionList& own,
              std::vector<std::string>& mine, std::vector<std::string>& others) {
  while (!args.empty()) {
    const std::string& arg = args.front();
    std::string name = arg.starts_with("--") ? with_dashes(arg.substr(2)) : "";
    name = name.substr(0, name.find('='));
    const Option* option = own.find(name);
    const std::string positive = name.starts_with("no-") ? name.substr(3) : name;
    if (!option) option = own.find(positive);
    const bool is_others = find_train_flag(name) || find_train_flag(positive);
    if (!option && !is_others && !name.empty() && name != "help") {
      std::vector<std::string> names;
      for (const Option& one : own.options()) names.push_back(one.name);
      return unknown_train_flag(arg.substr(0, arg.find('=')), positive, std::move(names));
    }
    const bool is_mine = option || !is_others;
    std::vector<std::string>& to = is_mine ? mine : others;
    to.push_back(arg);
    args = args.subspan(1);
    // A flag of others takes the words up to the next one, an option of ours one.
    const bool takes = option && !option->is_flag && arg.find('=') == arg.npos;
    if (takes && !args.empty()) {
      to.push_back(args.front());
      args = args.subspan(1);
    }
    while (!is_mine && !args.empty() && !args.front().starts_with("--")) {
      to.push_back(args.front());
      args = args.subspan(1);
    }
  }
  return Ok{};
}

bool trains(Stage stage) { return stage == Stage::kTrain || stage == Stage::kAll; }

Status run_stages(Stage stage, const Launch& launch, Cli& cli) {
  if (stage == Stage::kPrepare || stage == Stage::kAll) {
    GLINT_TRY_STATUS(prepare_run(launch, cli));
  }
  if (stage == Stage::kCopy || stage == Stage::kAll) {
    GLINT_TRY_STATUS(copy_to_node(launch, cli));
  }
  return trains(stage) ? train_run(launch, cli) : Ok{};
}

Status run(Stage stage, const CommandInfo& info, std::span<const std::string> args, Cli& cli) {
  All options;
  OptionList own(options);
  // Variables come first: the command line wins.
  std::vector<std::string> mine;
  for (const auto& [name, value] : cli.environment.all) {
    constexpr std::string_view kPrefix = "MILES_SCRIPT_";
    if (!name.starts_with(kPrefix)) continue;
    const std::string flag = with_dashes(lower(name.substr(kPrefix.size())));
    const Option* const option = own.find(flag);
    // Scripts write True and TRUE, too.
    mine.push_back(str("--", flag, "=", option && option->is_flag ? lower(value) : value));
    All ignored;
    OptionList alone(ignored);
    GLINT_TRY_STATUS(alone.parse(std::span(&mine.back(), 1)).in(name).in(info.name));
  }
  GLINT_TRY_STATUS(divide(args, own, mine, options.flags).in(info.name));
  GLINT_TRY(const bool go_on, prepare_command(info, own, options, mine, cli));
  if (!go_on) return Ok{};
  const auto& variables = cli.environment.all;
  const auto of_job = variables.find("SLURM_JOB_NUM_NODES");
  if (int nodes = 0; !is_given(own, "num-nodes") && of_job != variables.end() &&
                     parse_option(of_job->second, nodes)) {
    options.num_nodes_of_job = nodes;
  }
  GLINT_TRY(Launch launch, resolve_launch(options));
  const bool launches = trains(stage) && !options.dry_run;
  if (launches && !launch.is_named) {
    launch.notes.push_back(str("--run-id ", launch.options.run_id, " goes on with this run"));
  }
  const Result<int> rank = launches ? rank_of_launch(launch, stage == Stage::kAll, cli) : 0;
  if (!rank.ok() || rank.value() == 0) {
    cli.console.print(options.json ? dump_json(to_json(launch), JsonStyle::kIndent2) + "\n"
                                   : to_text(launch) + (options.dry_run ? "" : "\n"));
    cli.console.flush();
  }
  if (!launch.plan.misfit.empty()) {
    return invalid(str(options.model_name, " cannot be trained so: ", launch.plan.misfit));
  }
  if (options.dry_run) return Ok{};
  if (launches) {
    GLINT_TRY_STATUS(check_built(launch));
    GLINT_TRY_STATUS(rank);
  }
  return run_stages(stage, launch, cli);
}

Command launch_command(Stage stage, const char* name, const char* summary,
                       const char* description) {
  return {
      .info = {.name = name,
               .group = "Training",
               .summary = summary,
               .description =
                   str(description,
                       " The flags are those of miles' launcher for GLM-5, with its defaults; "
                       "flags of miles, slime, Megatron-LM and SGLang are kept, mapped, or named "
                       "as without meaning. First a plan is printed: layout, memory of a GPU, "
                       "traffic, the least time of a round. GPUs train, a rank on each: those of "
                       "this machine, or of several nodes where a launcher starts a process for "
                       "each; with --hardware cpu one process. What is planned only is refused "
                       "when it is launched, not by --dry-run. A plan that does not fit ends with "
                       "exit code 2 and its numbers."),
               .examples = {{str("glint ", name, " --model-name GLM-5 --num-nodes 16 --dry-run"),
                             "the plan of the published recipe"},
                            {str("glint ", name,
                                 " --model-name glm5-tiny --model-dir models --model-local-dir "
                                 "models \\\n      --output-dir out --run-id first --num-rollout "
                                 "20 --prompt-data models/rl/train.jsonl \\\n      "
                                 "--rollout-max-response-len 120 --lr 1e-4"),
                             "the bundled model, here"}}},
      .run = [stage](const CommandInfo& info, std::span<const std::string> args, Cli& cli) {
        return run(stage, info, args, cli);
      }};
}

}  // namespace

Command train_prepare_command() {
  return launch_command(Stage::kPrepare, "train prepare", "checkpoint and data of a recipe",
                        "Fetches what is not there, and checks the configuration. Checkpoints are "
                        "trained as they are: nothing is converted.");
}

Command train_prepare_cp_command() {
  return launch_command(Stage::kCopy, "train prepare-cp", "its checkpoint to this node's disk",
                        "Copies the checkpoint from --model-dir to --model-local-dir; files of the "
                        "same size and time stay.");
}

Command train_train_command() {
  return launch_command(Stage::kTrain, "train train", "train by a recipe, after prepare",
                        "Trains, or goes on from the newest checkpoint of --run-id.");
}

Command train_full_train_command() {
  return launch_command(Stage::kAll, "train full-train", "prepare, copy and train by a recipe",
                        "All stages one after another; what is done already stays as it is.");
}

}  // namespace glint
