#include "cli/train_flags.h"

#include <filesystem>

#include "base/contains.h"
#include "base/file.h"
#include "base/option_value.h"
#include "base/options.h"
#include "base/str.h"
#include "checkpoint/model_dir.h"
#include "checkpoint/safetensors.h"
#include "quant/source_identity.h"

namespace glint {
namespace {

using Takes = TrainFlag::Takes;
using Does = TrainFlag::Does;

constexpr std::string_view kOnePass = "the engine and the trainer are one program with one pass";
constexpr std::string_view kOneAttention = "there is one attention, the model's own";
constexpr std::string_view kAlways = "always so here";
constexpr std::string_view kNoPython = "there is no process of that kind here";
constexpr std::string_view kCurves = "curves are in --tensorboard-dir and report.html";
constexpr std::string_view kFromConfig = "config.json says it";

constexpr TrainFlag kFlags[] = {
    {"hf-checkpoint", Takes::kValue, Does::kPlan},
    {"load", Takes::kValue, Does::kPlan},
    {"save prompt-data input-key label-key rm-type num-rollout num-epoch rollout-batch-size "
     "n-samples-per-prompt rollout-max-response-len rollout-temperature rollout-top-p "
     "rollout-top-k global-batch-size num-steps-per-rollout advantage-estimator eps-clip "
     "eps-clip-high eps-clip-c "
     "entropy-coef lr min-lr lr-warmup-iters lr-decay-style mtp-loss-scaling-factor adam-beta1 "
     "adam-beta2 adam-eps "
     "weight-decay clip-grad save-interval eval-interval n-samples-per-eval-prompt "
     "eval-temperature eval-top-p eval-top-k eval-max-response-len seed tensorboard-dir "
     "overlong-buffer-len overlong-penalty-factor "
     "dynamic-sampling-rounds kl-loss-coef kl-loss-type tis-clip tis-clip-low rm-url "
     "over-sampling-batch-size max-weight-staleness generate-max-turns reward-key eval-reward-key",
     Takes::kValue, Does::kOption},
    {"rollout-seed", Takes::kValue, Does::kOption, "seed"},
    {"eval-prompt-data", Takes::kValues, Does::kOption},
    {"apply-chat-template rollout-shuffle calculate-per-token-loss "
     "disable-grpo-std-normalization enable-mtp-training use-tis use-rollout-routing-replay "
     "partial-rollout "
     "mask-offpolicy-in-partial-rollout resume",
     Takes::kNothing, Does::kOption},
    {"max-tokens-per-gpu", Takes::kValue, Does::kOption, "batch-tokens"},
    {"rollout-external-engine-addrs", Takes::kValues, Does::kEach},
    {"rollout-external", Takes::kNothing, Does::kNothing,
     "--rollout-external-engine-addrs says that servers answer"},
    {"sglang-max-running-requests", Takes::kValue, Does::kOption, "max-num-seqs"},

    {"tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size "
     "expert-model-parallel-size expert-tensor-parallel-size rollout-num-gpus-per-engine "
     "sglang-mem-fraction-static actor-num-nodes actor-num-gpus-per-node "
     "update-weight-buffer-size",
     Takes::kValue, Does::kPlan},
    {"decoder-last-pipeline-num-layers", Takes::kValue, Does::kOption},
    {"optimizer-cpu-offload", Takes::kNothing, Does::kPlan},

    {"optimizer", Takes::kValue, Does::kMust, "adam: another optimiser than AdamW"},
    {"mtp-num-layers", Takes::kValue, Does::kMust, "1: another number of draft layers"},
    {"kl-coef", Takes::kValue, Does::kMust, "0: a KL as a part of rewards"},
    {"metadata-key", Takes::kValue, Does::kMust, "metadata: another name of a row's \"metadata\""},
    {"tool-key", Takes::kValue, Does::kMust, "tools: another name of a row's \"tools\""},
    {"attention-dropout hidden-dropout", Takes::kValue, Does::kMust, "0: dropout"},
    {"eval-min-new-tokens", Takes::kValue, Does::kMust, "0: a least length of answers"},
    {"eval-max-prompt-len eval-max-context-len rollout-max-prompt-len rollout-max-context-len",
     Takes::kValue, Does::kPlanned, "limits of prompts (a row that is too long is refused)"},
    {"eval-input-key eval-label-key eval-tool-key", Takes::kValue, Does::kPlanned,
     "rows of evaluations with other members than those of --prompt-data"},
    {"eval-config", Takes::kValue, Does::kPlanned, "several evaluations (--eval-prompt-data)"},
    {"skip-eval-before-train", Takes::kNothing, Does::kNothing,
     "where a run begins is always evaluated"},
    {"moe-router-bias-update-rate", Takes::kValue, Does::kMust,
     "0: a router's bias that follows the load"},
    {"moe-aux-loss-coeff", Takes::kValue, Does::kMust, "0: a loss that balances experts"},

    {"use-kl-loss", Takes::kNothing, Does::kPlan},  // without it --kl-loss-coef counts nothing
    {"use-unbiased-kl", Takes::kNothing, Does::kPlanned, "a KL that is weighed by the ratio"},
    {"use-opsm", Takes::kNothing, Does::kPlanned, "answers that are masked by their KL"},
    {"normalize-advantages disable-rewards-normalization", Takes::kNothing, Does::kPlanned,
     "other advantages than those in a group"},
    {"loss-type", Takes::kValue, Does::kMust,
     "policy_loss: another loss (`glint train sft` learns from examples)"},
    {"rollout-stop rollout-stop-token-ids", Takes::kValues, Does::kPlanned,
     "other ends of answers than the model's"},
    {"use-routing-replay", Takes::kNothing, Does::kNothing,
     "a layer that is computed again for its gradient has its experts from the first time"},
    {"dynamic-sampling-filter-path", Takes::kValue, Does::kPlan},  // use_filter()
    {"prefill-num-servers", Takes::kValue, Does::kPlanned,
     "prefill and decoding by different engines (--enable-pd)"},
    {"sglang-speculative-num-steps", Takes::kValue, Does::kOption, "spec=mtp:"},
    {"sglang-speculative-algorithm sglang-speculative-eagle-topk "
     "sglang-speculative-num-draft-tokens",
     Takes::kValue, Does::kNothing, "drafts are a chain of the MTP layer's"},
    {"custom-rm-path", Takes::kValue, Does::kPlanned,
     "rewards by Python functions (--rm-type remote_rm takes --rm-url or --rm-command)"},
    {"custom-generate-function-path generate-execute-tool-function-path generate-tool-specs-path "
     "rollout-function-path",
     Takes::kValue, Does::kPlanned,
     "Python functions (--generate-tool-command runs the calls of a row's \"tools\")"},
    {"generate-tool-call-parser sglang-tool-call-parser sglang-reasoning-parser", Takes::kValue,
     Does::kNothing, "calls are read as GLM writes them"},

    {"ref-load", Takes::kValue, Does::kNothing,
     "--hf-checkpoint is what training begins with, and the reference model"},
    {"use-dynamic-batch-size", Takes::kNothing, Does::kNothing,
     "answers are always packed by tokens"},
    {"data-pad-size-multiplier", Takes::kValue, Does::kNothing, "there is no padding"},
    {"log-probs-chunk-size", Takes::kValue, Does::kNothing, "logits are always taken in chunks"},
    {"recompute-granularity recompute-method recompute-num-layers", Takes::kValue, Does::kNothing,
     "layers are computed again for their gradient unless a host has plenty of memory"},
    {"accumulate-allreduce-grads-in-fp32 attention-softmax-in-fp32 bf16", Takes::kNothing,
     Does::kNothing, kAlways},
    {"colocate allgather-cp sequence-parallel balance-data", Takes::kNothing, Does::kNothing,
     kAlways},
    {"overlap-cpu-optimizer-d2h-h2d use-precision-aware-optimizer "
     "rematerialize-param-from-master-weight",
     Takes::kNothing, Does::kNothing, "masters and moments are f32, wherever they are"},
    {"moe-enable-deepep disable-weights-backuper skip-actor-forward-only", Takes::kNothing,
     Does::kNothing, kOnePass},
    {"num-gpus-per-node rollout-num-gpus", Takes::kValue, Does::kNothing,
     "the engine is on the ranks that divide the model"},
    {"use-fault-tolerance", Takes::kNothing, Does::kNothing,
     "processes that are lost start again by --max-restarts, or by their launcher"},
    {"check-for-nan-in-loss-and-grad", Takes::kNothing, Does::kNothing,
     "a gradient that is no number ends the run"},
    {"dump-details", Takes::kValue, Does::kNothing,
     "metrics.jsonl and samples.jsonl are what is written of a round"},
    {"use-rollout-entropy observe-training-entropy log-passrate get-mismatch-metrics "
     "log-multi-turn",
     Takes::kNothing, Does::kNothing, "metrics.jsonl has all that is measured"},
    {"megatron-to-hf-mode train-backend save-hf", Takes::kValue, Does::kNothing,
     "every checkpoint is one of Hugging Face's"},
    {"moe-token-dispatcher-type sglang-moe-a2a-backend sglang-moe-runner-backend "
     "sglang-deepep-mode sglang-ep-size sglang-dp-size sglang-moe-dense-tp-size",
     Takes::kValue, Does::kNothing, kOnePass},
    {"sglang-enable-dp-attention sglang-enable-dp-lm-head", Takes::kNothing, Does::kNothing,
     kOnePass},
    {"attention-backend sglang-attention-backend sglang-nsa-decode-backend "
     "sglang-nsa-prefill-backend",
     Takes::kValue, Does::kNothing, kOneAttention},
    {"sglang-kv-cache-dtype sglang-page-size sglang-cuda-graph-max-bs "
     "sglang-chunked-prefill-size",
     Takes::kValue, Does::kNothing, "the engine decides it"},
    {"sglang-watchdog-timeout sglang-server-concurrency sglang-log-level "
     "sglang-decode-log-interval",
     Takes::kValue, Does::kNothing, kNoPython},
    {"use-wandb use-tensorboard", Takes::kNothing, Does::kNothing, kCurves},
    {"wandb-mode wandb-dir wandb-key wandb-host wandb-team wandb-group wandb-project "
     "wandb-run-id tb-project-name tb-experiment-name",
     Takes::kValue, Does::kNothing, kCurves},
    {"moe-grouped-gemm moe-permute-fusion enable-experimental", Takes::kNothing, Does::kNothing,
     "the backend has its kernels"},
    {"spec", Takes::kValues, Does::kNothing, kFromConfig},
    {"megatron-model-type num-layers hidden-size ffn-hidden-size num-attention-heads vocab-size "
     "make-vocab-size-divisible-by normalization position-embedding-type rotary-base q-lora-rank "
     "kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim kv-channels num-experts "
     "moe-layer-freq moe-ffn-hidden-size moe-shared-expert-intermediate-size moe-router-topk "
     "moe-router-topk-scaling-factor moe-router-score-function moe-router-dtype "
     "moe-router-load-balancing-type",
     Takes::kValue, Does::kNothing, kFromConfig},
    {"swiglu disable-bias-linear untie-embeddings-and-output-weights no-position-embedding "
     "qk-layernorm multi-latent-attention moe-router-pre-softmax moe-router-enable-expert-bias",
     Takes::kNothing, Does::kNothing, kFromConfig},
};

// One flag as it was given.
struct Given {
  std::string name;
  const TrainFlag* flag = nullptr;
  bool is_on = true;  // --x, not --no-x
  std::vector<std::string> values = {};

