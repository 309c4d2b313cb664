// AnswerView: a chat answer as it streams, cut into thinking, content and tool calls by GLM's
// special tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/detokenizer.h"

namespace glint {

class AnswerView {
 public:
  enum class Part { kThinking, kContent, kToolCall };
  struct Piece {
    Part part = Part::kContent;
    std::string text;  // of a tool call: all of it at once, readable
  };

  // `thinking`: the prompt ended inside <think>.
  AnswerView(const Tokenizer& tokenizer, bool thinking);

  // What the token adds to the screen; often nothing.
  std::vector<Piece> feed(TokenId token);
  // What was held back, at the end.
  std::vector<Piece> finish();

  // The answer as a message of the conversation; complete tool calls only.
  Json message() const;
  const Json::Array& tool_calls() const { return tool_calls_; }

 private:
  void add(std::string text, std::vector<Piece>& pieces);
  void enter(Part part, std::vector<Piece>& pieces);
  void end_tool_call(std::vector<Piece>& pieces);

  const Tokenizer& tokenizer_;
  const std::optional<TokenId> think_, end_think_, tool_call_, end_tool_call_;
  std::optional<Detokenizer> detokenizer_;
  Part part_;
  std::string thinking_, content_, call_;
  Json::Array tool_calls_;
};

// A call in GLM's format, NAME<arg_key>K</arg_key><arg_value>V</arg_value>..., as OpenAI's object
// with "function": {"name", "arguments"}. Values that are JSON but not texts are read as JSON.
Json parse_tool_call(const std::string& call);

}  // namespace glint
