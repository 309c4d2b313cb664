// For tests of the command lines of other servers: what one adds up to.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/str.h"
#include "base/test_dir.h"
#include "cli/serve_options.h"
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

// The path behind --config is the rest of the line: it may have blanks.
inline std::vector<std::string> words(const std::string& line) {
  constexpr std::string_view kConfig = " --config ";
  const std::size_t end = std::min(line.find(kConfig), line.size());
  const std::vector<std::string_view> before = words_of(std::string_view(line).substr(0, end));
  std::vector<std::string> all(before.begin(), before.end());
  if (end < line.size()) all.insert(all.end(), {"--config", line.substr(end + kConfig.size())});
  return all;
}

inline std::string write_temporary(const std::string& name, const std::string& text) {
  static const TestDir dir;
  return dir.write(name, text);
}

}  // namespace glint
