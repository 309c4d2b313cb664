#include "rl/tool_turns.h"

#include "base/str.h"

namespace glint {

ToolTurns::ToolTurns(const Tokenizer& tokenizer, ChatTemplate chat, ToolRunner run)
    : tokenizer_(tokenizer), chat_(std::move(chat)), run_(std::move(run)) {}

// A template writes whole conversations: what it writes of results is what a conversation has more
// with them than without.
Result<std::string> ToolTurns::written(const Json::Array& results, const Json::Array& calls,
                                       Json kwargs) const {
  Json::Array messages = {
      Json::Object{{"role", "user"}, {"content", "?"}},
      Json::Object{{"role", "assistant"}, {"content", ""}, {"tool_calls", calls}}};
  GLINT_TRY(const std::string without,
            chat_.render(messages, Json(), kwargs).in("the chat template"));
  messages.insert(messages.end(), results.begin(), results.end());
  kwargs.set("add_generation_prompt", true);
  GLINT_TRY(const std::string with, chat_.render(messages, Json(), kwargs).in("the chat template"));
  if (!with.starts_with(without)) {
    return invalid(
        "the chat template writes what came before a tool's result in another way after it; "
        "answers with tools cannot go on");
  }
  return with.substr(without.size());
}

Result<std::vector<TokenId>> ToolTurns::next(std::span<const TokenId> before,
                                             std::span<const TokenId> turn,
                                             const std::vector<ToolSpec>& tools,
                                             const Json& kwargs) const {
  DeltaParser parser(tokenizer_, {.in_reasoning = ends_in_reasoning(tokenizer_, before),
                                  .tools = std::vector<ToolSpec>(tools)});
  ParsedAnswer answer;
  answer.add(parser.feed(turn));
  answer.add(parser.finish());
  if (answer.calls.empty()) return std::vector<TokenId>();
  Json::Array calls, results;
  for (const ParsedAnswer::Call& call : answer.calls) {
    // Each of them may be as deep as JSON may be.
    GLINT_TRY(const Json arguments,
              parse_json(call.arguments, {.max_depth = JsonLimits().max_depth + 1}));
    const std::string id = str("call-", calls.size());
    calls.push_back(
        Json::Object{{"id", id},
                     {"type", "function"},
                     {"function", Json::Object{{"name", call.name}, {"arguments", arguments}}}});
    GLINT_TRY(std::string result, run_(call.name, call.arguments));
    results.push_back(
        Json::Object{{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(result)}});
  }
  GLINT_TRY(const std::string text, written(results, calls, kwargs));
  GLINT_TRY(std::vector<TokenId> ids, tokenizer_.encode(text));
  // The tag that ends the model's turn is the one that begins the results.
  if (!ids.empty() && !turn.empty() && ids.front() == turn.back()) ids.erase(ids.begin());
  return ids;
}

Result<std::vector<ToolSpec>> read_tool_specs(const Json& tools) {
  const auto wrong = [](std::size_t i) {
    return invalid(str("tool ", i + 1,
                       " is no function; expected {\"type\": \"function\", "
                       "\"function\": {\"name\": ..., \"parameters\": ...}}"));
  };
  if (!tools.is_array()) return invalid(str("tools are ", tools.kind(), "; expected a list"));
  std::vector<ToolSpec> specs;
  for (const Json& tool : tools.as_array()) {
    if (!tool.is_object()) return wrong(specs.size());
    const Json* const inner = tool.find("function");
    const Json& function = inner ? *inner : tool;
    const Json* const name = function.find("name");
    if (!name || !name->is_string()) return wrong(specs.size());
    const Json* const parameters = function.find("parameters");
    specs.push_back({name->as_string(), parameters ? *parameters : Json()});
  }
  return specs;
}

}  // namespace glint
