// The launcher of miles' recipe for GLM-5 (run_glm5_744b_a40b.py): its flags, the recipe that they
// become, and the plan of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/train_flags.h"
#include "plan/train_plan.h"

namespace glint {

struct LaunchModelOptions {
  std::string model_name = "GLM-5", model_org = "zai-org", megatron_model_type;
  std::string data_dir = "/root/datasets", model_dir = "/root/models";
  std::string model_local_dir = "/root/models";
  std::string megatron_path, output_dir = "/root/shared_data", run_id;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Model and data");
    v("model-name=NAME", model_name,
      "GLM-5, GLM-5.1, GLM-5_4layer, GLM-5_20layer, or a folder of --model-dir");
    v("model-org=ORG", model_org, "whose model it is on the hub, if --model-dir lacks it");
    v("data-dir=DIR", data_dir, "data sets");
    v("model-dir=DIR", model_dir, "checkpoints, for all nodes");
    v("model-local-dir=DIR", model_local_dir, "checkpoints, of this node alone");
    v("output-dir=DIR", output_dir, "checkpoints of the run: DIR/RUN/checkpoints");
    v("run-id=RUN", run_id, "its name; the same goes on (default: the time)");
    v("megatron-model-type=T", megatron_model_type, "without meaning: config.json says it");
    v("megatron-path=DIR", megatron_path, "without meaning: there is no other program");
  }
};

struct LaunchClusterOptions {
  std::string mode = "normal", hardware;
  int num_nodes = 1, num_gpus_per_node = 8, num_rollout = 3000;
  bool fp8_rollout = false, use_deepep = true, megatron_use_deepep = true;
  bool enable_eval = false, enable_mtp = false, enable_pd = true;
  bool enable_optimizer_offload = false, cuda_core_dump = false, external_ray = false;
  std::string extra_args, extra_env_vars;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Run");
    v("num-nodes=N", num_nodes, "1, 6, or 16 and more: each has its layout");
    v("num-gpus-per-node=N", num_gpus_per_node, "GPUs of each");
    v("hardware", hardware,
      "(default: H200; of a folder of --model-dir that is no published model: cpu, this machine)",
      {"H200", "B200", "GB300", "cpu"});
    v("mode", mode, "debug_minimal: answers of 100 tokens, no evaluation; always with one node",
      {"normal", "debug_minimal"});
    v("num-rollout=N", num_rollout, "rounds");
    v("fp8-rollout", fp8_rollout, "answers by a copy of the model in FP8, 128 x 128");
    v("enable-eval", enable_eval, "evaluate on aime-2024 every 20 rounds");
    v("enable-mtp", enable_mtp, "drafts in rollouts");
    v("enable-pd", enable_pd, "prefill and decoding by different engines; off with one node");
    v("enable-optimizer-offload", enable_optimizer_offload,
      "masters and moments on the host; the plan turns it on where memory needs it");
    v("use-deepep", use_deepep, "without meaning but for the rules of --hardware GB300");
    v("megatron-use-deepep", megatron_use_deepep, "likewise");
    v("extra-args=ARGS", extra_args,
      "more flags of miles, slime, Megatron-LM or SGLang, which win; they may also stand by "
      "themselves");
    v("cuda-core-dump", cuda_core_dump, "without meaning: nothing is launched");
    v("extra-env-vars=X", extra_env_vars, "likewise");
    v("external-ray", external_ray, "likewise; MILES_SCRIPT_EXTERNAL_RAY sets it");
  }
};

struct LaunchOptions : LaunchModelOptions, LaunchClusterOptions {
  bool dry_run = false, json = false;
  std::vector<std::string> flags = {};       // of others' programs, from the command line
  std::optional<int> num_nodes_of_job = {};  // are num_nodes, where GPUs train

  template <class Visitor>
  void visit(Visitor&& v) {
    LaunchModelOptions::visit(v);
    LaunchClusterOptions::visit(v);
    v.section("Output");
    v("dry-run", dry_run, "print the plan and stop");
    v("json", json, "the plan as JSON");
  }
};

// A launch, resolved: nothing has been touched yet.
struct Launch {
  LaunchOptions options = {};
  bool is_published = false;  // of a model whose shapes are built in
  bool on_cpu = false;
  bool is_named = false;          // the user says which run: else the time is --run-id
  TranslatedTrainArgs args = {};  // of the recipe and everything that the user gave
  TrainPlan plan = {};
  std::vector<std::string> notes = {};    // what was decided, in sentences
  std::vector<std::string> planned = {};  // what a launch is refused for

  // Folders and files of the stages.
  std::string shared_model() const;  // the checkpoint for all nodes
  std::string local_model() const;   // that training reads
  std::string prompts() const;       // of the recipe
  std::string eval_prompts() const;
  std::string checkpoints() const;
  // Words of `glint train grpo` that train it, or go on.
  std::vector<std::string> grpo() const;
};

// Fails on what contradicts itself or what training would refuse, with one sentence; what does not
// fit is in plan.misfit.
Result<Launch> resolve_launch(const LaunchOptions& options);

// Plan, decisions, flags without meaning, and what is planned only.
std::string to_text(const Launch& launch);
Json to_json(const Launch& launch);

}  // namespace glint
