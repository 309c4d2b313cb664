#include "cli/train_stages.h"

#include <filesystem>

#include "base/file.h"
#include "base/progress.h"
#include "base/str.h"
#include "cli/backends.h"
#include "cli/commands.h"
#include "cli/hub_model.h"
#include "cli/served_ranks.h"
#include "plan/known_models.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

Status run_command(const Command& command, const std::vector<std::string>& args, Cli& cli) {
  return command.run(command.info, args, cli);
}

void tell(Cli& cli, std::string_view what, std::string_view state) {
  cli.console.print(str(what, ": ", state, "\n"));
  cli.console.flush();
}

Status fetch(const std::string& id, const std::string& type, const std::string& dir, Cli& cli) {
  if (cli.environment.hf_offline) {
    return invalid(
        str(dir, " is not there, and HF_HUB_OFFLINE is set; unset it, or put ", id, " there"));
  }
  GLINT_TRY(Repository repository, parse_repository(id, type, ""));
  GLINT_TRY(const std::string folder,
            pull(hub_options(cli), {.repository = std::move(repository), .local_dir = dir}, cli));
  tell(cli, folder, "fetched");
  return Ok{};
}

Status prepare_model(const Launch& launch, Cli& cli) {
  const LaunchOptions& o = launch.options;
  const std::string dir = launch.shared_model();
  if (file_exists(dir + "/config.json") && !lacks_weights(dir)) {
    tell(cli, dir, "is there");
  } else {
    const std::string org = o.model_name.ends_with("layer") ? "Pinaster" : o.model_org;
    GLINT_TRY_STATUS(fetch(str(org, "/", o.model_name), "model", dir, cli));
  }
  GLINT_TRY(const ModelConfig config, read_config(dir + "/config.json"));
  if (launch.is_published && !same_model(config, find_known_model(o.model_name)->config)) {
    return invalid(str(dir, "/config.json is not that of ", o.model_name,
                       "; remove the folder, or give another --model-name"));
  }
  return Ok{};
}

// A data set of the recipe is fetched; one that the user names must be there.
Status prepare_data(const std::string& given, const std::string& of_recipe, const char* id,
                    Cli& cli) {
  const std::string path = given.substr(0, given.rfind("@["));
  if (file_exists(path)) {
    tell(cli, path, "is there");
    return Ok{};
  }
  if (path != of_recipe) return invalid(str("there is no file ", path));
  return fetch(id, "dataset", fs::path(of_recipe).parent_path(), cli);
}

struct CopyJob {
  fs::path from, to;
  std::int64_t bytes = 0;
};

// Files below `from` that `to` lacks, or has with another size or time.
Result<std::vector<CopyJob>> jobs_of(const std::string& from, const std::string& to) {
  std::error_code error;
  std::vector<CopyJob> jobs;
  for (fs::recursive_directory_iterator it(from, error), end; !error && it != end;
       it.increment(error)) {
    if (!it->is_regular_file(error)) continue;
    const fs::path target = fs::path(to) / fs::relative(it->path(), from, error);
    const auto size = static_cast<std::int64_t>(it->file_size(error));
    std::error_code none;
    const bool same = fs::exists(target, none) &&
                      static_cast<std::int64_t>(fs::file_size(target, none)) == size &&
                      fs::last_write_time(target, none) == it->last_write_time(error);
    if (!same) jobs.push_back({it->path(), target, size});
  }
  if (error) return invalid(str("cannot read ", from, ": ", error.message()));
  return jobs;
}