  std::string shown() const {
    std::string text = (is_on ? "--" : "--no-") + name;
    for (const std::string& value : values) text += " " + value;
    return text;
  }
};

Result<std::vector<Given>> read_flags(std::span<const std::string> args) {
  std::vector<Given> all;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (!arg.starts_with("--")) {
      return invalid(str(quoted(arg), " is no option; expected --NAME VALUE"));
    }
    const std::size_t equals = arg.find('=');
    Given given = {.name = with_dashes(arg.substr(2, equals == arg.npos ? arg.npos : equals - 2))};
    given.flag = find_train_flag(given.name);
    if (!given.flag && given.name.starts_with("no-")) {
      const TrainFlag* const positive = find_train_flag(given.name.substr(3));
      if (positive && positive->takes == Takes::kNothing) {
        given.name.erase(0, 3);
        given.flag = positive, given.is_on = false;
      }
    }
    if (!given.flag) return unknown_train_flag(arg, given.name, {});
    if (equals != arg.npos) {
      given.values.push_back(arg.substr(equals + 1));
    } else if (given.flag->takes != Takes::kNothing) {
      do {
        if (i + 1 == args.size() || args[i + 1].starts_with("--")) break;
        given.values.push_back(args[++i]);
      } while (given.flag->takes == Takes::kValues);
    }
    if (given.flag->takes != Takes::kNothing && given.values.empty()) {
      return invalid(str("--", given.name, " needs a value"));
    }
    std::erase_if(all, [&](const Given& before) { return before.name == given.name; });
    all.push_back(std::move(given));
  }
  return all;
}

bool same_value(const std::string& a, std::string_view b) {
  double x = 0, y = 0;
  if (parse_option(a, x) && parse_option(b, y)) return x == y;
  return a == b;
}

// The filter of DAPO, which there asks until the batch is full: here as often as can be.
void use_filter(TranslatedTrainArgs& out) {
  const std::string filter = out.value("dynamic-sampling-filter-path");
  if (filter.empty()) return;
  if (!filter.ends_with(".check_reward_nonzero_std")) {
    out.planned.push_back(str("--dynamic-sampling-filter-path ", filter,
                              ": another filter than check_reward_nonzero_std"));
  } else if (!out.values.contains("dynamic-sampling-rounds")) {
    out.options.push_back("--dynamic-sampling-rounds=1000");
  }
}

// Takes `flag` back, whose value counts nothing; where it is `neutral`, without a word.
void leave_out(TranslatedTrainArgs& out, const char* flag, const char* reason,
               std::string_view neutral = "") {
  const std::string value = out.value(flag);
  if (value.empty()) return;
  const auto given = std::ranges::find(out.options, str("--", flag, "=", value));
  if (given != out.options.end()) out.options.erase(given);
  if (same_value(value, neutral)) return;
  out.meaningless[reason] += str(" --", flag, value == "true" ? "" : " " + value);
}

Result<std::string> fingerprint_of(const std::string& dir) {
  GLINT_TRY(const std::string config, read_file(dir + "/config.json"));
  GLINT_TRY(const auto source, SafetensorsSource::open(dir));
  return source_fingerprint(*source, config);
}

}  // namespace

