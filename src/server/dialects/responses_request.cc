// The requests of /v1/responses.
#include <algorithm>
#include <utility>

#include "base/contains.h"
#include "base/str.h"
#include "server/dialects/chat_messages.h"
#include "server/dialects/responses_api.h"
#include "server/dialects/sampling_fields.h"
#include "server/dialects/thinking_fields.h"
#include "server/dialects/tool_fields.h"
#include "server/dialects/unsupported_fields.h"

namespace glint {
namespace {

// Held until the end of the answer, while many may wait.
constexpr std::size_t kMaxEchoedBytes = std::size_t{2} << 20;

// Reasoning and calls are items of their own; templates want them in one message of the assistant.
class ItemReader {
 public:
  explicit ItemReader(ChatInput& chat) : chat_(chat) {}

  void read(RequestReader& item) {
    std::string type = "message";
    item.one_of("type", type, {"message", "function_call", "function_call_output", "reasoning"});
    if (type == "message") read_message(item);
    if (type == "function_call") read_call(item);
    if (type == "function_call_output") read_output(item);
    if (type == "reasoning") read_reasoning(item);
  }

  void finish() {
    if (pending_.is_null()) return;
    chat_.messages.push_back(std::exchange(pending_, Json()));
  }

 private:
  // The assistant's message that is being put together.
  Json& pending() {
    if (pending_.is_null()) pending_ = Json::Object{{"role", "assistant"}, {"content", ""}};
    return pending_;
  }

  void read_message(RequestReader& item) {
    std::string role;
    item.one_of("role", role, {"user", "assistant", "system", "developer"});
    item.require("role");
    item.require("content");
    const auto text = read_parts(item, "content");
    if (!text) return;
    if (role == "developer") role = "system";
    if (role == "assistant") {
      if (pending().find("tool_calls") || !pending().find("content")->as_string().empty()) finish();
      pending().set("content", *text);
      return;
    }
    finish();
    chat_.messages.push_back(Json::Object{{"role", role}, {"content", *text}});
  }

  void read_call(RequestReader& item) {
    std::string id, name, arguments;
    item.text("call_id", id);
    item.text("name", name);
    item.require("name");
    item.text("arguments", arguments);
    Result<Json> parsed = reader_.read(arguments);
    if (!parsed.ok())
      return item.fail("arguments", str(item.path("arguments"), " is ", parsed.error().message));
    Json& message = pending();
    if (!message.find("tool_calls")) message.set("tool_calls", Json::Array{});
    message.find("tool_calls")
        ->as_array()
        .push_back(call_json(id, name, std::move(parsed).value()));
  }

  void read_output(RequestReader& item) {
    std::string id;
    item.text("call_id", id);
    item.require("output");
    const auto text = read_parts(item, "output");
    if (!text) return;
    finish();
    chat_.messages.push_back(
        Json::Object{{"role", "tool"}, {"content", *text}, {"tool_call_id", id}});
  }

  void read_reasoning(RequestReader& item) {
    finish();
    std::string text;
    for (const char* name : {"content", "summary"}) {
      item.list(name, [&](RequestReader& part) {
        std::string piece;
        part.text("text", piece);
        text += piece;
      });
      if (!text.empty()) break;
    }
    if (!text.empty()) pending().set("reasoning_content", text);
  }

  ChatInput& chat_;
  ArgumentsReader reader_;
  Json pending_;
};

void read_input(RequestReader& r, ChatInput& chat) {
  const Json list =
      Json::Object{{"type", "array"}, {"items", Json::Object{{"type", "object"}}}, {"minItems", 1}};
  r.describe("input", Json::Object{{"anyOf", Json::Array{Json::Object{{"type", "string"}}, list}}});
  r.require("input");
  std::string instructions;
  r.text("instructions", instructions);
  if (!instructions.empty())
    chat.messages.push_back(Json::Object{{"role", "system"}, {"content", instructions}});
  const Json* input = r.find("input");
  if (!input) return;
  if (input->is_string()) {
    chat.messages.push_back(Json::Object{{"role", "user"}, {"content", input->as_string()}});
    return;
  }
  ItemReader items(chat);
  r.list("input", [&](RequestReader& item) { items.read(item); });
  if (!r.ok()) return;
  items.finish();
  if (chat.messages.empty()) r.fail("input", "input is empty; expected a text or items");
}

void read_flat_tools(RequestReader& r, ApiRequest& request) {
  Json::Array tools;
  r.list("tools", kMaxTools, [&](RequestReader& t) {
    std::string type;
    t.one_of("type", type, {"function"});
    t.require("type");
    tools.push_back(read_flat_tool(t, "parameters", Json(), request.tools));
  });
  if (!tools.empty()) request.chat->tools = std::move(tools);
  read_tool_choice(r, request.tools);
  r.boolean("parallel_tool_calls", request.tools.parallel);
}

void refuse_storage(RequestReader& r) {
  if (r.find("previous_response_id"))
    r.fail("previous_response_id",
           "previous_response_id is not supported: nothing is stored; send the whole "
           "conversation as input");
  bool background = false;
  r.boolean("background", background);
  if (background)
    r.fail("background", "background is not supported: nothing is stored; use stream");
}

}  // namespace

void read_responses_input(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  ChatInput& chat = begin_chat(request, context);
  r.text("model", request.model);
  read_input(r, chat);
  refuse_storage(r);
  refuse_unsupported(r, Api::kResponses);
  read_thinking(r, request);
  r.group("text", [&](RequestReader& f) {
    f.group("format", [&](RequestReader& g) { read_response_format(g, "", request); });
  });
  read_flat_tools(r, request);
}

void read_responses(RequestReader& r, ApiRequest& request, const ParseContext& context) {
  read_responses_input(r, request, context);
  r.integer("max_output_tokens", request.end.max_tokens, {1});
  std::vector<std::string> include;
  r.texts("include", include, 64);
  std::optional<int> top;
  r.integer("top_logprobs", top, {0, context.config.max_logprobs});
  const bool included = contains(include, "message.output_text.logprobs");
  if (included || top.value_or(0) > 0) request.facts.top_logprobs = top.value_or(0);
  r.boolean("stream", request.form.stream);
  read_sampling(r, request, context);
  read_limits(r, request, context);
  read_constraint(r, request);
  check_tool_choice(r, request);
  if (!r.reading()) return;
  for (const char* name :
       {"instructions", "max_output_tokens", "metadata", "parallel_tool_calls", "reasoning",
        "temperature", "text", "tool_choice", "tools", "top_p", "user"}) {
    const Json* const value = r.find(name);
    if (!value) continue;
    std::string& echoed = request.form.echoed;
    echoed += str(echoed.empty() ? "{" : ",", "\"", name, "\":", dump_json(*value));
    if (echoed.size() > kMaxEchoedBytes)
      return r.fail(name, str("the answer repeats ", name, ", with which that is ", echoed.size(),
                              " bytes of JSON; at most ", kMaxEchoedBytes, " are allowed"));
  }
  if (!request.form.echoed.empty()) request.form.echoed += "}";
}

}  // namespace glint