Status copy_folder(const std::string& from, const std::string& to, Cli& cli) {
  std::error_code error;
  if (fs::equivalent(from, to, error)) {
    tell(cli, to, "is the folder for all nodes");
    return Ok{};
  }
  GLINT_TRY(const std::vector<CopyJob> jobs, jobs_of(from, to));
  std::int64_t bytes = 0;
  for (const CopyJob& job : jobs) bytes += job.bytes;
  Progress progress("copying " + from, std::max<std::int64_t>(bytes, 1), Progress::Unit::kBytes);
  for (const CopyJob& job : jobs) {
    const fs::path part = job.to.string() + ".part";
    error.clear();
    fs::create_directories(job.to.parent_path(), error);
    if (!error) fs::copy_file(job.from, part, fs::copy_options::overwrite_existing, error);
    if (!error) fs::last_write_time(part, fs::last_write_time(job.from, error), error);
    if (!error) fs::rename(part, job.to, error);
    if (error) {
      return invalid(
          str("cannot copy ", job.from.string(), " to ", job.to.string(), ": ", error.message()));
    }
    progress.add(job.bytes);
  }
  tell(cli, to, jobs.empty() ? "is there" : counted(std::ssize(jobs), "file") + " copied");
  return Ok{};
}

// Before the model is copied to where training reads it.
Status check_prepared_reference(const Launch& launch, Cli& cli) {
  TranslatedTrainArgs args = launch.args;
  std::string& model = args.values["hf-checkpoint"];
  if (model == launch.local_model()) model = launch.shared_model();
  if (!file_exists(model + "/config.json")) return Ok{};  // training fails without it
  return check_reference(args, cli.environment.hf_hub_cache);
}

}  // namespace

Status prepare_run(const Launch& launch, Cli& cli) {
  GLINT_TRY_STATUS(prepare_model(launch, cli));
  GLINT_TRY_STATUS(check_prepared_reference(launch, cli));
  GLINT_TRY_STATUS(prepare_data(launch.args.value("prompt-data"), launch.prompts(),
                                "zhuzilin/dapo-math-17k", cli));
  if (const std::string eval = launch.args.value("eval-prompt-data"); !eval.empty()) {
    GLINT_TRY_STATUS(prepare_data(eval, launch.eval_prompts(), "zhuzilin/aime-2024", cli));
  }
  return Ok{};
}

Status copy_to_node(const Launch& launch, Cli& cli) {
  if (!file_exists(launch.shared_model() + "/config.json")) {
    return invalid(str(launch.shared_model(), " is not there; `glint train prepare` makes it"));
  }
  return copy_folder(launch.shared_model(), launch.local_model(), cli);
}

Status check_built(const Launch& launch) {
  if (launch.planned.empty()) return Ok{};
  return unsupported(str("planned only, not built: ", joined(launch.planned, "; "),
                         launch.options.enable_pd ? "; --no-enable-pd answers without them," : ";",
                         " --dry-run shows the plan"));
}

Result<int> rank_of_launch(const Launch& launch, bool prepares, const Cli& cli) {
  if (launch.on_cpu) return 0;
  const TrainPlanOptions& plan = launch.plan.options;
  const int ranks = plan.layout.gpus, nodes = ranks / plan.gpus_per_node;
  if (nodes == 1) {
    GLINT_TRY_STATUS(check_devices(ranks, false, "train by one process with --hardware cpu"));
    return 0;
  }
  if (!prepares) {
    GLINT_TRY(const std::optional<RankEnv> env,
              launched_rank(ranks, str("the layout has ", ranks, " ranks"), cli));
    if (env && !launch.is_named) {
      return invalid("over several nodes each process must know the run: give --run-id");
    }
    if (env) return env->rank;
  }
  return invalid(str(nodes, " nodes train by ", ranks,
                     " processes: start `glint train train` once for each GPU, by srun, torchrun "
                     "or mpirun, after `glint train prepare`, and `glint train prepare-cp` on each "
                     "node"));
}

Status train_run(const Launch& launch, Cli& cli) {
  const std::string model = launch.args.value("hf-checkpoint");
  if (!file_exists(model + "/config.json")) {
    return invalid(str(model,
                       " is not there; `glint train prepare` and `glint train prepare-cp` "
                       "make it"));
  }
  GLINT_TRY_STATUS(check_reference(launch.args, cli.environment.hf_hub_cache));
  return run_command(train_grpo_command(), launch.grpo(), cli);
}

}  // namespace glint