std::span<const TrainFlag> train_flags() { return kFlags; }

const TrainFlag* find_train_flag(std::string_view name) {
  for (const TrainFlag& flag : kFlags) {
    if (contains(words_of(flag.names), name)) return &flag;
  }
  return nullptr;
}

Error unknown_train_flag(const std::string& shown, std::string_view name,
                         std::vector<std::string> others) {
  for (const TrainFlag& flag : kFlags) {
    for (const std::string_view one : words_of(flag.names)) others.emplace_back(one);
  }
  const std::string near = did_you_mean(name, others);
  return invalid(str("unknown option ", quoted(shown),
                     near.empty() ? std::string() : ", did you mean --" + near + "?"));
}

Result<TranslatedTrainArgs> translate_train_args(std::span<const std::string> args) {
  GLINT_TRY(const std::vector<Given> all, read_flags(args));
  TranslatedTrainArgs out;
  for (const Given& given : all) {
    const TrainFlag& flag = *given.flag;
    const std::string value =
        given.values.empty() ? (given.is_on ? "true" : "false") : given.values.back();
    out.values[given.name] = value;
    switch (flag.does) {
      case Does::kOption: {
        const std::string name = flag.target.empty() ? given.name : std::string(flag.target);
        if (given.values.size() > 2) {
          return invalid(str(given.shown(),
                             ": one set of prompts, PATH or NAME PATH, is what an "
                             "evaluation takes"));
        }
        if (given.values.size() == 2) {
          out.meaningless["curves call it eval/reward"] += " " + given.values.front();
        }
        const bool has_value = name.find('=') != name.npos;
        out.options.push_back(str("--", name, has_value ? "" : "=", value));
        break;
      }
      case Does::kEach:
        for (const std::string& one : given.values) {
          out.options.push_back(str("--", given.name, "=", one));
        }
        break;
      case Does::kPlan:
        break;
      case Does::kNothing:
        out.meaningless[std::string(flag.target)] += " " + given.shown();
        break;
      case Does::kMust: {
        const std::size_t colon = flag.target.find(": ");
        if (!same_value(value, flag.target.substr(0, colon))) {
          out.planned.push_back(str(given.shown(), ": ", flag.target.substr(colon + 2)));
        }
        break;
      }
      case Does::kPlanned:
        if (given.is_on) out.planned.push_back(str(given.shown(), ": ", flag.target));
        break;
    }
  }
  use_filter(out);
  if (out.value("use-kl-loss") != "true") {
    leave_out(out, "kl-loss-coef", "there is no KL without --use-kl-loss", "0");
    leave_out(out, "kl-loss-type", "there is no KL without --use-kl-loss", "low_var_kl");
  }
  if (out.value("lr-decay-style") == "constant") {
    leave_out(out, "min-lr", "--lr-decay-style is constant", "0");
  }
  if (out.values.contains("num-rollout")) leave_out(out, "num-epoch", "--num-rollout is given");
  if (out.values.contains("rollout-seed")) leave_out(out, "seed", "--rollout-seed is given");
  // No more prompts than are wanted, as there by default.
  const std::string batch = out.value("rollout-batch-size");
  if (same_value(out.value("over-sampling-batch-size"), batch)) {
    leave_out(out, "over-sampling-batch-size", "", batch);
  }
  return out;
}

