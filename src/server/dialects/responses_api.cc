#include "server/dialects/responses_api.h"

#include <algorithm>

#include "base/seconds.h"
#include "base/str.h"

namespace glint {
namespace {

Json usage_json(const Answer& answer) {
  const TokenEvent::Usage& usage = answer.usage;
  return Json::Object{
      {"input_tokens", usage.prompt_tokens},
      {"input_tokens_details",
       Json::Object{{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
      {"output_tokens", usage.completion_tokens},
      {"output_tokens_details", Json::Object{{"reasoning_tokens", answer.reasoning_tokens}}},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

Json part_json(bool reasoning, const std::string& text, Json::Array logprobs) {
  if (reasoning) return Json::Object{{"type", "reasoning_text"}, {"text", text}};
  return Json::Object{{"type", "output_text"},
                      {"text", text},
                      {"annotations", Json::Array{}},
                      {"logprobs", std::move(logprobs)}};
}

std::vector<TokenScore> content_of(const std::vector<TokenScore>& scores) {
  std::vector<TokenScore> out;
  std::ranges::copy_if(scores, std::back_inserter(out), &TokenScore::of_content);
  return out;
}

// {"verbosity": "low"} asks for the default format.
Json text_json(const Json* asked) {
  Json text = asked ? *asked : Json(Json::Object{});
  if (!text.find("format")) text.set("format", Json::Object{{"type", "text"}});
  return text;
}

}  // namespace

std::string ResponsesWriter::id_of(const char* prefix, int index) const {
  return str(prefix, call_id(info_, 1, index).substr(5));
}

// Clients with strict types want every field.
Json ResponsesWriter::response(Json::Array output, const char* status, const Answer* answer) const {
  const std::string& text = request_.form.echoed;
  const Json asked = text.empty() ? Json() : parse_json(text).value();
  const auto echoed = [&](const char* name, Json otherwise) {
    const Json* value = asked.find(name);
    return value ? *value : otherwise;
  };
  const bool cut = std::string_view(status) == "incomplete";
  Json out = Json::Object{
      {"id", info_.id},
      {"object", "response"},
      {"created_at", info_.created},
      {"completed_at", answer && !cut ? Json(unix_seconds()) : Json()},
      {"status", status},
      {"background", false},
      {"error", Json()},
      {"incomplete_details", cut ? Json(Json::Object{{"reason", "max_output_tokens"}}) : Json()},
      {"instructions", echoed("instructions", Json())},
      {"max_output_tokens", echoed("max_output_tokens", Json())},
      {"metadata", echoed("metadata", Json::Object{})},
      {"model", info_.model},
      {"output", std::move(output)},
      {"parallel_tool_calls", echoed("parallel_tool_calls", true)},
      {"previous_response_id", Json()},
      {"reasoning", echoed("reasoning", Json::Object{{"effort", Json()}, {"summary", Json()}})},
      {"store", false},
      {"temperature", echoed("temperature", request_.sampling.temperature)},
      {"text", text_json(asked.find("text"))},
      {"tool_choice", echoed("tool_choice", "auto")},
      {"tools", echoed("tools", Json::Array{})},
      {"top_p", echoed("top_p", request_.sampling.top_p)},
      {"truncation", "disabled"},
      {"usage", answer ? usage_json(*answer) : Json()},
      {"user", echoed("user", Json())}};
  if (answer && request_.form.return_timings) out.set("timings", timings_json(*answer));
  return out;
}

Json ResponsesWriter::item_json(const Item& item, const char* status) const {
  if (item.kind == Kind::kCall)
    return Json::Object{{"type", "function_call"}, {"id", item.id},
                        {"call_id", item.call_id}, {"name", item.name},
                        {"arguments", item.text},  {"status", status}};
  const bool reasoning = item.kind == Kind::kReasoning;
  Json::Array content;
  if (std::string_view(status) != "in_progress")
    content.push_back(part_json(reasoning, item.text, logprobs_json(item.scores, names_)));
  if (reasoning)
    return Json::Object{{"type", "reasoning"},
                        {"id", item.id},
                        {"summary", Json::Array{}},
                        {"content", std::move(content)},
                        {"status", status}};
  return Json::Object{{"type", "message"},
                      {"id", item.id},
                      {"role", "assistant"},
                      {"content", std::move(content)},
                      {"status", status}};
}

Json ResponsesWriter::whole(const Answer& answer) {
  const Choice& choice = answer.choices[0];
  std::string events;  // nobody reads them
  piece({.deltas = choice.deltas, .scores = choice.scores}, answer, events);
  return ended(answer, events);
}

void ResponsesWriter::event(const char* type, Json fields, std::string& out) {
  Json event = Json::Object{{"type", type}, {"sequence_number", sequence_++}};
  for (auto& [name, value] : fields.as_object()) event.set(name, std::move(value));
  append_event(out, type, dump_json(event));
}

void ResponsesWriter::begin(const Answer&, std::string& out) {
  for (const char* type : {"response.created", "response.in_progress"})
    event(type, Json::Object{{"response", response({}, "in_progress", nullptr)}}, out);
}

void ResponsesWriter::open(Item item, std::string& out) {
  close(out);
  const int index = static_cast<int>(items_.size());
  const bool reasoning = item.kind == Kind::kReasoning, call = item.kind == Kind::kCall;
  item.id = id_of(call ? "fc_" : reasoning ? "rs_" : "msg_", index);
  item_ = std::move(item);
  event("response.output_item.added",
        Json::Object{{"output_index", index}, {"item", item_json(item_, "in_progress")}}, out);
  if (!call)
    event("response.content_part.added",
          Json::Object{{"item_id", item_.id},
                       {"output_index", index},
                       {"content_index", 0},
                       {"part", part_json(reasoning, "", {})}},
          out);
}

void ResponsesWriter::close(std::string& out, const char* status) {
  if (item_.kind == Kind::kNone) return;
  const int index = static_cast<int>(items_.size());
  const bool reasoning = item_.kind == Kind::kReasoning;
  Json where = Json::Object{{"item_id", item_.id}, {"output_index", index}};
  if (item_.kind == Kind::kCall) {
    where.set("name", item_.name);
    where.set("arguments", item_.text);
    event("response.function_call_arguments.done", where, out);
  } else {
    where.set("content_index", 0);
    Json done = where;
    done.set("text", item_.text);
    if (!reasoning) done.set("logprobs", logprobs_json(item_.scores, names_));
    event(reasoning ? "response.reasoning_text.done" : "response.output_text.done", done, out);
    where.set("part", part_json(reasoning, item_.text, logprobs_json(item_.scores, names_)));
    event("response.content_part.done", where, out);
  }
  Json item = item_json(item_, status);
  event("response.output_item.done", Json::Object{{"output_index", index}, {"item", item}}, out);
  items_.push_back(std::move(item));
  item_ = {};
}

void ResponsesWriter::piece(const Piece& piece, const Answer&, std::string& out) {
  std::vector<TokenScore> scores = content_of(piece.scores);
  const auto delta = [&](const char* type, const Delta& d, bool part) {
    item_.text += d.text;
    Json fields =
        Json::Object{{"item_id", item_.id}, {"output_index", static_cast<int>(items_.size())}};
    if (part) fields.set("content_index", 0);
    fields.set("delta", d.text);
    if (item_.kind == Kind::kMessage) {
      fields.set("logprobs", logprobs_json(scores, names_));
      std::ranges::move(std::exchange(scores, {}), std::back_inserter(item_.scores));
    }
    event(type, std::move(fields), out);
  };
  for (const Delta& d : piece.deltas) {
    switch (d.kind) {
      case Delta::Kind::kReasoning:
        if (item_.kind != Kind::kReasoning) open({.kind = Kind::kReasoning}, out);
        delta("response.reasoning_text.delta", d, true);
        break;
      case Delta::Kind::kContent:
        if (item_.kind != Kind::kMessage) open({.kind = Kind::kMessage}, out);
        delta("response.output_text.delta", d, true);
        break;
      case Delta::Kind::kToolBegin:
        open({.kind = Kind::kCall, .name = d.text, .call_id = call_id(info_, 0, d.tool)}, out);
        break;
      case Delta::Kind::kToolArguments:
        delta("response.function_call_arguments.delta", d, false);
        break;
      case Delta::Kind::kToolEnd:
        close(out);
        break;
    }
  }
  // Scores of a stop string have no text.
  if (item_.kind == Kind::kMessage) std::ranges::move(scores, std::back_inserter(item_.scores));
}

Json ResponsesWriter::ended(const Answer& answer, std::string& out) {
  const bool cut = answer.choices[0].finish.reason == FinishReason::kLength;
  const char* status = cut ? "incomplete" : "completed";
  close(out, status);
  return response(std::move(items_), status, &answer);
}

void ResponsesWriter::end(const Answer& answer, std::string& out) {
  Json last = ended(answer, out);
  const std::string type = "response." + last.find("status")->as_string();
  event(type.c_str(), Json::Object{{"response", std::move(last)}}, out);
}

void ResponsesWriter::error(const ApiError& error, std::string& out) {
  const Json fields = *error_json(error, ErrorStyle::kOpenAi).find("error");
  event("error",
        Json::Object{{"code", *fields.find("code")},
                     {"message", *fields.find("message")},
                     {"param", *fields.find("param")}},
        out);
}

}  // namespace glint
