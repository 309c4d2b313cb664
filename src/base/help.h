// The help page of a command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"

namespace glint {

// The text of a help page besides the options.
struct HelpPage {
  struct Example {
    std::string command, meaning;
  };
  std::string program;  // "glint generate"
  std::string summary;  // one line
  std::string description;
  std::vector<Example> examples = {};
};

// The page, wrapped at `width` columns, with a newline at its end.
std::string help_text(const HelpPage& page, const OptionList& list, int width);

// `text` in lines of at most `width` columns, breaking at blanks; lines after the first begin with
// `indent` blanks.
std::string wrap(std::string_view text, int width, int indent);

}  // namespace glint
