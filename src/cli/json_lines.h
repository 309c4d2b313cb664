// Commands with --jsonl: each line of stdin is a JSON object and gets one line of stdout, at once.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "cli/console.h"

namespace glint {

// The JSON text that answers one line.
using LineAnswer = std::function<Result<std::string>(const Json& line)>;

// Answers until stdin ends. A line that is no JSON object, or that `answer` fails on, is answered
// {"error": "..."}; the lines after it are answered as if it had not been. Answers are on their way
// before the next line is waited for. Fails if stdin cannot be read.
Status answer_json_lines(Console& console, const LineAnswer& answer);

// All of stdin.
Result<std::string> read_stdin();

}  // namespace glint
