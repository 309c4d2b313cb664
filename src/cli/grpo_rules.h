// The form that answers of a `glint train grpo` run must have, and who runs their tools.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/line_program.h"
#include "cli/grpo_options.h"
#include "text/grammar/grammar.h"

namespace glint {

class GrpoRules {
 public:
  // For answers of `model`, whose files are in `dir`. Compiles the grammar, starts the program.
  // `tokenizer` outlives the result. `goes_on`: false ends the waiting for the program.
  static Result<std::unique_ptr<GrpoRules>> open(const GrpoCommandOptions& options,
                                                 const std::string& dir, const Tokenizer& tokenizer,
                                                 const LoadedModel& model,
                                                 std::function<bool()> goes_on);

  AnswerRules rules() const;

 private:
  explicit GrpoRules(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  const Tokenizer& tokenizer_;
  std::optional<GrammarCompiler> compiler_;
  std::shared_ptr<const CompiledGrammar> grammar_;
  std::optional<LineProgram> program_;
  std::optional<ToolTurns> tools_;
  int max_turns_ = 1;
};

}  // namespace glint
