// Another program's answer, within a time: a driver that hangs must not hang who asks after it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace glint {

// Output of the program at path `words[0]` to stdout and stderr, in the C locale, with nothing on
// stdin. Fails if it cannot be started, ends with another status than 0 (the message holds its
// first line), prints more than a mebibyte, or is not done after `seconds`: then its process group
// is killed.
Result<std::string> run_program(const std::vector<std::string>& words, double seconds);

}  // namespace glint
