// GrammarSpec: the form that an answer is to have, as a request says it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/shared.h"
#include "text/answer/delta_parser.h"

namespace glint {

struct GrammarSpec {
  enum class Kind { kJsonObject, kJsonSchema, kRegex, kEbnf, kChoice, kToolCalls, kStructuralTag };
  Kind kind = Kind::kJsonObject;
  std::string text = {};  // the schema, the expression, the EBNF or the structural tag
  std::vector<std::string> choices = {};
  // kToolCalls: the functions that may be called. `at_least_one`: the answer is calls and nothing
  // else (tool_choice required, or named when there is one function); else text, in which calls may
  // come. `parallel`: several calls. `lenient`: what no grammar can say of a function's arguments
  // is left open, where it would be an error.
  Shared<std::vector<ToolSpec>> tools = {};
  bool at_least_one = true;
  bool parallel = true;
  bool lenient = false;
  // kToolCalls with at_least_one: the answer may also be this instead of calls; null: it may not.
  std::shared_ptr<const GrammarSpec> instead = {};
};

// A spec as a text that no other spec has, and back. Fails on what dump_spec() did not write.
std::string dump_spec(const GrammarSpec& spec);
Result<GrammarSpec> parse_spec(std::string_view text);

}  // namespace glint