Status check_reference(const TranslatedTrainArgs& args, const std::string& hf_hub_cache) {
  const std::string model = args.value("hf-checkpoint"), reference = args.value("ref-load");
  if (reference.empty()) return Ok{};
  const Result<std::string> other = resolve_model(reference, hf_hub_cache);
  // The form that is trained there, of which --hf-checkpoint is the other one, may be anywhere.
  if (!other.ok() || !SafetensorsSource::any_in(other.value())) return Ok{};
  GLINT_TRY(const std::string dir, resolve_model(model, hf_hub_cache).in("--hf-checkpoint"));
  std::error_code error;
  if (std::filesystem::equivalent(dir, other.value(), error)) return Ok{};
  GLINT_TRY(const std::string ours, fingerprint_of(dir).in("--hf-checkpoint"));
  GLINT_TRY(const std::string theirs, fingerprint_of(other.value()).in("--ref-load"));
  if (ours == theirs) return Ok{};
  return invalid(str("--ref-load ", reference, " differs from --hf-checkpoint ", model,
                     " in config.json, division into files, or weights; training begins with the "
                     "reference model: give it by --hf-checkpoint, too"));
}

void leave_out_corrections(TranslatedTrainArgs& out) {
  const char* const reason = "all weights would be 1, as engine and trainer compute the same";
  leave_out(out, "use-tis", reason, "false");
  leave_out(out, "tis-clip", reason);
  leave_out(out, "tis-clip-low", reason);
}

