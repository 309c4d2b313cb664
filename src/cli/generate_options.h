// Options that `generate` and `chat` share: sampling, speculation, room in the cache.
#pragma once

#include <optional>
#include <string>

#include "cli/model_options.h"
#include "runtime/generator.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

struct SamplingOptions {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
  std::optional<std::uint64_t> seed;
  std::string spec;

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Sampling");
    v("temperature", temperature, "0 is greedy (default: generation_config.json)");
    v("top-p", top_p,
      "keep the likeliest tokens that reach this probability (default: generation_config.json)");
    v("top-k", top_k,
      "keep the k likeliest tokens; 0 or -1: all (default: generation_config.json)");
    v("min-p", min_p,
      "drop tokens less likely than this share of the likeliest (default: generation_config.json)");
    v("repetition-penalty", repetition_penalty,
      "above 1: make tokens that the text already holds less likely (default: "
      "generation_config.json)");
    v("seed", seed, "the same seed gives the same answer (default: a new one each time)");
    v("spec=mtp:K", spec,
      "let the model's MTP layer guess K tokens a step; the answer stays the same");
  }
};

inline constexpr int kMostDrafts = 16;  // that the MTP layer guesses a step
// K of "mtp:K"; 0 for an empty text or "none".
Result<int> parse_spec(const std::string& spec);

// The options on top of the generation_config.json of the model in `dir`; before its weights are
// read, which may take long.
Result<GenerateOptions> generate_options(const SamplingOptions& options, const std::string& dir,
                                         const OpenedModel& model, const Tokenizer& tokenizer,
                                         int num_drafts);

// Fails if the prompt holds what is no token of the model, or leaves no room for an answer.
Status check_prompt(const ModelConfig& model, std::span<const TokenId> prompt);

// Makes room for a prompt and an answer, no longer together than the model has positions.
Status reserve_context(LoadedModel& model, int prompt_tokens, int max_tokens, int num_drafts);

// One line: tokens, speed, and how many drafts were accepted.
std::string describe_speed(const GenerateStats& stats);

}  // namespace glint
