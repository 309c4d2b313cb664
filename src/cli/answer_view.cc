#include "cli/answer_view.h"

#include "base/str.h"

namespace glint {
namespace {

std::string_view strip(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// Cuts what lies between `open` and `close` off the front of `rest`; nothing if they are not there.
std::optional<std::string_view> take_between(std::string_view& rest, std::string_view open,
                                             std::string_view close) {
  const std::size_t begin = rest.find(open);
  if (begin == std::string_view::npos) return {};
  const std::size_t end = rest.find(close, begin + open.size());
  if (end == std::string_view::npos) return {};
  const std::string_view found = rest.substr(begin + open.size(), end - begin - open.size());
  rest.remove_prefix(end + close.size());
  return found;
}

std::string readable(const Json& call) {
  const Json& function = *call.find("function");
  return str(function.find("name")->as_string(), " ",
             dump_json(*function.find("arguments"), JsonStyle::kPython));
}

}  // namespace

Json parse_tool_call(const std::string& call) {
  std::string_view rest = call;
  const std::string_view name = strip(rest.substr(0, rest.find("<arg_key>")));
  Json arguments{Json::Object{}};
  for (;;) {
    const auto key = take_between(rest, "<arg_key>", "</arg_key>");
    const auto value = take_between(rest, "<arg_value>", "</arg_value>");
    if (!key || !value) break;
    Result<Json> parsed = parse_json(*value);
    const bool is_json = parsed.ok() && !parsed.value().is_string();
    arguments.set(strip(*key), is_json ? std::move(parsed).value() : Json(*value));
  }
  return Json::Object{
      {"type", "function"},
      {"function", Json::Object{{"name", name}, {"arguments", std::move(arguments)}}}};
}

AnswerView::AnswerView(const Tokenizer& tokenizer, bool thinking)
    : tokenizer_(tokenizer),
      think_(tokenizer.token_to_id("<think>")),
      end_think_(tokenizer.token_to_id("</think>")),
      tool_call_(tokenizer.token_to_id("<tool_call>")),
      end_tool_call_(tokenizer.token_to_id("</tool_call>")),
      detokenizer_(std::in_place, tokenizer),
      part_(thinking ? Part::kThinking : Part::kContent) {}

void AnswerView::add(std::string text, std::vector<Piece>& pieces) {
  if (text.empty()) return;
  if (part_ == Part::kToolCall) {
    call_ += text;
    return;
  }
  (part_ == Part::kThinking ? thinking_ : content_) += text;
  pieces.push_back({part_, std::move(text)});
}

void AnswerView::enter(Part part, std::vector<Piece>& pieces) {
  add(detokenizer_->flush(), pieces);
  detokenizer_.emplace(tokenizer_);
  part_ = part;
}

void AnswerView::end_tool_call(std::vector<Piece>& pieces) {
  Json call = parse_tool_call(call_);
  call_.clear();
  pieces.push_back({Part::kToolCall, readable(call)});
  tool_calls_.push_back(std::move(call));
}

std::vector<AnswerView::Piece> AnswerView::feed(TokenId token) {
  std::vector<Piece> pieces;
  if (token == think_) {
    enter(Part::kThinking, pieces);
  } else if (token == end_think_) {
    enter(Part::kContent, pieces);
  } else if (token == tool_call_) {
    enter(Part::kToolCall, pieces);
  } else if (token == end_tool_call_ && part_ == Part::kToolCall) {
    enter(Part::kContent, pieces);
    end_tool_call(pieces);
  } else {
    add(detokenizer_->feed(token), pieces);
  }
  return pieces;
}

std::vector<AnswerView::Piece> AnswerView::finish() {
  std::vector<Piece> pieces;
  enter(part_, pieces);
  return pieces;
}

Json AnswerView::message() const {
  Json message(Json::Object{{"role", "assistant"}, {"content", content_}});
  if (!thinking_.empty()) message.set("reasoning_content", thinking_);
  if (!tool_calls_.empty()) message.set("tool_calls", tool_calls_);
  return message;
}

}  // namespace glint