std::string TranslatedTrainArgs::value(const std::string& flag) const {
  const auto found = values.find(flag);
  return found == values.end() ? std::string() : found->second;
}

std::vector<std::string> default_options(const std::map<std::string, std::string>& values) {
  const auto eps_clip = values.find("eps-clip");
  std::vector<std::string> options;
  for (const auto& [flag, value] :
       {std::pair<const char*, std::string>("eps-clip-high",
                                            eps_clip == values.end() ? "0.2" : eps_clip->second),
        {"input-key", "input"},
        {"n-samples-per-prompt", "1"},
        {"n-samples-per-eval-prompt", "1"},
        {"lr-decay-style", "linear"},
        {"adam-beta2", "0.999"},
        {"weight-decay", "0.01"}}) {
    const bool is_used = std::string_view(flag) != "n-samples-per-eval-prompt" ||
                         values.contains("eval-prompt-data");
    if (is_used && !values.contains(flag)) options.push_back(str("--", flag, "=", value));
  }
  return options;
}

Result<std::vector<std::string>> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? 0 : c;
      if (!in_word) words.emplace_back();
      in_word = true;
    } else if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      in_word = false;
    } else {
      if (!in_word) words.emplace_back();
      in_word = true;
      words.back() += c;
    }
  }
  if (quote != 0) return invalid(str(quoted(text), " has a quote without its other half"));
  return words;
}

}  // namespace glint
