// A server, from loading its weights to its end.
#pragma once

#include <string>

#include "cli/server_setup.h"
#include "text/template/chat_template.h"

namespace glint {

// The template `given` by --chat-template; empty: that of the checkpoint in `dir`.
Result<ChatTemplate> open_template(const std::string& given, const std::string& dir);

// Serves until a signal ends it. A step that hangs ends the program with exit code 70, and ranks
// that are lost too often with 3.
Status run_server(const ServeOptions& options, ServerSetup setup, Cli& cli);

}  // namespace glint
