#include "cli/server_setup.h"

#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/hash.h"
#include "base/str.h"
#include "cli/generate_options.h"
#include "cli/served_ranks.h"
#include "model/inventory.h"
#include "model/release.h"
#include "plan/known_models.h"
#include "runtime/memory_plan.h"

namespace glint {
namespace {

// With the model at the revision that was asked for.
RunOptions at_revision(const ServeOptions& options, Cli& cli) {
  RunOptions out = options;
  if (options.revision.empty()) return out;
  if (is_directory(options.model)) {
    cli.console.note(str("ignored: --revision ", options.revision, " (a directory has one)"));
  } else {
    out.model += "@" + options.revision;
  }
  return out;
}

// The model's files. A dry run fetches no weights.
Result<ModelOptions> resolve(const ServeOptions& options, int drafts, Cli& cli) {
  const RunOptions run = at_revision(options, cli);
  Result<ModelOptions> found =
      resolve(run, cli, drafts > 0, options.dry_run ? ModelPart::kText : part_of(run));
  if (found.ok() || !options.dry_run || !find_known_model(options.model)) return found;
  Error error = std::move(found).take_error();
  error.message += str("; `glint plan ", options.model, "` needs no network");
  return error;
}

// A model that has a tokenizer; of weights that are still at the hub, and that a dry run does
// without, the release that the configuration names.
Status open_served(const ServeOptions& options, ServerSetup& setup, Cli& cli) {
  const ModelOptions& model = setup.model;
  if (model.dir.ends_with(".json"))
    return invalid(
        str(model.dir, " is a configuration alone; a server needs a directory with a tokenizer"));
  setup.release = model.dummy;
  const bool at_hub =
      options.dry_run && !model.dummy && !is_directory(options.model) && lacks_weights(model.dir);
  if (!at_hub) {
    GLINT_TRY(setup.opened, open_model(model));
    return Ok{};
  }
  GLINT_TRY(setup.opened, open_model(model.dir, ModelFiles::kConfig));
  const std::string& quantization = setup.opened.config.quantization;
  setup.release = release_of(setup.opened.config);
  if (!setup.release) {
    return invalid(str(quoted_path(options.model), " is quantised as ", quoted(quantization),
                       ", and its weights are not here; `glint plan ", options.model,
                       " --format F` plans them in a format of yours"));
  }
  cli.console.note(str("the weights of ", options.model, " are not here: planned as ",
                       name_of(*setup.release), ", as its configuration says"));
  return Ok{};
}

// The model without its weights.
ServeFacts facts_of(const OpenedModel& model, const std::string& dir, int drafts,
                    const Environment& environment) {
  ServeFacts facts;
  facts.config = model.config;
  facts.generation = model.generation;
  facts.dir = dir;
  facts.max_drafts = drafts;
  char host_name[256] = {};
  if (::gethostname(host_name, sizeof host_name - 1) == 0) facts.host_name = host_name;
  if (!environment.api_key.empty()) facts.environment_keys = {environment.api_key};
  return facts;
}

// Weights that no file here holds.
void add_release(Release release, bool made_up, ServeFacts& facts) {
  facts.formats = str(made_up ? "dummy " : "", name_of(release));
  facts.has_mtp = facts.config.num_nextn_predict_layers > 0;
}

// Facts from the headers of the weights.
Status add_weights(Checkpoint& checkpoint, ServeFacts& facts) {
  GLINT_TRY(const Inventory inventory, take_inventory(facts.config, checkpoint));
  // A plan that comes to nothing is not printed.
  GLINT_TRY_STATUS(inventory.check_complete(checkpoint.source().name(), facts.max_drafts > 0));
  facts.has_mtp = inventory.has_mtp;
  std::vector<std::pair<std::int64_t, std::string>> by_size;
  for (const auto& [format, size] : inventory.bytes_by_format())
    by_size.emplace_back(-size, format);
  std::sort(by_size.begin(), by_size.end());
  for (const auto& [size, format] : by_size)
    facts.formats += (facts.formats.empty() ? "" : " ") + format;
  return Ok{};
}

// RankEnv::asked. The model may have another path on each machine, and the same configuration.
Result<std::map<std::string, std::string>> asked_of(const ServeOptions& options,
                                                    const ServerSetup& setup) {
  std::map<std::string, std::string> asked = values_of(options, !setup.follows());
  asked.merge(values_of(setup.facts.ranks.shape, !setup.follows()));
  const int drafts = setup.facts.max_drafts;
  if (!setup.follows() || !options.spec.empty())
    asked["--spec"] = drafts == 0 ? "none" : str("mtp:", drafts);
  GLINT_TRY(const std::string config, read_file(setup.model.dir + "/config.json"));
  asked["a MODEL whose config.json has the checksum"] = hex_of(fnv1a(config));
  return asked;
}

// The memory of weights and steps of all ranks of this machine.
Status plan_model_memory(const ServeOptions& options, ServerSetup& setup) {
  ServeFacts& facts = setup.facts;
  const std::int64_t most = facts.config.max_position_embeddings;
  const std::int64_t longest = facts.asked_length == 0 ? most : std::min(facts.asked_length, most);
  const bool records = StepGraphs::can_record(setup.backend->device(), facts.ranks.shape);
  GLINT_TRY(
      facts.memory,
      plan_serve_memory(
          facts.config,
          {.trial = {.shape = facts.ranks.shape,
                     .format = setup.formats(),
                     .with_mtp = facts.has_mtp && facts.max_drafts > 0,
                     .numbers = setup.model.numbers,
                     .like = setup.backend.get(),
                     .group_bytes = bytes_of_group(options.backend)},
           .ranks_here = facts.ranks.here,
           .limits = {.max_step_tokens = step_tokens(options),
                      .max_running = options.max_num_seqs,
                      .max_drafts = facts.max_drafts,
                      .max_logprobs = max_logprobs(options, facts.config),
                      .max_seq_len = longest,
                      .num_graphs = records ? count_graphs(setup.graphs, facts.config.index_topk,
                                                           longest, facts.max_drafts)
                                            : 0},
           .packing = setup.model.packing,
           .made_up = setup.model.dummy.has_value()}));
  return Ok{};
}

}  // namespace

std::function<WeightFormat(const ModelTensor&)> ServerSetup::formats() {
  return release ? formats_of(facts.config, *release)
                 : formats_of(facts.config, *opened.checkpoint);
}

Result<ServerSetup> open_setup(const ServeOptions& options, std::optional<RankEnv> launch,
                               Cli& cli) {
  ServerSetup setup = {.launch = std::move(launch)};
  ModelOptions& model = setup.model;
  ServeFacts& facts = setup.facts;
  GLINT_TRY_STATUS(check_serve_options(options));
  GLINT_TRY(const std::int64_t asked_length, parse_length(options.max_model_len));
  GLINT_TRY(const int drafts, parse_spec(options.spec));
  GLINT_TRY(model, resolve(options, drafts, cli));
  GLINT_TRY_STATUS(open_served(options, setup, cli));
  facts = facts_of(setup.opened, model.dir, drafts, cli.environment);
  facts.asked_length = asked_length;
  if (setup.release) {
    add_release(*setup.release, model.dummy.has_value(), facts);
  } else {
    GLINT_TRY_STATUS(add_weights(*setup.opened.checkpoint, facts));
  }
  GLINT_TRY(facts.ranks, fit_launch(options, facts.config, model.threads,
                                    makes_whole_weights(options, model), setup.launch));
  GLINT_TRY_STATUS(check_fitted(facts.ranks, options));
  GLINT_TRY_STATUS(fit_balance(options, facts.config, facts.ranks));
  if (setup.launch) {
    GLINT_TRY(setup.launch->asked, asked_of(options, setup));
  }
  return setup;
}

Status complete_setup(const ServeOptions& options, const TranslatedArgs& given, ServerSetup& setup,
                      Cli& cli) {
  ModelOptions& model = setup.model;
  ServeFacts& facts = setup.facts;
  model.shape = facts.ranks.shape;
  GLINT_TRY_STATUS(
      check_ranks(model.shape, facts.ranks.here, setup.launch.has_value(), options, model));
  GLINT_TRY(setup.rank, backend_options(options, cli));
  setup.rank.threads = model.threads = std::max(model.threads / facts.ranks.here, 1);
  setup.rank.use_windows = given.graphs.windows;
  keep_to_memory(setup.rank.name, 0, facts.ranks.here);
  GLINT_TRY(setup.backend, make_backend(setup.rank));
  setup.graphs = sizes_of(given.graphs, options.max_num_seqs, step_tokens(options));
  GLINT_TRY_STATUS(plan_model_memory(options, setup));
  GLINT_TRY(setup.plan, plan_serve(options, given, facts));
  return Ok{};
}

}  // namespace glint
