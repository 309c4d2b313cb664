// A command of the program: what its help says, a struct of options, and a function. One file each,
// cmd_x.cc:
//
//   namespace glint {
//   namespace {
//   struct Options { ...; template <class V> void visit(V&& v) { ... } };  // see base/options.h
//   Status run(const Options& options, Cli& cli) { ... }
//   }  // namespace
//   Command x_command() {
//     return make_command<Options>({.name = "x", .summary = "one line", ...}, run);
//   }
//   }  // namespace glint
//
// and a line in commands.h.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/help.h"
#include "base/result.h"
#include "cli/console.h"
#include "cli/environment.h"

namespace glint {

// A command's console and environment, and its outcome beside errors.
struct Cli {
  Console& console;
  const Environment& environment;
  bool interrupted = false;  // set by a command that an InterruptGuard ended
  bool failed = false;       // set by a check that found something wrong: exit code 1
  // The program's own arguments, for commands that start themselves again. `is_rank`: started so,
  // as a rank of training (train_processes.h); `goes_on`: as a rank of a run that goes on.
  std::vector<std::string> command_line = {};
  bool is_rank = false, goes_on = false;
};

struct CommandInfo {
  std::string name;         // "generate", "bench local"
  std::string group;        // commands of one group stand together in `glint --help`
  std::string summary;      // one line, lower case, no full stop
  std::string description;  // a paragraph: what it does, what it prints, what to know
  std::vector<HelpPage::Example> examples = {};
};

struct Command {
  CommandInfo info;
  std::function<Status(const CommandInfo&, std::span<const std::string> args, Cli&)> run;
};

// Options of every command.
struct CommonOptions {
  std::string log_level = "warning";

  template <class Visitor>
  void visit(Visitor&& v) {
    v.section("Common");
    v("log-level", log_level, "what to report on stderr", {"debug", "info", "warning", "error"});
  }
};

// Parses `args`, applies the common options, or prints the help if that is what was asked. True: go
// on and run.
Result<bool> prepare_command(const CommandInfo& info, OptionList& list, const CommonOptions& common,
                             std::span<const std::string> args, Cli& cli);

// `run` takes the options and the Cli, and between them, if it asks which were given, their list.
template <class Options, class Run>
Command make_command(CommandInfo info, Run run) {
  struct All : Options, CommonOptions {
    void visit(OptionList& list) {
      Options::visit(list);
      CommonOptions::visit(list);
    }
  };
  auto parse_and_run = [run](const CommandInfo& info, std::span<const std::string> args,
                             Cli& cli) -> Status {
    All options = {};
    OptionList list(options);
    GLINT_TRY(const bool go_on, prepare_command(info, list, options, args, cli));
    if (!go_on) return Ok{};
    if constexpr (std::is_invocable_v<Run, const Options&, const OptionList&, Cli&>) {
      return run(options, list, cli);
    } else {
      return run(options, cli);
    }
  };
  return {.info = std::move(info), .run = parse_and_run};
}

// A program that is called by another server's name, through a link, behaves as that server: puts
// the name in front of `args`.
void add_name_of_link(std::string_view program, std::vector<std::string>& args);

// Runs the command line `args` (without the program's name) and returns the exit code: 0, 1 if
// what was checked is wrong, 2 after an error, which was told in one sentence on stderr, or 128
// and the signal after an interruption.
int run_command_line(std::span<const Command> commands, std::span<const std::string> args,
                     Cli& cli);

}  // namespace glint
