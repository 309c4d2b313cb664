// For tests: grammars over the bundled model's vocabulary.
#pragma once

#include "base/str.h"
#include "text/grammar/grammar_testing.h"

namespace glint {

inline const TestGrammars& tiny_grammars() {
  static const TestGrammars grammars(
      Tokenizer::open(str(GLINT_SOURCE_DIR, "/models/glm5-tiny")).value(),
      3712);  // of the model: some more than the tokenizer has
  return grammars;
}

}  // namespace glint
