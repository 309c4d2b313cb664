// Lines from the user: edited, with a history, on a terminal, where Ctrl-C clears the line; read as
// they are from a file or a pipe.
#pragma once

#include <optional>
#include <string>

#include "cli/json_lines.h"

namespace glint {

class LineEditor {
 public:
  // The history is kept in `history_file` over runs; empty: not kept.
  LineEditor(bool interactive, std::string history_file);

  bool interactive() const { return interactive_; }

  // The next line without its end; nothing at the end of the input (Ctrl-D).
  std::optional<std::string> read(const std::string& prompt);

  // Whether a line waits on the terminal before it is read: typed ahead, during an answer say.
  bool typed_ahead() const { return has_input(0); }
  // Whether the terminal sends more at once, as when lines are pasted.
  bool pastes() const;

  // After the end: fails if the input could not be read to it.
  const Status& status() const { return lines_.status(); }

 private:
  bool has_input(int wait_ms) const;

  const bool interactive_;
  const std::string history_file_;
  LineReader lines_;
};

}  // namespace glint
