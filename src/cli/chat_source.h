// Where the answers of `glint chat` come from: a model that runs here, or a server.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/generate_options.h"
#include "cli/rank_options.h"
#include "text/answer/delta_parser.h"

namespace glint {

struct ChatOptions : RunOptions, LayoutOptions, SamplingOptions {
  std::string system, tools, ca_file;
  std::optional<double> timeout;
  bool thinking = true;
  int max_tokens = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model,
      "directory of a checkpoint, an id in the Hugging Face cache, or the URL of a server");
    v.section("Conversation");
    v("system=TEXT", system, "a system message to begin with; /system changes it");
    v("tools=FILE", tools, "JSON list of tools the model may call; you are asked for each result");
    v("thinking", thinking, "let the model think before it answers");
    v("max-tokens,n", max_tokens, "tokens of one answer at most (default: as many as fit)");
    v("ca-file=FILE", ca_file, "PEM file of roots to trust a server by (default: this machine's)");
    v("timeout=SECONDS", timeout, "give up a server that sends nothing for so long (default: 600)");
    SamplingOptions::visit(v);
    visit_running(v);
    LayoutOptions::visit(v, kHelpOfOneSequence);
  }
};

class ChatSource {
 public:
  struct End {
    bool cut = false;        // there were no more tokens to give
    bool stopped = false;    // by Ctrl-C
    std::string speed = {};  // one line for those who watch; may be empty
  };
  // Sees the pieces of the answer as they come.
  using OnDeltas = std::function<void(const std::vector<Delta>&)>;

  virtual ~ChatSource() = default;

  // The answer to `messages` (OpenAI's, but the arguments of tool calls are objects), in which
  // Ctrl-C makes an early end.
  virtual Result<End> answer(const Json::Array& messages, const OnDeltas& on_deltas) = 0;
};

// The model that the options name, with its own chat template.
Result<std::unique_ptr<ChatSource>> local_chat(const ChatOptions& options, Json tools, Cli& cli);

// The server at options.model, over /v1/chat/completions. Asks it for its model's name. Fails where
// `list` has options that were given for a model here.
Result<std::unique_ptr<ChatSource>> remote_chat(const ChatOptions& options, const OptionList& list,
                                                Json tools, Cli& cli);

}  // namespace glint
