// glint pull: a repository of a Hugging Face hub to files here.
#include "base/str.h"
#include "cli/hub_model.h"
#include "cli/option_checks.h"

namespace glint {
namespace {

struct Options {
  std::string id;
  std::vector<std::string> files;
  std::string revision, repo_type = "model";
  std::vector<std::string> include, exclude;
  std::string cache_dir, local_dir, ca_file;
  bool dry_run = false;
  int connections = 8;
  int part_mib = 64;
  int retries = 5;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("ID", id, "of the repository: zai-org/GLM-5, or zai-org/GLM-5@revision");
    v("FILE", files, "names of files in it (default: all)");
    v("revision", revision, "branch, tag or commit (default: main)");
    v("repo-type", repo_type, "what the repository holds", {"model", "dataset"});
    v("include=PATTERN", include, "fetch only what matches, such as '*.json'; repeatable");
    v("exclude=PATTERN", exclude, "leave out what matches; repeatable");
    v("dry-run", dry_run, "print what would be fetched, and stop");
    v.section("Where to");
    v("cache-dir=DIR", cache_dir, "the cache (default: HF_HUB_CACHE, or hub in HF_HOME)");
    v("local-dir=DIR", local_dir, "as plain files in DIR, not in the cache");
    v.section("Network");
    v("connections=N", connections, "parts of files that are fetched at once");
    v("part-mib=N", part_mib, "size of a part");
    v("retries=N", retries, "how often in a row a part may fail without a byte");
    v("ca-file=FILE", ca_file, "PEM file of roots to trust (default: this machine's)");
  }
};

Status check_options(const Options& options) {
  GLINT_TRY_STATUS(check_range("connections", options.connections, 1, 256));
  GLINT_TRY_STATUS(check_range("part-mib", options.part_mib, 1, 1 << 14));
  GLINT_TRY_STATUS(check_range("retries", options.retries, 0, 1000));
  if (!options.cache_dir.empty() && !options.local_dir.empty())
    return invalid("--cache-dir and --local-dir exclude each other");
  return Ok{};
}

Status print_plan(const HubOptions& hub_options, PullRequest request, Cli& cli) {
  GLINT_TRY(HubClient hub, HubClient::open(hub_options));
  GLINT_TRY(const PullPlan plan, plan_pull(hub, std::move(request)));
  for (const HubFile& file : plan.files)
    cli.console.print(formatted("%12s  ", human_bytes(file.size).c_str()) + file.path + "\n");
  cli.console.print(str("commit ", plan.commit, ": ", counted(std::ssize(plan.files), "file"), ", ",
                        human_bytes(plan.total_bytes), ", of which ",
                        human_bytes(plan.missing_bytes), " would be fetched to ", plan.folder,
                        "\n"));
  return check_room(plan);
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check_options(options));
  GLINT_TRY(Repository repository,
            parse_repository(options.id, options.repo_type, options.revision));
  if (cli.environment.hf_offline)
    return invalid(str("HF_HUB_OFFLINE is set, and ", repository.id,
                       " would be fetched from a hub; unset it"));
  PullRequest request = {.repository = std::move(repository),
                         .files = options.files,
                         .include = options.include,
                         .exclude = options.exclude,
                         .cache_dir = options.cache_dir,
                         .local_dir = options.local_dir};
  if (request.cache_dir.empty()) request.cache_dir = cli.environment.hf_hub_cache;
  HubOptions hub = hub_options(cli);
  hub.ca_file = options.ca_file;
  hub.ca_option = "--ca-file";
  hub.connections = options.connections;
  hub.part_bytes = std::int64_t{options.part_mib} << 20;
  hub.max_attempts = options.retries + 1;
  if (options.dry_run) return print_plan(hub, std::move(request), cli);
  GLINT_TRY(const std::string folder, pull(std::move(hub), std::move(request), cli));
  cli.console.print(folder + "\n");
  return Ok{};
}

}  // namespace

Command pull_command() {
  return make_command<Options>(
      {.name = "pull",
       .group = "Checkpoints",
       .summary = "fetch a model or dataset from the Hugging Face hub",
       .description =
           "Fetches a repository over several connections into the cache that huggingface_hub "
           "keeps, where every command finds it by its id, and prints the folder. What is there "
           "already is not fetched again; what was cut goes on where it stopped. Every file's size "
           "and hash are compared with those that the hub lists. Patterns are those of the hub's "
           "own tools: * also matches /, and 'folder/' is all in it. HF_ENDPOINT names another "
           "hub, HF_TOKEN (or the file that `hf login` writes) opens what is private or gated. A "
           "command that is given an id that is not here fetches it in the same way, weights of "
           "other formats left out; with HF_HUB_OFFLINE=1 nothing is fetched.",
       .examples = {{"glint pull zai-org/GLM-5-FP8", "a checkpoint into the cache"},
                    {"glint pull zai-org/GLM-5 --include '*.json' --local-dir glm5",
                     "its small files, into a folder"}}},
      run);
}

}  // namespace glint
