// MODEL of the commands that need only a tokenizer.
#pragma once

#include <string>

#include "base/file.h"
#include "cli/command.h"
#include "cli/hub_model.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

// MODEL or the path of a tokenizer.json.
inline Result<Tokenizer> open_tokenizer(const std::string& model, const Cli& cli) {
  if (file_exists(model)) return Tokenizer::open(model);
  GLINT_TRY(const std::string dir, model_dir(model, cli, ModelPart::kTokenizer));
  return Tokenizer::open(dir);
}

}  // namespace glint
