// For tests of the command lines of other servers: what one adds up to.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/test_dir.h"
#include "cli/serve_options.h"
#include "cli/train_flags.h"
#include "server/flags/translate_flags.h"

namespace glint {

struct Served {
  ServeOptions options;
  TranslatedArgs translated;
  std::string error;
};

inline Served serve(Dialect dialect, std::vector<std::string> args) {
  Served served;
  OptionList own(served.options);
  Result<TranslatedArgs> translated = translate_flags(dialect, args, own);
  if (!translated.ok()) {
    served.error = translated.error().message;
    return served;
  }
  served.translated = std::move(translated).value();
  if (const Status status = own.parse(served.translated.args); !status.ok())
    served.error = status.error().message;
  return served;
}

inline std::vector<std::string> words(const std::string& line) { return split_words(line).value(); }

inline std::string write_temporary(const std::string& name, const std::string& text) {
  static const TestDir dir;
  return dir.write(name, text);
}

}  // namespace glint
