#include "cli/train_launch.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <iterator>

#include "base/file.h"
#include "base/option_value.h"
#include "base/seconds.h"
#include "base/str.h"
#include "cli/generate_options.h"
#include "cli/grpo_prompts.h"
#include "cli/train_sizes.h"
#include "plan/known_models.h"

namespace glint {
namespace {

using Words = std::vector<std::string>;

void add(Words& words, std::initializer_list<std::string_view> more) {
  words.insert(words.end(), more.begin(), more.end());
}

// The name of a run that has none: when it began.
std::string new_run_id() {
  const std::time_t now = unix_seconds();
  std::tm utc = {};
  gmtime_r(&now, &utc);
  return str(formatted("%02d%02d%02d-%02d%02d%02d-", utc.tm_year % 100, utc.tm_mon + 1, utc.tm_mday,
                       utc.tm_hour, utc.tm_min, utc.tm_sec),
             formatted("%03d", getpid() % 1000));
}

// The groups that the launcher gives so many nodes.
Status add_recipe_sizes(const LaunchOptions& o, const ModelConfig& config, bool on_cpu,
                        Words& words) {
  TrainLayout l = {.tp = 4, .ep = o.num_gpus_per_node};
  if (on_cpu) {
    l = {};
  } else if (o.num_nodes >= 16) {
    l = {.tp = 4, .pp = 4, .cp = 2, .ep = 32, .last_stage_layers = 18};
    // Megatron has copies of the experts in a stage of more ranks; here all of it share them.
    const int stage = o.num_nodes * o.num_gpus_per_node / l.pp;
    if (config.n_routed_experts % stage == 0) l.ep = stage;
  } else if (o.num_nodes == 6) {
    l = {.tp = 4, .pp = 3, .ep = 16, .last_stage_layers = 6};
  } else if (o.num_nodes != 1) {
    return invalid(str("--num-nodes is ", o.num_nodes,
                       "; the recipe has layouts for 1, 6, and 16 nodes and more"));
  }
  // The layouts are those of 78 layers, six nodes that of 20; others are divided evenly.
  const int others = config.num_hidden_layers - l.last_stage_layers;
  if (l.pp == 1 || others <= 0 || others % (l.pp - 1) != 0) l.last_stage_layers = 0;
  add(words, {"--tensor-model-parallel-size", str(l.tp), "--sequence-parallel",
              "--pipeline-model-parallel-size", str(l.pp), "--context-parallel-size", str(l.cp),
              "--expert-model-parallel-size", str(l.ep), "--expert-tensor-parallel-size", "1"});
  if (l.last_stage_layers) {
    add(words, {"--decoder-last-pipeline-num-layers", str(l.last_stage_layers)});
  }
  return Ok{};
}

std::string folder_of_run(const LaunchOptions& o) {
  return str(o.output_dir, "/", o.run_id, "/checkpoints");
}

// The recipe, in miles' words.
void add_recipe(const Launch& launch, bool is_small, Words& words) {
  const LaunchOptions& o = launch.options;
  const std::string checkpoints = folder_of_run(o);
  const bool debug = o.mode == "debug_minimal";
  add(words, {"--hf-checkpoint", launch.local_model(), "--load", checkpoints, "--save", checkpoints,
              "--save-interval", "20"});
  add(words, {"--prompt-data", launch.prompts(), "--input-key", "prompt", "--label-key", "label",
              "--apply-chat-template", "--rollout-shuffle", "--rm-type", "deepscaler"});
  add(words, {"--num-rollout", str(o.num_rollout), "--rollout-batch-size", "8",
              "--n-samples-per-prompt", "8", "--rollout-max-response-len", debug ? "100" : "32768",
              "--rollout-temperature", "1", "--global-batch-size", "64"});
  if (o.enable_eval && !debug) {
    add(words, {"--eval-interval", "20", "--eval-prompt-data", "aime", launch.eval_prompts(),
                "--n-samples-per-eval-prompt", "16", "--eval-top-p", "1"});
  }
  add(words, {"--use-dynamic-batch-size", "--max-tokens-per-gpu", is_small ? "2048" : "16384",
              "--data-pad-size-multiplier", "4096", "--log-probs-chunk-size", "1024",
              "--recompute-granularity", "full", "--recompute-method", "uniform",
              "--recompute-num-layers", "1"});
  add(words, {"--advantage-estimator", "grpo", "--kl-loss-coef", "0.00", "--kl-loss-type",
              "low_var_kl", "--kl-coef", "0.00", "--entropy-coef", "0.00", "--eps-clip", "0.2",
              "--eps-clip-high", "0.28"});
  add(words, {"--optimizer", "adam", "--lr", "1e-6", "--lr-decay-style", "constant",
              "--weight-decay", "0.1", "--adam-beta1", "0.9", "--adam-beta2", "0.98"});
  if (o.enable_optimizer_offload) {
    add(words, {"--optimizer-cpu-offload", "--overlap-cpu-optimizer-d2h-h2d",
                "--use-precision-aware-optimizer"});
  }
}

void add_engine(const Launch& launch, bool is_small, Words& words) {
  const LaunchOptions& o = launch.options;
  const int gpus = o.num_nodes * o.num_gpus_per_node;
  const int wanted = o.enable_pd ? (o.num_nodes >= 16 ? 64 : 16) : 8;
  const int world = launch.on_cpu ? 1 : std::min(gpus, wanted);
  const std::string W = str(world);
  add(words, {"--rollout-num-gpus-per-engine", W, "--sglang-mem-fraction-static", "0.70",
              "--sglang-max-running-requests", "512"});
  if (o.enable_pd) add(words, {"--prefill-num-servers", "1"});
  if (o.enable_mtp) {
    add(words,
        {"--sglang-speculative-algorithm", "EAGLE", "--sglang-speculative-num-steps", "3",
         "--sglang-speculative-eagle-topk", "1", "--sglang-speculative-num-draft-tokens", "4"});
  }
  if (launch.on_cpu) return;
  add(words, {"--sglang-enable-dp-attention",
              "--sglang-ep-size",
              W,
              "--sglang-dp-size",
              W,
              "--sglang-moe-dense-tp-size",
              "1",
              "--sglang-enable-dp-lm-head",
              "--sglang-attention-backend",
              "nsa",
              "--sglang-nsa-decode-backend",
              "flashmla_sparse",
              "--sglang-nsa-prefill-backend",
              "flashmla_sparse",
              "--sglang-page-size",
              "64",
              "--sglang-cuda-graph-max-bs",
              o.enable_pd ? "8" : "256",
              "--sglang-chunked-prefill-size",
              str(2048 * world),
              "--sglang-watchdog-timeout",
              "3600"});
  add(words,
      {"--attention-dropout", "0.0", "--hidden-dropout", "0.0",
       "--accumulate-allreduce-grads-in-fp32", "--attention-softmax-in-fp32", "--allgather-cp",
       "--update-weight-buffer-size", "2147483648", "--colocate", "--actor-num-nodes",
       str(o.num_nodes), "--actor-num-gpus-per-node", str(o.num_gpus_per_node)});
  const bool deepep = o.use_deepep && o.megatron_use_deepep;
  if (deepep) add(words, {"--moe-enable-deepep"});
  add(words, {"--moe-token-dispatcher-type", deepep ? "flex" : "alltoall"});
  if (!is_small) add(words, {"--rematerialize-param-from-master-weight"});
}

Result<TrainPlanOptions> plan_options(const Launch& launch, TrainPlanOptions p) {
  const LaunchOptions& o = launch.options;
  p.model = o.model_name;
  p.device = *find_device(lower(o.hardware));
  if (launch.on_cpu) p.layout.gpus = 1;
  const std::pair<const char*, int*> numbers[] = {
      {"decoder-last-pipeline-num-layers", &p.layout.last_stage_layers},
      {"max-tokens-per-gpu", &p.tokens_per_gpu},
      {"rollout-batch-size", &p.prompts},
      {"n-samples-per-prompt", &p.samples},
      {"rollout-num-gpus-per-engine", &p.engine_gpus}};
  for (const auto& [flag, field] : numbers) {
    GLINT_TRY(*field, whole_number(launch.args, flag, *field));
  }
  GLINT_TRY(p.response_len, whole_number(launch.args, "rollout-max-response-len", 32768));
  const std::string share = launch.args.value("sglang-mem-fraction-static");
  if (!parse_option(share, p.engine_share) || !(p.engine_share > 0) || p.engine_share > 1) {
    return invalid(str("--sglang-mem-fraction-static is ", quoted(share),
                       "; expected a number above 0 and at most 1"));
  }
  const std::string buffer = launch.args.value("update-weight-buffer-size");
  if (!buffer.empty() && (!parse_option(buffer, p.update_buffer) || p.update_buffer < 0)) {
    return invalid(str("--update-weight-buffer-size is ", quoted(buffer), "; expected bytes"));
  }
  p.offload_optimizer = launch.args.value("optimizer-cpu-offload") == "true";
  p.fp8_rollout = o.fp8_rollout;
  if (const char* const drafts = "sglang-speculative-num-steps"; launch.args.value(drafts) != "0") {
    GLINT_TRY(p.drafts, whole_number(launch.args, drafts, 0, kMostDrafts));
  }
  p.drafts_learn = launch.args.value("enable-mtp-training") == "true";
  double kl = 0;
  p.has_reference = launch.args.value("use-kl-loss") == "true" &&
                    parse_option(launch.args.value("kl-loss-coef"), kl) && kl != 0;
  p.on_trainer = !launch.on_cpu && launch.planned.empty();
  return p;
}

Status check(const LaunchOptions& o) {
  if (o.num_nodes < 1 || o.num_nodes > 128 || o.num_gpus_per_node < 1 || o.num_gpus_per_node > 72) {
    return invalid(str("--num-nodes is ", o.num_nodes, " and --num-gpus-per-node ",
                       o.num_gpus_per_node, "; expected 1 to 128, and 1 to 72"));
  }
  if (o.hardware == "cpu" && o.num_nodes > 1) {
    return invalid("--hardware cpu is one process; leave --num-nodes out");
  }
  return Ok{};
}

// Options of the launcher that are about the programs that it starts.
void note_meaningless(Launch& launch) {
  const LaunchOptions& o = launch.options;
  const std::pair<const char*, std::string> given[] = {
      {" --megatron-model-type ", o.megatron_model_type},
      {" --megatron-path ", o.megatron_path},
      {" --extra-env-vars ", o.extra_env_vars},
      {" --cuda-core-dump", o.cuda_core_dump ? " " : ""},
      {" --external-ray", o.external_ray ? " " : ""}};
  for (const auto& [flag, value] : given) {
    if (value.empty()) continue;
    launch.args.meaningless["no other program is started"] += flag + (value == " " ? "" : value);
  }
}

// Answers of one node's mode, where nothing else says how long they may be.
void note_short_answers(Launch& launch) {
  if (launch.options.num_nodes > 1 || launch.args.value("rollout-max-response-len") != "100")
    return;
  launch.notes.push_back("answers of 100 tokens; --rollout-max-response-len N makes them longer");
}

// Settles what one option says about others.
void settle(Launch& launch) {
  LaunchOptions& o = launch.options;
  const auto note = [&](std::string text) { launch.notes.push_back(std::move(text)); };
  if (o.num_nodes == 1 && o.mode != "debug_minimal") {
    o.mode = "debug_minimal";
    note("one node: --mode debug_minimal");
  }
  if (o.num_nodes == 1 && o.enable_pd) {
    o.enable_pd = false;
    note("one node: --no-enable-pd");
  }
  if (o.hardware == "GB300" && o.use_deepep && o.megatron_use_deepep) {
    o.megatron_use_deepep = false;
    note("--hardware GB300: --no-megatron-use-deepep");
  }
  if (o.enable_eval && o.mode == "debug_minimal") {
    note("--mode debug_minimal: no evaluation; --eval-prompt-data F --eval-interval N make one");
  }
  if (o.run_id.empty()) o.run_id = new_run_id();
}

Status check_training(const ModelConfig& config, Launch& launch) {
  if (launch.args.value("load") != launch.checkpoints()) {
    return invalid(str("--load is ", launch.args.value("load"), " and --save ",
                       launch.checkpoints(),
                       "; a run goes on in its own folder: give both the same"));
  }
  GrpoCommandOptions options;
  OptionList list(options);
  GLINT_TRY_STATUS(list.parse(launch.grpo()));
  const Result<ModelPartition> divided = plan_partition(config, options.layout.shape(), 0);
  if (!divided.ok()) launch.planned.push_back(divided.error().message);
  GLINT_TRY_STATUS(check(options));
  if (!config.quantization.empty()) {
    return invalid(str(launch.shared_model(), "/config.json says ", quoted(config.quantization),
                       "; training needs bf16 or f32, as glint quantize --format bf16 writes it"));
  }
  return check_positions(options, config);
}

}  // namespace

std::string Launch::shared_model() const { return str(options.model_dir, "/", options.model_name); }
std::string Launch::local_model() const {
  return str(options.model_local_dir, "/", options.model_name);
}
std::string Launch::prompts() const {
  return options.data_dir + "/dapo-math-17k/dapo-math-17k.jsonl";
}
std::string Launch::eval_prompts() const { return options.data_dir + "/aime-2024/aime-2024.jsonl"; }
std::string Launch::checkpoints() const { return args.value("save"); }
std::vector<std::string> Launch::grpo() const {
  Words words = {args.value("hf-checkpoint"), "--resume"};
  std::ranges::copy(args.options, std::back_inserter(words));
  std::ranges::copy(default_options(args.values), std::back_inserter(words));
  return words;
}

Result<Launch> resolve_launch(const LaunchOptions& options) {
  Launch launch = {.options = options};
  LaunchOptions& o = launch.options;
  const auto known = find_known_model(o.model_name);
  launch.is_published = known && known->release == Release::kBF16;
  std::optional<ModelConfig> config;
  if (launch.is_published) {
    config = known->config;
  } else {
    const std::string path = launch.shared_model() + "/config.json";
    if (!file_exists(path)) {
      return invalid(
          str("--model-name ", quoted(o.model_name),
              " is none of GLM-5, GLM-5.1, GLM-5_4layer, GLM-5_20layer, and there is no ", path));
    }
    GLINT_TRY(config, read_config(path));
  }
  if (o.hardware.empty()) o.hardware = launch.is_published ? "H200" : "cpu";
  launch.on_cpu = o.hardware == "cpu";
  if (o.num_nodes_of_job && !launch.on_cpu) o.num_nodes = *o.num_nodes_of_job;
  GLINT_TRY_STATUS(check(o));
  settle(launch);

  Words words;
  const bool is_small = config->num_hidden_layers < 78;
  add_recipe(launch, is_small, words);
  GLINT_TRY_STATUS(add_recipe_sizes(o, *config, launch.on_cpu, words));
  add_engine(launch, is_small, words);
  GLINT_TRY(Words given, split_words(o.extra_args));
  given.insert(given.begin(), o.flags.begin(), o.flags.end());
  words.insert(words.end(), given.begin(), given.end());
  GLINT_TRY(launch.args, translate_train_args(words));
  if (!o.fp8_rollout) leave_out_corrections(launch.args);
  launch.is_named = !options.run_id.empty() || launch.checkpoints() != folder_of_run(o);
  if (!launch.is_named && launch.args.value("resume") == "true") {
    return invalid("--resume goes on with a run that is named: give its --run-id");
  }
  note_meaningless(launch);
  if (launch.on_cpu) name_sizes(given, launch.args);
  note_short_answers(launch);
  GLINT_TRY(const TrainPlanOptions sizes, read_sizes(launch.args));
  if (!launch.on_cpu) {
    GLINT_TRY_STATUS(divide_among_ranks(sizes, launch.args));
    launch.args.options.push_back("--backend=cuda");
  }
  launch.planned = launch.args.planned;

  GLINT_TRY(const TrainPlanOptions plan, plan_options(launch, sizes));
  GLINT_TRY(launch.plan, plan_training(*config, plan));
  if (o.fp8_rollout) {
    launch.args.options.insert(launch.args.options.end(), {"--fp8-rollout", "--parity-gate=0.03"});
    launch.notes.push_back("answers in FP8: --parity-gate 0.03, as in miles");
  }
  GLINT_TRY_STATUS(check_training(*config, launch));
  return launch;
}

std::string to_text(const Launch& launch) {
  std::string text = to_text(launch.plan);
  const auto section = [&](const char* title, const std::vector<std::string>& lines) {
    if (lines.empty()) return;
    text += str("\n", title, "\n");
    for (const std::string& line : lines) text += str("  ", line, "\n");
  };
  section("Decided", launch.notes);
  std::vector<std::string> meaningless;
  for (const auto& [reason, flags] : launch.args.meaningless) {
    meaningless.push_back(str(reason, ":", flags));
  }
  section("Without meaning here", meaningless);
  section("planned only: a launch is refused", launch.planned);
  return text;
}

Json to_json(const Launch& launch) {
  Json::Array notes, planned;
  for (const std::string& note : launch.notes) notes.push_back(note);
  for (const std::string& one : launch.planned) planned.push_back(one);
  Json::Object meaningless, values;
  for (const auto& [reason, flags] : launch.args.meaningless) {
    meaningless.emplace_back(reason, flags.substr(1));
  }
  for (const auto& [flag, value] : launch.args.values) values.emplace_back(flag, value);
  Json json = to_json(launch.plan);
  json.set("decided", std::move(notes));
  json.set("arguments", std::move(values));
  Json::Array command;
  for (const std::string& word : launch.grpo()) command.push_back(word);
  json.set("grpo", std::move(command));
  json.set("without_meaning", std::move(meaningless));
  json.set("planned_only", std::move(planned));
  return json;
}

}  // namespace glint
