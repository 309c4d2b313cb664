// glint serve: the HTTP API over one model; also under the command lines of other servers.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"
#include "checkpoint/model_dir.h"
#include "cli/commands.h"
#include "cli/generate_options.h"
#include "cli/interrupt.h"
#include "cli/serve_plan.h"
#include "cli/served_ranks.h"
#include "model/inventory.h"
#include "model/release.h"
#include "plan/report.h"
#include "runtime/memory_plan.h"
#include "runtime/model_executor.h"
#include "server/server.h"

namespace glint {
namespace {

constexpr int kHangExitCode = 70;  // EX_SOFTWARE
constexpr double kReportSeconds = 10;
constexpr int kLooksPerReport = 20;  // at the ranks

struct Options : ServeOptions, CommonOptions {
  Options() { log_level = "info"; }

  template <class Visitor>
  void visit(Visitor&& v) {
    ServeOptions::visit(v);
    CommonOptions::visit(v);
  }
};

// A model that has a tokenizer.
Result<OpenedModel> open_served(const ModelOptions& resolved) {
  if (resolved.dir.ends_with(".json"))
    return invalid(str(resolved.dir,
                       " is a configuration alone; a server needs a directory with a tokenizer"));
  return open_model(resolved);
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

// Weights that will be made up.
void add_dummy(Release release, ServeFacts& facts) {
  facts.formats = str("dummy ", name_of(release));
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

// `checkpoint` is null where weights are made up.
std::function<WeightFormat(const ModelTensor&)> formats_of(const ServeFacts& facts,
                                                           const ModelOptions& resolved,
                                                           Checkpoint* checkpoint) {
  return checkpoint ? formats_of(facts.config, *checkpoint)
                    : formats_of(facts.config, *resolved.dummy);
}

// The memory of weights and steps of all ranks of this machine.
Status plan_model_memory(const ServeOptions& options, const ModelOptions& resolved,
                         const GraphSizes& graphs, Checkpoint* checkpoint, Backend& backend,
                         ServeFacts& facts) {
  GLINT_TRY(const std::int64_t length, parse_length(options.max_model_len));
  const std::int64_t most = facts.config.max_position_embeddings;
  const std::int64_t longest = length == 0 ? most : std::min(length, most);
  GLINT_TRY(
      facts.memory,
      plan_serve_memory(
          facts.config,
          {.trial = {.shape = facts.ranks.shape,
                     .format = formats_of(facts, resolved, checkpoint),
                     .with_mtp = facts.has_mtp && facts.max_drafts > 0,
                     .numbers = resolved.numbers,
                     .like = &backend},
           .ranks_here = facts.ranks.here,
           .group_bytes = bytes_of_group(options.backend),
           .limits = {.max_step_tokens = options.max_num_batched_tokens,
                      .max_running = options.max_num_seqs,
                      .max_drafts = facts.max_drafts,
                      .max_logprobs = max_logprobs(options, facts.config),
                      .max_seq_len = longest,
                      .num_graphs = StepGraphs::can_record(backend.device(), facts.ranks.shape)
                                        ? count_graphs(graphs, facts.config.index_topk, longest,
                                                       facts.max_drafts)
                                        : 0},
           .packing = resolved.packing,
           .made_up = checkpoint == nullptr}));
  return Ok{};
}

void tell_graph_flags(const GraphFlags& flags, const Device& device, Cli& cli) {
  if (!device.is_host()) return;
  for (const std::string& flag : flags.given)
    cli.console.note(str("ignored: ", flag, " (it is about GPUs, and the CPU computes)"));
}

void record_graphs(ModelExecutor& executor, std::int64_t max_seq_len, Cli& cli) {
  const GraphStats graphs = executor.record_graphs(max_seq_len);
  if (graphs.count > 0)
    cli.console.note(formatted("  %zu graphs of decode steps recorded in %.1f s, %s", graphs.count,
                               graphs.seconds, human_bytes(graphs.bytes).c_str()));
}

void tell_environment(const Environment& environment, Cli& cli) {
  for (const std::string& entry : environment.foreign) {
    const std::string name = entry.substr(0, entry.find('='));
    if (name.starts_with("NCCL_")) {
      cli.console.note(str("passed through: ", entry));
    } else {
      cli.console.note(str("ignored: ", name, " (an environment variable of another server)"));
    }
  }
}

void print_table(const std::vector<std::pair<std::string, std::string>>& rows, Cli& cli) {
  std::size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  for (const auto& [name, value] : rows)
    cli.console.note(str("  ", name, std::string(width + 2 - name.size(), ' '), value));
}

// Prints what `glint plan` would say of this server.
Status print_plan(const ServeOptions& options, const ModelOptions& resolved,
                  std::function<WeightFormat(const ModelTensor&)> formats, const ServeFacts& facts,
                  const GraphSizes& graphs, const ServePlan& plan, Backend& backend, Cli& cli) {
  print_table(plan.rows, cli);
  const int ranks = facts.memory.on_host ? facts.ranks.here : 1;  // that share the memory
  GLINT_TRY(const PlanReport report,
            make_report(facts.config,
                        {.model = options.model,
                         .format = facts.formats,
                         .formats = std::move(formats),
                         .device = {.name = backend.device().name(),
                                    .product = facts.memory.on_host ? "this machine's memory"
                                                                    : "this GPU's memory",
                                    .memory = facts.memory.total / ranks,
                                    .source = "this machine"},
                         .count = facts.ranks.shape.num_ranks(),
                         .layout = facts.ranks.shape,
                         .numbers = resolved.numbers,
                         .max_drafts = facts.max_drafts,
                         .max_model_len = plan.max_model_len,
                         .concurrency = options.max_num_seqs,
                         .step_tokens = options.max_num_batched_tokens,
                         .cache_bytes = plan.engine.cache.num_pages * facts.memory.page / ranks,
                         .program = {.like = &backend,
                                     .graphs = facts.memory.on_host ? GraphSizes() : graphs}}));
  cli.console.print(to_text(report));
  return Ok{};
}

// A step hangs: nothing can be waited for any more.
void on_hang(const std::string& dump) {
  log(LogLevel::kError, "a step hangs; the program ends\n" + dump);
  end_program(kHangExitCode);
}

// Logs the engine's work between two looks; silent when it was idle.
void report_load(const EngineStats& before, const EngineStats& now) {
  const auto rate = [](std::uint64_t from, std::uint64_t to) {
    return std::lround(static_cast<double>(to - from) / kReportSeconds);
  };
  if (now.steps == before.steps && now.num_running + now.num_waiting == 0) return;
  GLINT_LOG(kInfo, str(now.num_running, " requests run, ", now.num_waiting, " wait; ",
                       rate(before.prompt_tokens, now.prompt_tokens), " prompt tokens/s, ",
                       rate(before.generated_tokens, now.generated_tokens), " tokens/s; pages ",
                       now.used_pages, " of ", now.total_pages));
}

// `mended`: lost ranks that start again, which may outlast this.
void wait_for_end(ShutdownGuard& shutdown, Server& server, const RankProcesses* ranks,
                  bool log_stats, std::future<Status>& mended) {
  EngineStats before = server.stats();
  const int looks = ranks ? kLooksPerReport : 1;
  for (int look = 1; !shutdown.wait_for(kReportSeconds / looks); ++look) {
    // A step notices by itself that ranks are lost; without requests there is none.
    const bool mends =
        mended.valid() && mended.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    if (ranks && !ranks->state().ok() && !mends)
      mended = std::async(std::launch::async, [&] { return server.mend(); });  // it logs
    if (look % looks != 0) continue;
    const EngineStats now = server.stats();
    if (log_stats) report_load(before, now);
    if (now.num_running + now.num_waiting == 0) release_free_memory();
    before = now;
  }
}

void drain(Server& server, double seconds, Cli& cli) {
  const int running = server.stats().num_running + server.stats().num_waiting;
  if (running > 0)
    cli.console.note(str("ending: ", running, " requests may go on for ", seconds,
                         " s; a second signal ends at once"));
  const int left = server.drain(seconds);
  if (left > 0) cli.console.note(str(left, " requests were cut off"));
}

TrainerConfig trainer_config(int threads, const Cli& cli) {
  TrainerConfig trainers;
  trainers.find_model = [cache = cli.environment.hf_hub_cache](const std::string& model) {
    return resolve_model(model, cache);
  };
  trainers.build = program_build;
  trainers.checksum_of = [threads](const std::string& dir) -> Result<std::string> {
    GLINT_TRY(const Checkpoint weights, Checkpoint::open(dir));
    ThreadPool pool(std::max(threads, 1));
    return checksum_of(weights.source(), pool);
  };
  return trainers;
}

// That of the checkpoint in `dir`, unless one is given.
Result<ChatTemplate> open_template(const std::string& given, const std::string& dir) {
  if (given.empty()) return ChatTemplate::open(dir);
  GLINT_TRY(ChatTemplate chat, ChatTemplate::from_file_or_text(given).in("--chat-template"));
  GLINT_TRY_STATUS(chat.take_special_tokens(dir));
  return chat;
}

// With the model at the revision that was asked for.
RunOptions at_revision(const Options& options, Cli& cli) {
  RunOptions out = options;
  if (options.revision.empty()) return out;
  if (is_directory(options.model)) {
    cli.console.note(str("ignored: --revision ", options.revision, " (a directory has one)"));
  } else {
    out.model += "@" + options.revision;
  }
  return out;
}

// The server from its start to its end.
Status serve(const Options& options, const TranslatedArgs& given, Cli& cli) {
  keep_little_memory();
  GLINT_TRY(std::optional<RankEnv> launch, launched_process(options, options, cli));
  const std::jthread launcher = watch_launcher(launch);
  if (given.headless && (!launch || launch->rank == 0)) {
    return invalid(
        "--headless is for machines that follow another, and this is the first, which serves; say "
        "which it is by --node-rank, or --data-parallel-start-rank, or leave --headless out");
  }
  GLINT_TRY(const int drafts, parse_spec(options.spec));
  GLINT_TRY(ModelOptions resolved, resolve(at_revision(options, cli), cli, drafts > 0));
  GLINT_TRY(OpenedModel opened, open_served(resolved));
  ServeFacts facts = facts_of(opened, resolved.dir, drafts, cli.environment);
  Checkpoint* const checkpoint = resolved.dummy ? nullptr : &*opened.checkpoint;
  if (resolved.dummy) {
    add_dummy(*resolved.dummy, facts);
  } else {
    GLINT_TRY_STATUS(add_weights(*checkpoint, facts));
  }
  GLINT_TRY_STATUS(check_serve_options(options));
  GLINT_TRY(facts.ranks, fit_launch(options, facts.config, resolved.threads,
                                    makes_whole_weights(options, resolved), launch));
  GLINT_TRY_STATUS(check_fitted(facts.ranks, options));
  const bool follows = launch && launch->rank > 0;
  if (follows && !options.dry_run) return follow_server(*launch);
  GLINT_TRY_STATUS(fit_balance(options, facts.config, facts.ranks));
  resolved.shape = facts.ranks.shape;
  GLINT_TRY_STATUS(
      check_ranks(resolved.shape, facts.ranks.here, launch.has_value(), options, resolved));
  GLINT_TRY(BackendOptions each, backend_options(options, cli));
  each.threads = resolved.threads = std::max(resolved.threads / facts.ranks.here, 1);
  each.use_windows = given.graphs.windows;
  keep_to_memory(each.name, 0, facts.ranks.here);
  GLINT_TRY(std::unique_ptr<Backend> backend, make_backend(each));
  GraphSizes graphs = sizes_of(given.graphs, options.max_num_seqs);
  graphs.most = options.max_num_batched_tokens;
  GLINT_TRY_STATUS(plan_model_memory(options, resolved, graphs, checkpoint, *backend, facts));
  GLINT_TRY(ServePlan plan, plan_serve(options, given, facts));
  for (const std::string& line : given.ignored) cli.console.note("ignored: " + line);
  for (const std::string& line : ignored_cache_wishes(options))
    cli.console.note("ignored: " + line);
  tell_graph_flags(given.graphs, backend->device(), cli);
  tell_environment(cli.environment, cli);
  if (options.dry_run) {
    if (!options.chat_template.empty()) {
      GLINT_TRY_STATUS(open_template(options.chat_template, facts.dir));
    }
    if (follows) {
      cli.console.note(launch->describe_ranks() +
                       ", which plans by its machine's memory, as this plan does by this one's");
    }
    return print_plan(options, resolved, formats_of(facts, resolved, checkpoint), facts, graphs,
                      plan, *backend, cli);
  }
  resolved.keep_free = facts.memory.activations + plan.engine.cache.num_pages * facts.memory.page;
  GLINT_TRY(Tokenizer tokenizer, Tokenizer::open(facts.dir));
  GLINT_TRY(ChatTemplate chat_template, open_template(options.chat_template, facts.dir));
  plan.server.version = GLINT_VERSION;
  plan.server.trainers = trainer_config(resolved.threads, cli);
  GLINT_TRY(std::unique_ptr<Server> server, Server::listen(plan.server));
  print_table(plan.rows, cli);

  // Ranks do not ask the machine one after another what is left of it.
  if (resolved.shape.num_ranks() > 1 && resolved.packing == Packing::kIfRoom)
    resolved.packing = facts.memory.weights > 0 ? Packing::kAlways : Packing::kNever;
  std::unique_ptr<RankProcesses> ranks;
  if (resolved.shape.num_ranks() > 1) {
    GLINT_TRY(ranks, start_ranks(each, resolved, facts.ranks.here, launch));
    resolved.mesh = ranks->mesh();
  }
  GLINT_TRY(const std::unique_ptr<LoadedModel> model,
            load_model(resolved, std::move(backend), cli, std::move(opened)));
  if (ranks) {
    GLINT_TRY_STATUS(ranks->join(*model));
  }
  GLINT_TRY_STATUS(model->reserve_pages(plan.engine.cache.num_pages, plan.max_model_len));
  GLINT_TRY_STATUS(model->reserve_steps(facts.memory.steps));
  model->use_graphs(graphs);
  ModelExecutor executor(*model, {.max_drafts = drafts,
                                  .num_token_ids = tokenizer.vocab_size(),
                                  .max_running = options.max_num_seqs,
                                  .balance_steps = options.balance_steps()});
  record_graphs(executor, plan.max_model_len, cli);
  plan.engine.on_hang = on_hang;
  ShutdownGuard shutdown;
  GLINT_TRY_STATUS(server->open({.tokenizer = tokenizer,
                                 .chat_template = std::move(chat_template),
                                 .stop_ids = stop_ids(facts.config, facts.generation),
                                 .executor = &executor,
                                 .ranks = [&] { return describe_ranks(ranks.get(), *model); },
                                 .engine = plan.engine}));
  cli.console.note(str("serving ", plan.server.served_names.front(), " on ",
                       url_of(plan.server.http, server->port())));
  std::future<Status> mended;
  wait_for_end(shutdown, *server, ranks.get(), options.log_stats, mended);
  drain(*server, options.shutdown_timeout, cli);
  shutdown.work_is_done();                // to give a large model's memory back takes a while
  if (!executor.ready()) end_program(0);  // lost ranks may take minutes to come, and serve nobody
  if (mended.valid()) mended.wait();
  server.reset();  // before the executor that it uses
  return Ok{};
}

Status run(Dialect dialect, const CommandInfo& info, std::span<const std::string> args, Cli& cli) {
  Options options;
  OptionList own(options);
  GLINT_TRY(const TranslatedArgs given, translate_flags(dialect, args, own).in(info.name));
  Status status = [&]() -> Status {
    GLINT_TRY(const bool go_on, prepare_command(info, own, options, given.args, cli));
    return go_on ? serve(options, given, cli) : Ok{};
  }();
  if (status.ok()) return status;
  return name_file(std::move(status).take_error(), given.from_file);
}

Command serve_like(Dialect dialect, CommandInfo info) {
  return {.info = std::move(info),
          .run = [dialect](const CommandInfo& info, std::span<const std::string> args, Cli& cli) {
            return run(dialect, info, args, cli);
          }};
}

}  // namespace

Command serve_command() {
  return serve_like(
      Dialect::kGlint,
      {.name = "serve",
       .group = "Server",
       .summary = "an HTTP server: OpenAI's and Anthropic's APIs, and a chat page",
       .description =
           "Serves the model to any OpenAI or Anthropic client (/v1/chat/completions, "
           "/v1/completions, /v1/responses, /v1/messages), and a chat page at /. Requests are "
           "batched as they come. The flags of vLLM, SGLang and trtllm-serve and their "
           "configuration files (--config FILE.yaml) work with their own meaning; what has no "
           "meaning here is told. The first SIGTERM lets answers end, the second ends at once.",
       .examples = {{"glint serve models/glm5-tiny", "serve on http://127.0.0.1:8000"},
                    {"glint serve zai-org/GLM-5-FP8 --max-model-len 32k --spec mtp:3",
                     "a model of the Hugging Face cache, with speculation"},
                    {"glint serve DIR --config trtllm.yml", "another server's configuration"}}});
}

Command vllm_serve_command() {
  return serve_like(
      Dialect::kVllm,
      {.name = "vllm serve",
       .group = "Server",
       .summary = "`glint serve` with vLLM's command line and defaults",
       .description = "The default address is 0.0.0.0:8000. "
                      "Also when glint is called `vllm` through a link.",
       .examples = {{"glint vllm serve zai-org/GLM-5-FP8 -tp 8", "as in its guide"}}});
}

Command sglang_command() {
  return serve_like(
      Dialect::kSglang,
      {.name = "sglang",
       .group = "Server",
       .summary = "`glint serve` with SGLang's command line and defaults",
       .description = "The flags are those of sglang.launch_server, the default address is "
                      "127.0.0.1:30000. Also when glint is called `sglang` through a link.",
       .examples = {
           {"glint sglang --model-path DIR --tp 8 --mem-fraction-static 0.9", "as in its guide"}}});
}

Command trtllm_serve_command() {
  return serve_like(
      Dialect::kTrtllm,
      {.name = "trtllm-serve",
       .group = "Server",
       .summary = "`glint serve` with TensorRT-LLM's command line and defaults",
       .description = "The flags and files are those of trtllm-serve, the default address is "
                      "localhost:8000. Also when glint is called `trtllm-serve` through a link.",
       .examples = {
           {"glint trtllm-serve serve DIR --tp_size 8 --config config.yml", "as in its guide"}}});
}

}  // namespace glint
