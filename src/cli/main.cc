// glint: one program, a command a file (cmd_*.cc).
#include <cstdio>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/file_signals.h"
#include "cli/interrupt.h"
#include "cli/served_ranks.h"
#include "cli/train_processes.h"
#include "text/grammar/grammar_process.h"

int main(int argc, char** argv) {
  using namespace glint;
  if (argc == 2 && std::string_view(argv[1]) == kGrammarProcessArgument)
    return run_grammar_process();
  if (argc == 2 && std::string_view(argv[1]) == kRankProcessArgument) return run_rank();
  keep_standard_streams();
  const bool is_rank = argc > 1 && std::string_view(argv[1]) == kTrainRankArgument;
  is_rank ? ignore_interrupts() : handle_interrupts();
  handle_file_signals();
  const Environment environment = read_environment();
  Console console(stdout, stderr, environment.no_color);
  std::vector<std::string> args(argv + (is_rank ? 2 : 1), argv + argc);
  add_name_of_link(argc > 0 ? argv[0] : "", args);
  Cli cli = {
      .console = console, .environment = environment, .command_line = args, .is_rank = is_rank};
  try {
    return run_command_line(all_commands(), args, cli);
  } catch (const std::bad_alloc&) {
    console.note("glint: out of memory");
    return 2;
  } catch (const std::system_error& error) {  // of std::thread alone
    console.note(str("glint: cannot start a thread: ", error.code().message(),
                     "; give --threads a smaller number, or the program more memory or threads "
                     "(ulimit -u, pids.max of its control group)"));
    return 2;
  }
}
