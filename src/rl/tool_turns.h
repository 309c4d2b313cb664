// ToolTurns: what follows an answer that calls tools. The calls go to whoever runs them, and the
// results come back as the chat template writes them, with the beginning of the next turn.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/answer/delta_parser.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace glint {

// Runs one call; `arguments` is a JSON object. The result is what the model reads.
using ToolRunner =
    std::function<Result<std::string>(const std::string& name, const std::string& arguments)>;

class ToolTurns {
 public:
  // `tokenizer` outlives this.
  ToolTurns(const Tokenizer& tokenizer, ChatTemplate chat, ToolRunner run);

  // Tokens to go on with after `turn`, which ended by itself with the stop id at its end; none: it
  // calls nothing. `before` is all that the model saw before the turn. Calls of functions that are
  // not among `tools` are not run, if there are any. `kwargs`: the template's, an object.
  Result<std::vector<TokenId>> next(std::span<const TokenId> before, std::span<const TokenId> turn,
                                    const std::vector<ToolSpec>& tools, const Json& kwargs) const;

 private:
  Result<std::string> written(const Json::Array& results, const Json::Array& calls,
                              Json kwargs) const;

  const Tokenizer& tokenizer_;
  const ChatTemplate chat_;
  const ToolRunner run_;
};

// The functions of a request's list of tools, [{"type": "function", "function": {"name": ...,
// "parameters": ...}}], or of that without its wrapping. Fails on anything else.
Result<std::vector<ToolSpec>> read_tool_specs(const Json& tools);

}  // namespace glint
