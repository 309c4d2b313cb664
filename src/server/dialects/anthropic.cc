#include "server/dialects/anthropic.h"

#include "base/contains.h"
#include "base/str.h"
#include "server/dialects/chat_messages.h"
#include "server/dialects/sampling_fields.h"
#include "server/dialects/thinking_fields.h"
#include "server/dialects/tool_fields.h"
#include "server/dialects/unsupported_fields.h"

namespace glint {
namespace {

// The content of one message, block by block; each block is appended to the conversation where it
// belongs: a tool's result is a message of its own.
class BlockReader {
 public:
  BlockReader(ChatInput& chat, std::string role) : chat_(chat), role_(std::move(role)) {}

  void read(RequestReader& b) {
    std::string type;
    b.text("type", type);
    b.require("type");
    if (contains({"text", "document", "search_result"}, type)) {
      text_ += read_part(b, type).value_or("");
      has_text_ = true;
    } else if (type == "thinking") {
      std::string thought;
      b.text("thinking", thought);
      reasoning_ += thought;
    } else if (type == "redacted_thinking") {
      // Another server's secret: it means nothing to the model.
    } else if (type == "tool_use") {
      read_tool_use(b);
    } else if (type == "tool_result") {
      read_tool_result(b);
    } else if (b.ok() && b.reading()) {
      b.fail("type", str(b.path("type"), " is ", quoted(type),
                         "; the model reads text, document, search_result, thinking, tool_use and "
                         "tool_result only"));
    }
  }

  void finish() {
    if (role_ != "assistant") return flush_text();
    Json message = Json::Object{{"role", role_}, {"content", text_}};
    if (!reasoning_.empty()) message.set("reasoning_content", reasoning_);
    if (!calls_.empty()) message.set("tool_calls", std::move(calls_));
    chat_.messages.push_back(std::move(message));
  }

 private:
  void flush_text() {
    if (has_text_) chat_.messages.push_back(Json::Object{{"role", role_}, {"content", text_}});
    has_text_ = false;
    text_.clear();
  }

  void read_tool_use(RequestReader& b) {
    std::string id, name;
    Json input;
    b.text("id", id);
    b.text("name", name);
    b.require("name");
    b.value("input", input, {"object"});
    if (input.is_null()) input = Json::Object{};
    calls_.push_back(call_json(id, name, std::move(input)));
  }

  void read_tool_result(RequestReader& b) {
    std::string id;
    b.text("tool_use_id", id);
    const std::string text = read_parts(b, "content").value_or("");
    flush_text();
    chat_.messages.push_back(
        Json::Object{{"role", "tool"}, {"content", text}, {"tool_call_id", id}});
  }

