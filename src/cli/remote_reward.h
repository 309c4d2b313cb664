// Rewards by another program: an HTTP server that grades answers (--rm-type remote_rm).
#pragma once

#include <string>

#include "rl/grpo.h"

namespace glint {

// POSTs {"prompt", "response", "label"} to `url` for each answer, some at once; a 200 answer is a
// JSON number, the reward. All answers of a call share a budget of `seconds`. What goes wrong is
// kUnavailable, with one sentence that names the server.
RemoteGrader remote_grader(const std::string& url, double seconds);

}  // namespace glint
