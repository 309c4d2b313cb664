// Text from stdin: lines, all of it, and commands with --jsonl, where each line is a JSON object
// and gets one line of stdout, at once.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "cli/console.h"

namespace glint {

// Lines of stdin. Reads what is there without waiting for more, which stdio would.
class LineReader {
 public:
  // The next line without its end; nothing at the end of the input.
  std::optional<std::string> next();

  // True if a line can be had without waiting.
  bool has_line() const { return buffer_.find('\n', at_) != buffer_.npos; }

  // After the end: fails if stdin could not be read to it.
  const Status& status() const { return status_; }

 private:
  std::string take(std::size_t end, std::size_t next);
  bool read_more(std::size_t& searched);

  std::string buffer_;
  std::size_t at_ = 0;  // where the next line begins
  bool ended_ = false;
  Status status_ = Ok{};
};

// The JSON text that answers one line.
using LineAnswer = std::function<Result<std::string>(const Json& line)>;

// Answers until stdin ends. A line that is no JSON object, or that `answer` fails on, is answered
// {"error": "..."}; the lines after it are answered as if it had not been. Answers are on their way
// before the next line is waited for. Fails if stdin cannot be read.
Status answer_json_lines(Console& console, const LineAnswer& answer);

// All of stdin.
Result<std::string> read_stdin();

}  // namespace glint