  ChatInput& chat_;
  std::string role_, text_, reasoning_;
  bool has_text_ = false;
  Json::Array calls_;
};

Json text_or_blocks() {
  return Json::Object{
      {"anyOf", Json::Array{Json::Object{{"type", "string"}}, Json::Object{{"type", "array"}}}}};
}

void read_message(RequestReader& m, ChatInput& chat) {
  std::string role;
  m.one_of("role", role, {"user", "assistant", "system"});
  m.require("role");
  m.describe("content", text_or_blocks());
  m.require("content");
  const Json* content = m.find("content");
  if (!content) return;
  if (content->is_string()) {
    chat.messages.push_back(Json::Object{{"role", role}, {"content", content->as_string()}});
    return;
  }
  BlockReader blocks(chat, role);
  m.list("content", [&](RequestReader& b) { blocks.read(b); });
  if (m.ok()) blocks.finish();
}

void read_system(RequestReader& r, ChatInput& chat) {
  r.describe("system", text_or_blocks());
  if (const auto text = read_parts(r, "system"); text && !text->empty())
    chat.messages.push_back(Json::Object{{"role", "system"}, {"content", *text}});
}

void read_anthropic_tools(RequestReader& r, ApiRequest& request) {
  Json::Array tools;
  r.list("tools", kMaxTools, [&](RequestReader& t) {
    std::string type;
    t.one_of("type", type, {"custom"});
    tools.push_back(read_flat_tool(t, "input_schema", Json::Object{}, request.tools));
  });
  if (!tools.empty()) request.chat->tools = std::move(tools);
  r.group("tool_choice", [&](RequestReader& c) {
    std::string type;
    c.one_of("type", type, {"auto", "any", "tool", "none"});
    c.require("type");
    c.text("name", request.tools.name);
    bool one_only = false;
    c.boolean("disable_parallel_tool_use", one_only);
    request.tools.parallel = !one_only;
    if (type == "any") request.tools.choice = ToolUse::Choice::kRequired;
    if (type == "none") request.tools.choice = ToolUse::Choice::kNone;
    if (type == "tool") {
      request.tools.choice = ToolUse::Choice::kNamed;
      c.require("name");
    }
  });
}

void read_anthropic_conversation(RequestReader& r, ApiRequest& request,
                                 const ParseContext& context) {
  ChatInput& chat = begin_chat(request, context);
  refuse_unsupported(r, Api::kMessages);
  bool thinking = false;
  r.group("thinking", [&](RequestReader& t) {
    std::string type;
    t.one_of("type", type, {"enabled", "disabled", "adaptive"});
    t.require("type");
    t.integer("budget_tokens", request.end.thinking_budget, {1024});
    if (request.end.thinking_budget && request.end.max_tokens &&
        *request.end.thinking_budget >= *request.end.max_tokens)
      t.fail("budget_tokens",
             str(t.path("budget_tokens"), " is ", *request.end.thinking_budget,
                 ", but max_tokens is ", *request.end.max_tokens, "; it must be less"));
    thinking = type != "disabled";
  });
  chat.kwargs.set("enable_thinking", thinking);
  r.group("output_config", [&](RequestReader& c) {
    read_effort(c, "effort", chat.kwargs);
    c.group("format", [&](RequestReader& f) { read_response_format(f, "", request); });
  });
  read_thinking_budget(r, request);
  read_template_kwargs(r, request);
  read_system(r, chat);
  const std::size_t before = chat.messages.size();
  r.list("messages", [&](RequestReader& m) { read_message(m, chat); });
  r.require("messages");
  if (r.reading() && r.ok() && chat.messages.size() == before)
    r.fail("messages", "messages is empty; expected at least one message");
  // A last turn of the assistant is continued.
  if (r.reading() && r.ok()) {
    const Json& last = chat.messages.back();
    const bool open = *last.find("role") == Json("assistant") && !last.find("tool_calls");
    chat.continue_final_message = open;
    chat.add_generation_prompt = !open;
  }
  read_anthropic_tools(r, request);
}

const char* stop_reason(const Finish& finish, bool has_calls) {
  if (finish.reason == FinishReason::kLength) return "max_tokens";
  if (finish.stop_string) return "stop_sequence";
  return has_calls ? "tool_use" : "end_turn";
}

Json usage_json(const TokenEvent::Usage& usage) {
  return Json::Object{{"input_tokens", usage.prompt_tokens - usage.cached_tokens},
                      {"cache_creation_input_tokens", 0},
                      {"cache_read_input_tokens", usage.cached_tokens},
                      {"output_tokens", usage.completion_tokens}};
}

// Appends an event whose data begin with its type.
void append_typed(std::string& out, const char* type, const Json::Object& fields) {
  Json data = Json::Object{{"type", type}};
  for (const auto& [name, value] : fields) data.set(name, value);
  append_event(out, type, dump_json(data));
}

}  // namespace

void read_anthropic(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  r.text("model", request.model);
  r.integer("max_tokens", request.end.max_tokens, {1});
  r.require("max_tokens");
  read_anthropic_conversation(r, request, context);
  r.boolean("stream", request.form.stream);
  read_sampling(r, request, context);
  read_limits(r, request, context);
  read_stops(r, "stop_sequences", request);
  if (r.find("stop") && r.find("stop_sequences"))
    r.fail("stop", "stop and stop_sequences say the same; send one of them");
  read_constraint(r, request);
  r.group("output_format", [&](RequestReader& f) { read_response_format(f, "", request); });
  check_tool_choice(r, request);
}

void read_anthropic_count(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  r.text("model", request.model);
  read_anthropic_conversation(r, request, context);
}

Json MessagesWriter::message(Json::Array content, const Answer& answer, bool ended) const {
  const Choice& choice = answer.choices[0];
  const Finish& finish = choice.finish;
  Json out = Json::Object{
      {"id", info_.id},
      {"type", "message"},
      {"role", "assistant"},
      {"model", info_.model},
      {"content", std::move(content)},
      {"stop_reason", ended ? Json(stop_reason(finish, !choice.parsed.calls.empty())) : Json()},
      {"stop_sequence", ended && finish.stop_string ? Json(*finish.stop_string) : Json()},
      {"usage", usage_json(answer.usage)}};
  if (ended && request_.form.return_timings) out.set("timings", timings_json(answer));
  return out;
}

Json MessagesWriter::whole(const Answer& answer) {
  std::string events;  // nobody reads them
  piece({.deltas = answer.choices[0].deltas}, answer, events);
  close(events);
  return message(std::move(blocks_), answer, true);
}

void MessagesWriter::begin(const Answer& answer, std::string& out) {
  append_typed(out, "message_start", {{"message", message({}, answer, false)}});
}

void MessagesWriter::open(Block block, const Delta& delta, std::string& out) {
  close(out);
  block_ = block;
  if (block == Block::kThinking)
    content_ = Json::Object{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
  if (block == Block::kText) content_ = Json::Object{{"type", "text"}, {"text", ""}};
  if (block == Block::kTool)
    content_ = Json::Object{{"type", "tool_use"},
                            {"id", call_id(info_, 0, delta.tool)},
                            {"name", delta.text},
                            {"input", Json::Object{}}};
  append_typed(out, "content_block_start", {{"index", index()}, {"content_block", content_}});
  if (index() == 0) append_typed(out, "ping", {});
}

void MessagesWriter::close(std::string& out) {
  if (block_ == Block::kNone) return;
  if (block_ == Block::kThinking) {
    delta(Json::Object{{"type", "signature_delta"}, {"signature", info_.id}}, out);
    content_.set("thinking", text_);
    content_.set("signature", info_.id);
  } else if (block_ == Block::kText) {
    content_.set("text", text_);
  } else if (Result<Json> input = parse_json(text_); input.ok()) {
    content_.set("input", std::move(input).value());
  }
  append_typed(out, "content_block_stop", {{"index", index()}});
  blocks_.push_back(std::exchange(content_, {}));
  text_.clear();
  block_ = Block::kNone;
}

void MessagesWriter::delta(const Json& delta, std::string& out) const {
  append_typed(out, "content_block_delta", {{"index", index()}, {"delta", delta}});
}

void MessagesWriter::piece(const Piece& piece, const Answer&, std::string& out) {
  for (const Delta& d : piece.deltas) {
    switch (d.kind) {
      case Delta::Kind::kReasoning:
        if (block_ != Block::kThinking) open(Block::kThinking, d, out);
        text_ += d.text;
        delta(Json::Object{{"type", "thinking_delta"}, {"thinking", d.text}}, out);
        break;
      case Delta::Kind::kContent:
        if (block_ != Block::kText) open(Block::kText, d, out);
        text_ += d.text;
        delta(Json::Object{{"type", "text_delta"}, {"text", d.text}}, out);
        break;
      case Delta::Kind::kToolBegin:
        open(Block::kTool, d, out);
        break;
      case Delta::Kind::kToolArguments:
        text_ += d.text;
        delta(Json::Object{{"type", "input_json_delta"}, {"partial_json", d.text}}, out);
        break;
      case Delta::Kind::kToolEnd:
        close(out);
        break;
    }
  }
}

void MessagesWriter::end(const Answer& answer, std::string& out) {
  close(out);
  const Json last = message({}, answer, true);
  Json::Object fields = {{"delta", Json::Object{{"stop_reason", *last.find("stop_reason")},
                                                {"stop_sequence", *last.find("stop_sequence")}}},
                         {"usage", usage_json(answer.usage)}};
  if (const Json* timings = last.find("timings")) fields.emplace_back("timings", *timings);
  append_typed(out, "message_delta", fields);
  append_typed(out, "message_stop", {});
}

void MessagesWriter::waiting(std::string& out) { append_typed(out, "ping", {}); }

void MessagesWriter::error(const ApiError& error, std::string& out) {
  append_event(out, "error",
               dump_json(error_json(error, ErrorStyle::kAnthropic, info_.request_id)));
}

}  // namespace glint
