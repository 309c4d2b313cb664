// DeltaParser: from the tokens of an answer to what an API shows of it: reasoning, content and tool
// calls (GLM's format, model card names glm45 and glm47), cut at stop strings. A state machine on
// the decoded text, byte by byte: so the markers (<think> ...) are found whether they come as their
// own tokens or as plain text in any pieces.
//
// Its total output does not depend on how the tokens were cut into calls of feed(): a streamed
// answer, concatenated, is the whole answer. Time and memory are linear in its length.
//
// Thoughts end with the first "</think>", or the first content. What looks like their markers
// behind that is text: an answer may be about them.
//
// No stop string is looked for inside of a call: half of one is of no use. Where "</tool_call>" is
// one, the answer ends with its first call.
//
// Blanks at the end of reasoning are dropped; those of content too, and those before it, if there
// are calls. A key that comes twice in a call stands twice in its arguments: JSON parsers take the
// last.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/shared.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

struct ToolSpec {
  std::string name;
  Json parameters;  // a JSON schema, or null

  bool operator==(const ToolSpec&) const = default;
};

struct DeltaOptions {
  bool parse_reasoning = true;  // false: everything is content
  bool in_reasoning = false;    // the prompt ended inside <think>
  bool parse_tools = true;      // false: calls stay text (tool_choice none: they are masked)
  Shared<std::vector<ToolSpec>> tools = {};  // calls of others are dropped, if there are any
  bool calls_first = false;  // <tool_call> is text after content, unless that is a thought
  Shared<std::vector<std::string>> stop = {};  // looked for in reasoning and content
  int min_tokens = 0;         // stop strings that are complete within so many tokens are text
  bool include_stop = false;  // keep the stop string in the text
  bool skip_special = true;   // special tokens are not text
};

// One piece of an answer, in order. A call that was cut off has no kToolEnd.
struct Delta {
  enum class Kind { kReasoning, kContent, kToolBegin, kToolArguments, kToolEnd };
  Kind kind = Kind::kContent;
  std::string text;  // of kToolBegin the function's name, of kToolArguments a piece of its JSON
  int tool = 0;      // which call, from 0
};

// Adds `delta`, merged into the last one if both are pieces of one text; an empty piece adds
// nothing.
void add_delta(std::vector<Delta>& deltas, Delta delta);

class DeltaParser {
 public:
  DeltaParser(const Tokenizer& tokenizer, DeltaOptions options);
  ~DeltaParser();

  // The deltas that these tokens add; none after a stop string.
  std::vector<Delta> feed(std::span<const TokenId> tokens);

  // The deltas held back until the end. A call that was cut off is closed to valid JSON. To be
  // called once. `is_cut`: more was to come, in calls that a grammar holds to their form; else a
  // string without an end is a mistake, and what follows it may be calls.
  std::vector<Delta> finish(bool is_cut = false);

  bool stopped() const;                    // a stop string was found...
  const std::string& stop_string() const;  // ...this one
  bool in_content() const;                 // what comes next is neither reasoning nor a call
  int num_reasoning_tokens() const;
  int num_tools() const;  // calls that were reported

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether an answer to this prompt begins inside <think>: nothing after its last <think> ends it.
bool ends_in_reasoning(const Tokenizer& tokenizer, std::span<const TokenId> prompt);

// The whole message, from the deltas of a whole answer.
struct ParsedAnswer {
  struct Call {
    std::string name, arguments;  // arguments: JSON text
  };
  std::optional<std::string> reasoning, content;  // nothing: null
  std::vector<Call> calls;
  void add(const std::vector<Delta>& deltas);
};

}  // namespace glint
