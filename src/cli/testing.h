// A command line run inside a test.
#pragma once

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "cli/command.h"

namespace glint {

struct Outcome {
  int exit_code = 0;
  std::string out, err;
};

inline Outcome run_captured(std::span<const Command> commands,
                            const std::vector<std::string>& args) {
  const auto contents = [](std::FILE* file) {
    std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
    std::rewind(file);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  };
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  const Environment environment;
  Console console(out, err, true);
  Cli cli = {.console = console, .environment = environment};
  Outcome outcome;
  outcome.exit_code = run_command_line(commands, args, cli);
  outcome.out = contents(out);
  outcome.err = contents(err);
  return outcome;
}

}  // namespace glint
