// GrammarProcess: grammars are compiled by a process beside the server, which can be given up. It
// holds the vocabulary, and forks one more for each grammar:
//
//   server --control socket: job, its socket--> grammar process --fork--> one that compiles
//   server <--socket of the job: the grammar, or why there is none---------------'
//
// The one that compiles ends by itself when it has taken its time or its memory, and when the other
// end of its socket is closed: by who does not want the grammar any more, or because the server is
// gone. Its first half a second has a low priority, the rest that of an idle process; in between it
// says so. The grammar process ends when the server does.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "text/grammar/grammar.h"

namespace glint {

// Limits of compiling one grammar.
struct GrammarBudget {
  double seconds = 5;                          // of processor time
  std::int64_t bytes = std::int64_t{1} << 29;  // of memory
};

// The end of a job; with kSlow, only that of its first half second.
struct GrammarOutcome {
  enum class Kind { kCompiled, kRefused, kOutOfTime, kOutOfMemory, kEnded, kSlow };
  Kind kind = Kind::kEnded;  // kEnded: the process is gone, and said nothing
  std::string text = {};     // kCompiled: the bytes of GrammarCompiler::dump; kRefused: a sentence
};

class GrammarProcess {
 public:
  // Starts nothing yet. `command` is a program and its arguments that come to
  // run_grammar_process().
  GrammarProcess(std::vector<std::string> command, const GrammarVocabulary& vocabulary);
  ~GrammarProcess();
  GrammarProcess(const GrammarProcess&) = delete;
  GrammarProcess& operator=(const GrammarProcess&) = delete;

  // Starts the process, unless it runs.
  Status warm();
  // Has `spec` (dump_spec) compiled. The socket can be read once read_outcome() will not wait;
  // closing it gives the job up. Fails with kUnavailable where no process can be started.
  Result<OwnedFd> start(std::string_view spec, const GrammarBudget& budget);

  int pid() const { return pid_; }  // 0: it does not run

 private:
  Status spawn();
  void end();

  const std::vector<std::string> command_;
  const std::string vocabulary_;  // as bytes, for the process
  OwnedFd control_;
  pid_t pid_ = 0;
};

// Reads a socket that start() returned. A compiled grammar of more than `max_bytes` is kRefused.
GrammarOutcome read_outcome(int socket, std::size_t max_bytes);

// The only argument of a program that is to call run_grammar_process().
inline constexpr const char* kGrammarProcessArgument = "--compile-grammars-for-a-server";

// The grammar process, until the server closes its socket. Returns the exit code: 2 if no
// GrammarProcess started it.
int run_grammar_process();

}  // namespace glint
