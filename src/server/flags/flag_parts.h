// Layouts and speculations of which other servers' flags give a part each, as arguments of `glint
// serve`. Parts are named by the flags' files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/flags/flag_table.h"

namespace glint {

using FlagParts = std::map<std::string, std::string>;  // a switch is "true" or "false"

struct LayoutArguments {
  // --tp, --dp, --ep, --pp, --cp, --nnodes, --node-rank, --max-num-batched-tokens
  std::vector<std::string> args;
  int replicas = 1;          // for each of which the server counts the requests that run at once
  std::string ignored = {};  // which flag asks for what a balancer does, and why; or empty
  bool headless = false;     // it is to follow another machine's server
};
Result<LayoutArguments> arguments_of_layout(Dialect dialect, const FlagParts& parts);

// --spec=mtp:K, or nothing.
Result<std::vector<std::string>> arguments_of_speculation(const FlagParts& parts);

}  // namespace glint
