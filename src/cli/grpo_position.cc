#include "cli/grpo_position.h"

#include <algorithm>

#include "base/hash.h"
#include "base/str.h"

namespace glint {
namespace {

// Sameness of prompts, as rounds see them.
std::string hash_of(const std::vector<TrainPrompt>& prompts) {
  std::string all;
  for (const TrainPrompt& prompt : prompts) {
    for (const TokenId id : prompt.ids) all += str(id, " ");
    all += str(quoted(prompt.label), prompt.rm_type, "\n");
  }
  return str(fnv1a(all));
}

// Fails where `theirs`, those of a checkpoint's run, would be another run.
Status check_options(const Json& theirs, const GrpoCommandOptions& options) {
  const Json mine = options.fixed_options();
  for (const auto& [name, value] : mine.as_object()) {
    const Json* had = theirs.find(name);
    // Checkpoints of before say 0 of all answers of a round.
    const Json all_answers = options.answers_of_round();
    if (name == "global-batch-size" && had && *had == Json(0)) had = &all_answers;
    // A run may have begun before checkpoints said it.
    const bool is_newer = name == "index" || name == "mtp-loss-scaling-factor";
    if (had ? *had == value : is_newer) continue;
    return invalid(str("--", name, " is ", dump_json(value), "; the run to go on with had ",
                       had ? dump_json(*had) : "none"));
  }
  return Ok{};
}

// Whether every answer has the weights of its tokens, which a run has from its beginning or never.
bool has_mismatches(const GrpoBatch& batch) {
  return std::ranges::all_of(batch.answers, [](const GradedAnswer& answer) {
    return answer.mismatches.size() == answer.served_log_probs.size();
  });
}

}  // namespace

Result<GrpoPosition> GrpoPosition::of(const Json& state, const GrpoCommandOptions& options,
                                      const std::vector<TrainPrompt>& prompts) {
  const Json *const round = state.find("round"), *const used = state.find("prompts_used");
  const Json* const theirs = state.find("options");
  if (!round || !round->is_int() || !used || !used->is_int() || !theirs) {
    return invalid(str(options.save, " is no run of `glint train grpo`; give another --save"));
  }
  GLINT_TRY_STATUS(check_options(*theirs, options));
  const Json* const hash = state.find("prompts_fnv1a");
  if (!hash || *hash != Json(hash_of(prompts))) {
    return invalid(str(options.prompt_data, " has other prompts than the run in ", options.save,
                       " began with; give those, or another --save"));
  }
  GrpoPosition at = {.round = round->as_int(),
                     .prompts_used = static_cast<std::uint64_t>(used->as_int())};
  if (const Json* const begun = state.find("begun")) {
    GLINT_TRY(at.begun, answer_groups_of(*begun).in(options.save));
  }
  if (const Json* const ahead = state.find("ahead")) {
    GLINT_TRY(at.ahead, grpo_batch_of(*ahead).in(options.save));
  }
  if (at.ahead && (options.use_tis || options.use_icepop) && !has_mismatches(*at.ahead)) {
    return invalid(str(options.use_tis ? "--use-tis" : "--use-icepop",
                       " begins with a run: the answers that ", options.save,
                       " has for the next round were scored without it; resume without it, or "
                       "give another --save"));
  }
  return at;
}

Status GrpoPosition::check_models(const Json& state, const GrpoCommandOptions& options) const {
  if (const Json* const theirs = state.find("base"); theirs && *theirs != Json(base)) {
    return invalid(str("the run in ", options.save, " began with another model than ",
                       options.model, "; give that, or another --save"));
  }
  const Json* const theirs = state.find("reference");
  if (reference.empty() || (theirs && *theirs == Json(reference))) return Ok{};
  return invalid(
      str("the reference model is ", options.ref_load.empty() ? options.model : options.ref_load,
          "; the run in ", options.save,
          " began with one of other weights: give that by --ref-load, or another --save"));
}

Json GrpoPosition::state(const GrpoCommandOptions& options,
                         const std::vector<TrainPrompt>& prompts) const {
  Json all = Json::Object{{"round", round},
                          {"prompts_used", static_cast<std::int64_t>(prompts_used)},
                          {"prompts_fnv1a", hash_of(prompts)},
                          {"options", options.fixed_options()},
                          {"schedule", options.optimizer.schedule(options.num_steps())},
                          {"base", base}};
  if (!reference.empty()) all.set("reference", reference);
  if (!begun.empty()) all.set("begun", to_json(begun));
  if (ahead) all.set("ahead", to_json(*ahead));
  return all;
}

}  // namespace glint
