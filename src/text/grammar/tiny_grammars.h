// For tests: grammars over the bundled model's vocabulary.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/str.h"
#include "text/grammar/grammar_testing.h"

namespace glint {

inline const TestGrammars& tiny_grammars() {
  static const TestGrammars grammars(
      Tokenizer::open(str(GLINT_SOURCE_DIR, "/models/glm5-tiny")).value(),
      3712);  // of the model: some more than the tokenizer has
  return grammars;
}

// The reason why it cannot be compiled; empty if it can.
inline std::string error_of(const GrammarSpec& spec) {
  const auto grammar = tiny_grammars().compiler.compile(spec);
  return grammar.ok() ? "" : grammar.error().message;
}

// Whether an answer may begin with `text`.
inline bool allowed(const GrammarSpec& spec, std::string_view text) {
  const auto constraint = tiny_grammars().constrain(spec);
  const std::vector<TokenId> tokens = tiny_grammars().tokenizer.encode(text).value();
  return std::ranges::all_of(tokens, [&](TokenId token) { return constraint->accept(token); });
}

inline const std::vector<ToolSpec>& weather_tools() {
  static const std::vector<ToolSpec> tools = {
      {"f", Json()},
      {"get_weather", parse_json(R"({"type":"object","properties":{
          "city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":14},
          "unit":{"enum":["celsius","fahrenheit"]},"tags":{"type":"array","items":{"type":"string"}},
          "at":{"$ref":"#/$defs/point"},"note":{"type":["string","null"]},
          "id":{"type":"string","pattern":"^[A-Z]{2}[0-9]+$"},"short":{"type":"string","maxLength":5},
          "some":{"type":"string","minLength":2},"exact":{"type":"boolean"}},
          "required":["city","unit"],
          "$defs":{"point":{"type":"object","properties":{"x":{"type":"number"}},
                            "required":["x"]}}})")
                          .value()},
      {"get",
       parse_json(R"({"type":"object","properties":{},"additionalProperties":false})").value()},
  };
  return tools;
}

}  // namespace glint
