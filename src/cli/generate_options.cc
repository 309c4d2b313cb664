#include "cli/generate_options.h"

#include <random>

#include "base/parse_number.h"
#include "base/str.h"
#include "runtime/memory_plan.h"
#include "runtime/score.h"

namespace glint {

Result<int> parse_spec(const std::string& spec) {
  if (spec.empty() || spec == "none") return 0;
  constexpr std::string_view kMtp = "mtp:";
  int drafts = -1;
  if (spec.starts_with(kMtp)) drafts = parse_number<int>(spec.substr(kMtp.size())).value_or(-1);
  if (drafts < 0 || drafts > kMostDrafts) {
    return invalid(
        str("--spec is ", quoted(spec), "; expected mtp:K with K from 0 to ", kMostDrafts));
  }
  return drafts;
}

Result<GenerateOptions> generate_options(const SamplingOptions& options, const std::string& dir,
                                         const OpenedModel& model, const Tokenizer& tokenizer,
                                         int num_drafts) {
  GLINT_TRY_STATUS(check_mtp(model, dir, num_drafts > 0, "spec"));
  const GenerationConfig& defaults = model.generation;
  GenerateOptions out;
  out.sampling = {
      .temperature = options.temperature.value_or(defaults.temperature),
      .top_p = options.top_p.value_or(defaults.top_p),
      .top_k = options.top_k == -1 ? 0 : options.top_k.value_or(defaults.top_k),
      .min_p = options.min_p.value_or(defaults.min_p),
      .repetition_penalty = options.repetition_penalty.value_or(defaults.repetition_penalty),
      .seed = options.seed.value_or(std::random_device()())};
  if (const Status sound = validate(out.sampling); !sound.ok()) {
    return invalid("--" + sound.error().message);
  }
  out.stop_ids = stop_ids(model.config, defaults);
  out.num_drafts = num_drafts;
  out.num_token_ids =
      std::min<TokenId>(tokenizer.vocab_size(), static_cast<TokenId>(model.config.vocab_size));
  return out;
}

Status check_prompt(const ModelConfig& model, std::span<const TokenId> prompt) {
  GLINT_TRY_STATUS(check_sequence(model, prompt));
  if (std::ssize(prompt) < model.max_position_embeddings) return Ok{};
  return invalid(str("the prompt fills the ", model.max_position_embeddings,
                     " positions of the model; shorten it, for an answer needs one"));
}

Status reserve_context(LoadedModel& model, int prompt_tokens, int max_tokens, int num_drafts) {
  const std::int64_t limit = model.config().max_position_embeddings;
  const std::int64_t tokens =
      std::min<std::int64_t>(std::int64_t{prompt_tokens} + max_tokens, limit);
  return reserve(model, static_cast<int>(pages_of(tokens + num_drafts)),
                 {.max_step_tokens = GenerateOptions().chunk,
                  .max_running = 1,
                  .max_drafts = num_drafts,
                  .max_seq_len = tokens});
}

std::string describe_speed(const GenerateStats& stats) {
  const int read = stats.prompt_tokens - stats.cached_tokens, decoded = stats.completion_tokens - 1;
  std::string line = counted(stats.prompt_tokens, "prompt token");
  if (stats.cached_tokens) line += formatted(" (%d cached), %d", stats.cached_tokens, read);
  if (stats.prefill_s > 0) line += formatted(" at %.1f/s", read / stats.prefill_s);
  line += ", " + counted(stats.completion_tokens, "token");
  if (decoded > 0) line += formatted(" at %.1f/s", decoded / stats.decode_s);
  if (stats.drafted) {
    line += formatted(", drafts accepted: %d of %d (%.1f %%)", stats.accepted, stats.drafted,
                      100.0 * stats.accepted / stats.drafted);
  }
  return line;
}

}  // namespace glint
