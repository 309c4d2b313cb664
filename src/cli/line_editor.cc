#include "cli/line_editor.h"

// clang-format off
#include <cstdio>   // before the next one, which needs FILE
#include <editline/readline.h>
// clang-format on

#include <cstdlib>
#include <iostream>

namespace glint {

namespace {
constexpr int kHistoryLines = 1000;
}

LineEditor::LineEditor(bool interactive, std::string history_file)
    : interactive_(interactive), history_file_(std::move(history_file)) {
  if (!interactive_) return;
  using_history();
  stifle_history(kHistoryLines);
  if (!history_file_.empty()) read_history(history_file_.c_str());
}

LineEditor::~LineEditor() {
  if (interactive_ && !history_file_.empty()) write_history(history_file_.c_str());
}

std::optional<std::string> LineEditor::read(const std::string& prompt) {
  if (!interactive_) {
    std::string line;
    if (!std::getline(std::cin, line)) return {};
    return line;
  }
  char* const line = readline(prompt.c_str());
  if (!line) return {};
  std::string text = line;
  std::free(line);
  if (!text.empty()) add_history(text.c_str());
  return text;
}

}  // namespace glint
