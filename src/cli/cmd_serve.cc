// glint serve: the HTTP API over one model; also under the command lines of other servers.
#include "base/log.h"
#include "base/memory.h"
#include "base/str.h"
#include "cli/backends.h"
#include "cli/commands.h"
#include "cli/run_server.h"
#include "cli/served_ranks.h"
#include "cli/server_setup.h"
#include "plan/report.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {
namespace {

struct Options : ServeOptions, CommonOptions {
  Options() { log_level = "info"; }

  template <class Visitor>
  void visit(Visitor&& v) {
    ServeOptions::visit(v);
    CommonOptions::visit(v);
  }
};

void tell_graph_flags(const GraphFlags& flags, const Device& device, Cli& cli) {
  if (!device.is_host()) return;
  for (const std::string& flag : flags.given)
    cli.console.note(str("ignored: ", flag, " (it is about GPUs, and the CPU computes)"));
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

// Prints what `glint plan` would say of this server, whose text files can be read.
Status print_plan(const ServeOptions& options, ServerSetup& setup, Cli& cli) {
  if (!setup.follows()) {
    GLINT_TRY_STATUS(Tokenizer::open(setup.facts.dir));
    GLINT_TRY_STATUS(open_template(options.chat_template, setup.facts.dir));
  }
  if (setup.follows()) {
    cli.console.note(setup.launch->describe_ranks() +
                     ", which plans by its machine's memory, as this plan does by this one's");
  }
  for (const std::string& line : setup.plan.lines()) cli.console.note(line);
  const ServeFacts& facts = setup.facts;
  const ServeMemory& memory = facts.memory;
  const int ranks = memory.on_host ? facts.ranks.here : 1;  // that share the memory
  GLINT_TRY(const PlanReport report,
            make_report(facts.config,
                        {.model = options.model,
                         .format = facts.formats,
                         .formats = setup.formats(),
                         .device = {.name = setup.backend->device().name(),
                                    .product = memory.on_host ? "this machine's memory"
                                                              : "this GPU's memory",
                                    .memory = memory.total / ranks,
                                    .source = "this machine"},
                         .count = facts.ranks.shape.num_ranks(),
                         .layout = facts.ranks.shape,
                         .numbers = setup.model.numbers,
                         .max_drafts = facts.max_drafts,
                         .max_model_len = setup.plan.max_model_len,
                         .concurrency = options.max_num_seqs,
                         .step_tokens = step_tokens(options),
                         .cache_bytes = setup.plan.engine.cache.num_pages * memory.page / ranks,
                         .program = {.like = setup.backend.get(),
                                     .group_bytes = bytes_of_group(options.backend),
                                     .limits = memory.steps.limits,
                                     .sharing = memory.on_host ? ranks : 0}}));
  cli.console.print(to_text(report));
  cli.failed = !report.deployment.fits;
  return Ok{};
}

// The server from its start to its end.
Status serve(const ServeOptions& options, const TranslatedArgs& given, Cli& cli) {
  keep_little_memory();
  if (options.log_format == "json") {
    set_log_format(LogFormat::kJson);
    cli.console.log_notes();
  }
  GLINT_TRY(std::optional<RankEnv> launch, launched_process(options, options, cli));
  const std::jthread launcher = watch_launcher(launch);
  if (given.headless && (!launch || launch->rank == 0)) {
    return invalid(
        "--headless is for machines that follow another, and this is the first, which serves; say "
        "which it is by --node-rank, or --data-parallel-start-rank, or leave --headless out");
  }
  GLINT_TRY(ServerSetup setup, open_setup(options, std::move(launch), cli));
  if (setup.follows() && !options.dry_run) return follow_server(*setup.launch);
  GLINT_TRY_STATUS(complete_setup(options, given, setup, cli));
  for (const std::string& line : given.ignored) cli.console.note("ignored: " + line);
  for (const std::string& line : ignored_cache_wishes(options))
    cli.console.note("ignored: " + line);
  for (const std::string& line : ignored_balance(options, given))
    cli.console.note("ignored: " + line);
  for (const std::string& line : ignored_nodes(options)) cli.console.note("ignored: " + line);
  tell_graph_flags(given.graphs, setup.backend->device(), cli);
  tell_environment(cli.environment, cli);
  if (options.dry_run) return print_plan(options, setup, cli);
  return run_server(options, std::move(setup), cli);
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
  return name_setting(std::move(status).take_error(), given.named);
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
           "meaning here is told. The first SIGTERM lets answers end, as a closed terminal "
           "(SIGHUP) does; a second one ends at once.",
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
