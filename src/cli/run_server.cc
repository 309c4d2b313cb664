#include "cli/run_server.h"

#include <chrono>
#include <cmath>
#include <future>

#include "base/log.h"
#include "base/memory.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"
#include "checkpoint/model_dir.h"
#include "cli/generate_options.h"
#include "cli/interrupt.h"
#include "cli/served_ranks.h"
#include "runtime/model_executor.h"
#include "server/server.h"

namespace glint {
namespace {

constexpr int kHangExitCode = 70;  // EX_SOFTWARE
constexpr double kReportSeconds = 10;
constexpr int kLooksPerReport = 20;  // at the ranks

void record_graphs(ModelExecutor& executor, std::int64_t max_seq_len, Cli& cli) {
  const GraphStats graphs = executor.record_graphs(max_seq_len);
  if (graphs.count > 0)
    cli.console.note(str("  ", counted(static_cast<std::int64_t>(graphs.count), "graph"),
                         " of decode steps recorded in ", formatted("%.1f s, ", graphs.seconds),
                         human_bytes(graphs.bytes)));
}

// A step hangs: nothing can be waited for any more but that its clients hear of it.
void on_hang(Server& server, const std::string& dump) {
  log(LogLevel::kError, "a step hangs; the program ends\n" + dump);
  server.send_last_answers();
  end_program(kHangExitCode);
}

// Logs the engine's work between two looks; silent when it was idle.
void report_load(const EngineStats& before, const EngineStats& now) {
  const auto rate = [](std::uint64_t from, std::uint64_t to) {
    return std::lround(static_cast<double>(to - from) / kReportSeconds);
  };
  if (now.steps == before.steps && now.num_running + now.num_waiting == 0) return;
  GLINT_LOG(kInfo, str(counted(now.num_running, "request"), " in work, ", now.num_waiting,
                       " in the queue; ", rate(before.prompt_tokens, now.prompt_tokens),
                       " prompt tokens/s, ", rate(before.generated_tokens, now.generated_tokens),
                       " tokens/s; pages ", now.used_pages, " of ", now.total_pages));
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
    cli.console.note(str("ending: ", counted(running, "request"), " may go on for ", seconds,
                         " s; a second signal ends at once"));
  const int left = server.drain(seconds);
  if (left > 0) cli.console.note(str("cut off: ", counted(left, "request")));
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

}  // namespace

// The template of the checkpoint in `dir`, unless one is given.
Result<ChatTemplate> open_template(const std::string& given, const std::string& dir) {
  if (given.empty()) return ChatTemplate::open(dir);
  GLINT_TRY(ChatTemplate chat, ChatTemplate::from_file_or_text(given).in("--chat-template"));
  GLINT_TRY_STATUS(chat.take_special_tokens(dir));
  return chat;
}

Status run_server(const ServeOptions& options, ServerSetup setup, Cli& cli) {
  const ServeFacts& facts = setup.facts;
  ServePlan& plan = setup.plan;
  ModelOptions& loading = setup.model;
  loading.keep_free = facts.memory.working + plan.engine.cache.num_pages * facts.memory.page;
  GLINT_TRY(Tokenizer tokenizer, Tokenizer::open(facts.dir));
  GLINT_TRY(ChatTemplate chat_template, open_template(options.chat_template, facts.dir));
  plan.server.version = GLINT_VERSION;
  plan.server.trainers = trainer_config(loading.threads, cli);
  GLINT_TRY(std::unique_ptr<Server> server, Server::listen(plan.server));
  for (const std::string& line : plan.lines()) cli.console.note(line);

  // Ranks do not ask the machine one after another what is left of it.
  if (loading.shape.num_ranks() > 1 && loading.packing == Packing::kIfRoom)
    loading.packing = facts.memory.weights > 0 ? Packing::kAlways : Packing::kNever;
  std::unique_ptr<RankProcesses> ranks;
  if (loading.shape.num_ranks() > 1) {
    GLINT_TRY(ranks, start_ranks(setup.rank, loading, facts.ranks.here, setup.launch,
                                 [listener = server.get()] { listener->send_last_answers(); }));
    loading.mesh = ranks->mesh();
  }
  GLINT_TRY(const std::unique_ptr<LoadedModel> model,
            load_model(loading, std::move(setup.backend), cli, std::move(setup.opened)));
  if (ranks) {
    GLINT_TRY_STATUS(ranks->join(*model));
  }
  GLINT_TRY_STATUS(model->reserve_pages(plan.engine.cache.num_pages, plan.max_model_len));
  GLINT_TRY_STATUS(model->reserve_steps(facts.memory.steps));
  model->use_graphs(setup.graphs);
  ModelExecutor executor(*model, {.max_drafts = facts.max_drafts,
                                  .num_token_ids = tokenizer.vocab_size(),
                                  .max_running = options.max_num_seqs,
                                  .balance_steps = options.balance_steps()});
  record_graphs(executor, plan.max_model_len, cli);
  plan.engine.on_hang = [listener = server.get()](const std::string& dump) {
    on_hang(*listener, dump);
  };
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

}  // namespace glint
