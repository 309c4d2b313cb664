#include "server/dialects/thinking_fields.h"

#include "base/str.h"
#include "text/template/chat_template.h"

namespace glint {
namespace {

constexpr std::size_t kMaxTemplateKwargs = 100;

void read_switches(RequestReader& r, ApiRequest& request) {
  Json& kwargs = request.chat->kwargs;
  r.group("reasoning", [&](RequestReader& f) {
    std::optional<bool> enabled;
    f.boolean("enabled", enabled);
    if (enabled) kwargs.set("enable_thinking", *enabled);
    read_effort(f, "effort", kwargs);
    f.integer("max_tokens", request.end.thinking_budget);
  });
  read_effort(r, "reasoning_effort", kwargs);
  r.group("thinking", [&](RequestReader& f) {
    std::string type;
    f.one_of("type", type, {"enabled", "disabled", "adaptive"});
    if (!type.empty()) kwargs.set("enable_thinking", type != "disabled");
    f.integer("budget_tokens", request.end.thinking_budget);
    std::optional<bool> clear;
    f.boolean("clear_thinking", clear);
    if (clear) kwargs.set("clear_thinking", *clear);
  });
  read_thinking_budget(r, request);
  std::optional<bool> enable;
  r.boolean("enable_thinking", enable);
  if (enable) kwargs.set("enable_thinking", *enable);
}

}  // namespace

void read_effort(RequestReader& r, const char* name, Json& kwargs) {
  std::string effort;
  r.one_of(name, effort, {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  if (effort == "none") {
    kwargs.set("enable_thinking", false);
  } else if (!effort.empty()) {
    kwargs.set("reasoning_effort", effort);
  }
}

void read_thinking_budget(RequestReader& r, ApiRequest& request) {
  r.integer("thinking_budget", request.end.thinking_budget);
  r.integer("thinking_token_budget", request.end.thinking_budget, {-1});
  if (request.end.thinking_budget == -1) request.end.thinking_budget.reset();  // -1: no limit
}

void read_prompt_thinking(RequestReader& r, ApiRequest& request) {
  read_thinking_budget(r, request);
  if (!r.reading() || !request.end.thinking_budget || !request.grammar) return;
  const char* name = r.find("thinking_budget") ? "thinking_budget" : "thinking_token_budget";
  r.fail(name, str(r.path(name), " cannot be combined with ", request.grammar_field,
                   ", which holds from the answer's first token"));
}

void read_thinking(RequestReader& r, ApiRequest& request) {
  read_switches(r, request);
  read_template_kwargs(r, request);
}

void read_template_kwargs(RequestReader& r, ApiRequest& request) {
  Json& kwargs = request.chat->kwargs;
  Json own;
  r.value("chat_template_kwargs", own, {"object"});
  if (own.is_object() && own.as_object().size() > kMaxTemplateKwargs)
    return r.fail("chat_template_kwargs",
                  str("chat_template_kwargs has ", own.as_object().size(), " members; at most ",
                      kMaxTemplateKwargs, " are allowed"));
  if (own.is_object())
    for (auto& [name, value] : own.as_object()) kwargs.set(name, value);
  if (const char* name = find_reserved_kwarg(kwargs))
    return r.fail("chat_template_kwargs",
                  str("chat_template_kwargs.", name, " is the server's to set"));
  if (const Json* thinking = kwargs.find("enable_thinking"); thinking && !thinking->is_bool())
    return r.fail("chat_template_kwargs", str("chat_template_kwargs.enable_thinking is ",
                                              thinking->kind(), "; expected a boolean"));
}

}  // namespace glint
