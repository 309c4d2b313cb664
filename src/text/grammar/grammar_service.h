// GrammarService: grammars for a server. Each is compiled once, by a process that can be given up
// (grammar_process.h), a few at a time, clients by turns; results are kept, and so is what was
// refused. A grammar that takes longer than half a second leaves its place to the next one, and
// goes on among the few slow ones; where those have no place, it ends, and begins again when there
// is one. One thread waits for all of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "text/grammar/grammar.h"
#include "text/grammar/grammar_process.h"

namespace glint {

struct GrammarServiceOptions {
  // Comes to run_grammar_process(), as GrammarProcess has it. Empty: the thread compiles by itself,
  // one after another, and nothing bounds it.
  std::vector<std::string> command = {};
  GrammarBudget budget = {};
  int at_once = 3;                                           // grammars, without slow ones
  int slow_at_once = 2;                                      // slow ones
  std::size_t max_slow = 64;                                 // with those that wait for a place
  std::size_t max_waiting = 512;                             // requests
  std::size_t max_waiting_bytes = std::size_t{64} << 20;     // of what they ask for
  std::size_t max_spec_bytes = std::size_t{4} << 20;         // of what is asked for
  std::size_t max_compiled_bytes = std::size_t{64} << 20;    // of one grammar
  std::size_t cache_bytes = std::size_t{256} * 1024 * 1024;  // of all that are kept
};

class GrammarService {
 public:
  using Grammar = Result<std::shared_ptr<const CompiledGrammar>>;

  GrammarService(const GrammarVocabulary& vocabulary, GrammarServiceOptions options);
  ~GrammarService();

  // Calls `done` once: at once if the grammar is known, else later, on the thread of the service,
  // with the grammar or
  //   kInvalidArgument    it cannot be compiled, or not within the budget; the same next time
  //   kResourceExhausted  too many requests wait, or too many slow grammars
  //   kUnavailable        the service is closed, has no process, or nobody wants the grammar any
  //                       more: `gone` has returned true, which is asked now and then
  // The many grammars of one `client` neither delay the few of another nor take all room: of each
  // bound, on requests, bytes and slow grammars, a client may have as much as it leaves free, which
  // is half where it is alone. A grammar counts once for each client that waits for it; it is
  // refused as one too many only if it is so for all of them, and takes no bytes where it waits
  // already.
  void compile(const GrammarSpec& spec, std::function<bool()> gone,
               std::function<void(Grammar)> done, std::string client = {});

  // All that waits fails, and what comes; nothing is called back after it returns. Not to be called
  // by `done`.
  void close();

  // GrammarCompiler::constrain().
  std::shared_ptr<TokenConstraint> constrain(std::shared_ptr<const CompiledGrammar> grammar,
                                             bool after_reasoning) const;

  int num_begun() const;   // grammars, so far
  int process_id() const;  // 0: there is none

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace glint
