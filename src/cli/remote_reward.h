// Rewards by another program (--rm-type remote_rm): a server, or one that we start.
#pragma once

#include <string>

#include "rl/group_rollouts.h"

namespace glint {

// POSTs {"prompt", "response", "label"} to `url` for each answer, some at once; a 2xx answer is a
// JSON number, the reward, or an object with it. A server that is away, busy (429) or fails (5xx)
// is asked again, after longer and longer pauses. All answers of a call share a budget of
// `seconds`. What goes wrong then is kUnavailable, with one sentence that names the server. `tell`
// gets a line when a call asks again for the first time.
RemoteGrader remote_grader(const std::string& url, double seconds,
                           std::function<void(const std::string&)> tell);

// Grades by lines of a program (base/line_program.h), which starts with the first answers.
RemoteGrader command_grader(const std::string& command, double seconds);

}  // namespace glint
