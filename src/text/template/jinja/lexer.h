// Template text -> tokens, by jinja2's rules with trim_blocks and lstrip_blocks on and
// keep_trailing_newline off: what whitespace around tags goes is decided here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/template/jinja/value.h"

namespace glint::jinja {

struct Position {
  int line = 1, column = 1;  // column in characters
};

// Adds "line 3, column 14: " to an error.
Error at(Position position, Error error);

struct Token {
  enum Kind {
    kData,           // text between tags; `text`
    kVariableBegin,  // {{
    kVariableEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,      // `text`
    kString,    // `text`, unescaped
    kNumber,    // `number`; `text` is its spelling
    kOperator,  // `text`
    kEnd,
  };
  Kind kind;
  Position position;
  std::string text;
  Value number;

  bool is_name(std::string_view name) const { return kind == kName && text == name; }
  bool is_operator(std::string_view sign) const { return kind == kOperator && text == sign; }
  // How an error names it: "'endfor'", "end of template".
  std::string description() const;
};

// The tokens of `source`, with a kEnd at the end.
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace glint::jinja
