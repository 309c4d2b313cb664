// glint: one program, a command a file (cmd_*.cc).
#include <sys/resource.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "cli/file_signals.h"
#include "cli/interrupt.h"
#include "cli/served_ranks.h"
#include "cli/train_processes.h"
#include "text/grammar/grammar_process.h"

namespace {

constexpr const char* kNoMemory = "glint: out of memory";
constexpr const char* kNoThread =  // what std::thread throws; we throw no std::system_error
    "glint: cannot start a thread; give --threads a smaller number, or the program more memory or "
    "threads (ulimit -u, pids.max of its control group)";

void end_with(const char* why) {
  std::fprintf(stderr, "%s\n", why);
  glint::end_program(2);
}

// Threads have as much as the first one, and a fault for want of it says nothing.
bool has_stack() {
  constexpr rlim_t kLeast = rlim_t{256} << 10;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return true;
  std::fprintf(stderr, "glint: stacks are limited to %llu KiB and need 256; try `ulimit -s 8192`\n",
               static_cast<unsigned long long>(limit.rlim_cur >> 10));
  return false;
}

const std::terminate_handler kUsualEnd = std::get_terminate();

// For an exception that leaves another thread than the first.
void end_of_thread() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const std::bad_alloc&) {
    end_with(kNoMemory);
  } catch (const std::system_error&) {
    end_with(kNoThread);
  } catch (...) {
  }
  kUsualEnd();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace glint;
  if (!has_stack()) return 2;
  if (argc == 2 && std::string_view(argv[1]) == kGrammarProcessArgument)
    return run_grammar_process();
  std::set_terminate(end_of_thread);
  if (argc == 2 && std::string_view(argv[1]) == kRankProcessArgument) return run_rank();
  keep_standard_streams();
  const std::string_view first = argc > 1 ? argv[1] : "";
  const bool goes_on = first == kTrainRankAgainArgument;
  const bool is_rank = goes_on || first == kTrainRankArgument;
  is_rank ? ignore_interrupts() : handle_interrupts();
  handle_file_signals();
  const Environment environment = read_environment();
  Console console(stdout, stderr, environment.no_color);
  std::vector<std::string> args(argv + (is_rank ? 2 : 1), argv + argc);
  add_name_of_link(argc > 0 ? argv[0] : "", args);
  Cli cli = {.console = console,
             .environment = environment,
             .command_line = args,
             .is_rank = is_rank,
             .goes_on = goes_on};
  try {
    return run_command_line(all_commands(), args, cli);
  } catch (const std::bad_alloc&) {
    console.note(kNoMemory, LogLevel::kError);
  } catch (const std::system_error&) {
    console.note(kNoThread, LogLevel::kError);
  }
  return 2;
}
