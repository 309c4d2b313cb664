#include "cli/grpo_rules.h"

#include "base/file.h"

namespace glint {

Result<std::unique_ptr<GrpoRules>> GrpoRules::open(const GrpoCommandOptions& options,
                                                   const std::string& dir,
                                                   const Tokenizer& tokenizer,
                                                   const LoadedModel& model,
                                                   std::function<bool()> goes_on) {
  std::unique_ptr<GrpoRules> all(new GrpoRules(tokenizer));
  GrammarSpec spec = {.kind = GrammarSpec::Kind::kRegex, .text = options.rollout_regex};
  if (!options.rollout_json_schema.empty()) {
    GLINT_TRY(std::string schema, read_file(options.rollout_json_schema));
    spec = {.kind = GrammarSpec::Kind::kJsonSchema, .text = std::move(schema)};
  }
  if (!spec.text.empty()) {
    const ModelConfig& config = model.config();
    all->compiler_.emplace(read_vocabulary(tokenizer, static_cast<int>(config.vocab_size),
                                           stop_ids(config, model.generation())));
    const bool is_regex = spec.kind == GrammarSpec::Kind::kRegex;
    GLINT_TRY(all->grammar_,
              all->compiler_->compile(spec).in(is_regex ? std::string("--rollout-regex")
                                                        : "--rollout-json-schema " +
                                                              options.rollout_json_schema));
  }
  if (options.generate_tool_command.empty()) return all;
  GLINT_TRY(ChatTemplate chat, ChatTemplate::open(dir));
  GLINT_TRY(LineProgram program, LineProgram::start(options.generate_tool_command));
  all->program_.emplace(std::move(program));
  all->max_turns_ = options.generate_max_turns;
  const auto run = [&its = *all->program_, seconds = options.rm_timeout, goes_on](
                       const std::string& name,
                       const std::string& arguments) -> Result<std::string> {
    GLINT_TRY(const Json given, parse_json(arguments));
    GLINT_TRY(
        std::string line,
        its.ask(dump_json(Json::Object{{"name", name}, {"arguments", given}}), seconds, goes_on)
            .in("--generate-tool-command"));
    const Result<Json> json = parse_json(line);
    return json.ok() && json.value().is_string() ? json.value().as_string() : std::move(line);
  };
  all->tools_.emplace(tokenizer, std::move(chat), run);
  return all;
}

AnswerRules GrpoRules::rules() const {
  AnswerRules rules = {.tools = tools_ ? &*tools_ : nullptr, .max_turns = max_turns_};
  if (grammar_) {
    rules.constrain = [this](std::span<const TokenId> prompt) {
      return compiler_->constrain(grammar_, ends_in_reasoning(tokenizer_, prompt));
    };
  }
  return rules;
}

}  // namespace glint
