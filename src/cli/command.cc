#include "cli/command.h"

#include <algorithm>

#include "base/contains.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/interrupt.h"

namespace glint {
namespace {

constexpr int kFailedExitCode = 1;
constexpr int kErrorExitCode = 2;

LogLevel log_level(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  return name == "error" ? LogLevel::kError : LogLevel::kWarning;
}

// The commands by group, one line each.
std::string overview(std::span<const Command> commands, int width) {
  std::string out =
      "glint serves, quantises and measures GLM-5, from its checkpoint as published.\n\n"
      "Usage: glint COMMAND [arguments] [options]\n";
  std::size_t longest = 0;
  std::vector<std::string> groups;
  for (const Command& command : commands) {
    longest = std::max(longest, command.info.name.size());
    if (!contains(groups, command.info.group)) {
      groups.push_back(command.info.group);
    }
  }
  const int indent = static_cast<int>(longest) + 4;
  for (const std::string& group : groups) {
    out += "\n" + group + ":\n";
    for (const Command& command : commands) {
      if (command.info.group != group) continue;
      std::string left = "  " + command.info.name;
      left.resize(static_cast<std::size_t>(indent), ' ');
      out += left + wrap(command.info.summary, std::clamp(width, indent + 30, 100), indent) + "\n";
    }
  }
  return out + "\n`glint help COMMAND` explains a command; `glint --version` prints the version.\n";
}

// How many words of `args` are the name of `command`; 0 if they are not.
std::size_t matched_words(const Command& command, std::span<const std::string> args) {
  const std::vector<std::string_view> words = split(command.info.name, ' ');
  if (args.size() < words.size()) return 0;
  return std::equal(words.begin(), words.end(), args.begin()) ? words.size() : 0;
}

Error unknown_command(std::span<const Command> commands, std::span<const std::string> args) {
  std::vector<std::string> names, seconds;
  std::string family;  // of "bench" alone, or of "bench" and a word that it has not
  for (const Command& command : commands) {
    names.push_back(command.info.name);
    if (!command.info.name.starts_with(args[0] + " ")) continue;
    seconds.push_back(command.info.name.substr(args[0].size() + 1));
    family += (family.empty() ? "`glint " : ", `glint ") + command.info.name + "`";
  }
  const std::string second = args.size() > 1 ? did_you_mean(args[1], seconds) : "";
  if (!second.empty()) {
    return invalid(str("unknown command ", quoted(args[0] + " " + args[1]),
                       ", did you mean `glint ", args[0], " ", second, "`?"));
  }
  if (!family.empty()) {  // `vllm bench serve`: other servers have more under their names
    for (const Command& command : commands) {
      if (matched_words(command, args.subspan(1)) == 0) continue;
      return invalid(str(quoted(args[0]), " has no `", command.info.name, "`; there is `glint ",
                         command.info.name, "`"));
    }
    return invalid(str(quoted(args[0]), " is not all of a command; there is ", family));
  }
  const std::string near = did_you_mean(args[0], names);
  return invalid(str("unknown command ", quoted(args[0]),
                     near.empty() ? "; `glint --help` lists the commands"
                                  : ", did you mean `glint " + near + "`?"));
}

Status dispatch(std::span<const Command> commands, std::span<const std::string> args, Cli& cli) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" ||
      (args[0] == "help" && args.size() == 1)) {
    cli.console.print(overview(commands, cli.console.width()));
    return Ok{};
  }
  if (args[0] == "--version") {
    cli.console.print("glint " GLINT_VERSION "\n");
    return Ok{};
  }
  bool help = args[0] == "help";
  if (help) args = args.subspan(1);
  for (const Command& command : commands) {
    const std::size_t words = matched_words(command, args);
    if (words == 0) continue;
    if (!help) return command.run(command.info, args.subspan(words), cli);
    const std::string ask[] = {"--help"};
    return command.run(command.info, ask, cli);
  }
  if (args[0].starts_with('-')) {
    return invalid(str("a command must come first, got ", quoted(args[0]),
                       "; `glint --help` lists the commands"));
  }
  if (args.size() > 1) help = args[1] == "--help" || args[1] == "-h";
  std::vector<Command> family;  // of "bench"
  for (const Command& command : commands) {
    if (command.info.name.starts_with(args[0] + " ")) family.push_back(command);
  }
  if (!help || family.empty()) return unknown_command(commands, args);
  cli.console.print(overview(family, cli.console.width()));
  return Ok{};
}

}  // namespace

Result<bool> prepare_command(const CommandInfo& info, OptionList& list, const CommonOptions& common,
                             std::span<const std::string> args, Cli& cli) {
  GLINT_TRY_STATUS(list.parse(args).in(info.name));
  if (list.wants_help()) {
    const HelpPage page = {.program = "glint " + info.name,
                           .summary = info.summary,
                           .description = info.description,
                           .examples = info.examples};
    cli.console.print(help_text(page, list, cli.console.width()));
    return false;
  }
  set_log_level(log_level(common.log_level));
  return true;
}

void add_name_of_link(std::string_view program, std::vector<std::string>& args) {
  program.remove_prefix(program.rfind('/') + 1);        // npos + 1 is 0
  if (!args.empty() && args[0] == "--version") return;  // there is one program
  for (const std::string_view name : {"vllm", "sglang", "trtllm-serve"}) {
    if (program == name) args.insert(args.begin(), std::string(name));
  }
}

int run_command_line(std::span<const Command> commands, std::span<const std::string> args,
                     Cli& cli) {
  Status status = dispatch(commands, args, cli);
  if (status.ok()) status = cli.console.close();
  if (!status.ok()) {
    cli.console.note("glint: " + status.error().message, LogLevel::kError);
    return kErrorExitCode;
  }
  if (cli.interrupted) return interrupted_exit_code();
  return cli.failed ? kFailedExitCode : 0;
}

}  // namespace glint
