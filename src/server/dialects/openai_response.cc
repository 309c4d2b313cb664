#include "server/dialects/openai_response.h"

#include <unordered_map>
#include <utility>

#include "base/str.h"

namespace glint {
namespace {

Json stop_reason(const Finish& finish) {
  if (finish.stop_string) return *finish.stop_string;
  if (finish.stop_id) return *finish.stop_id;
  return {};
}

// [null, {"ID": {"logprob", "rank", "decoded_token"}, ...}, ...]: vLLM's prompt_logprobs.
Json prompt_logprobs_json(const Choice& choice, const std::vector<TokenId>& prompt,
                          const TokenNames& names) {
  Json::Array out = {Json()};
  for (std::size_t i = 0; i < choice.prompt_scores.size() && i + 1 < prompt.size(); ++i) {
    const TokenLogprob& score = choice.prompt_scores[i];
    // Not by set(), which would look through all of a vocabulary for each.
    Json::Object tokens;
    bool has_own = false;
    const auto add = [&](TokenId id, float logprob, int rank) {
      tokens.emplace_back(std::to_string(id), Json::Object{{"logprob", finite_logprob(logprob)},
                                                           {"rank", rank},
                                                           {"decoded_token", names.text(id)}});
    };
    for (int rank = 1; const TokenLogprob::Top& top : score.top) {
      const bool is_own = top.id == prompt[i + 1];
      has_own |= is_own;
      add(top.id, top.logprob, is_own ? score.rank : rank);
      ++rank;
    }
    if (!has_own) add(prompt[i + 1], score.logprob, score.rank);
    out.push_back(std::move(tokens));
  }
  return out;
}

}  // namespace

OpenAiWriter::OpenAiWriter(const ApiRequest& request, ResponseInfo info, const TokenNames& names,
                           const char* chunk_object)
    : ResponseWriter(request, std::move(info), names) {
  chunk_head_ = "data: " + dump_json(head(chunk_object));
  chunk_head_.pop_back();  // the closing brace
  chunk_head_ += ",\"choices\":[";
}

Json OpenAiWriter::head(const char* object) const {
  return Json::Object{{"id", info_.id},
                      {"object", object},
                      {"created", info_.created},
                      {"model", info_.model},
                      {"system_fingerprint", Json()}};
}

void OpenAiWriter::finish_whole(const Answer& answer, Json& out) const {
  out.set("usage", openai_usage(answer));
  if (request_.form.return_timings) out.set("timings", timings_json(answer));
}

void OpenAiWriter::open_chunk(int choice, std::string& out) const {
  out.append(chunk_head_).append("{\"index\":").append(std::to_string(choice));
}

void OpenAiWriter::close_chunk(const Answer& answer, std::string& out) const {
  if (request_.form.continuous_usage)
    out.append(",\"usage\":").append(dump_json(openai_usage(answer)));
  out += "}\n\n";
}

void OpenAiWriter::append_finish(const std::optional<Finish>& finish, std::string& out) const {
  out += ",\"finish_reason\":";
  if (!finish) {
    out += "null";
    return;
  }
  append_json_string(out, openai_finish_reason(*finish));
  out.append(",\"stop_reason\":").append(dump_json(stop_reason(*finish)));
}

void OpenAiWriter::append_tokens(const Piece& piece, std::string& out) const {
  if (request_.form.return_token_ids)
    out.append(",\"token_ids\":").append(dump_json(ids_json(piece.tokens)));
}

void OpenAiWriter::append_prompt(const std::vector<TokenId>& prompt, std::string& out) const {
  if (request_.form.return_token_ids)
    out.append(",\"prompt_token_ids\":").append(dump_json(ids_json(prompt)));
}

void OpenAiWriter::end(const Answer& answer, std::string& out) {
  if (request_.form.include_usage || request_.form.return_timings) {
    out.append(chunk_head_).append("]");
    if (request_.form.include_usage)
      out.append(",\"usage\":").append(dump_json(openai_usage(answer)));
    if (request_.form.return_timings)
      out.append(",\"timings\":").append(dump_json(timings_json(answer)));
    out += "}\n\n";
  }
  out += "data: [DONE]\n\n";
}

void OpenAiWriter::error(const ApiError& error, std::string& out) {
  append_event(out, "", dump_json(error_json(error, ErrorStyle::kOpenAi)));
  out += "data: [DONE]\n\n";
}

// {"name": logprob}, of which the last counts where several tokens have one name.
Json CompletionWriter::top_json(const TokenScore& score, const std::string& own) const {
  Json::Object all;
  std::unordered_map<std::string, std::size_t> places;
  const auto set = [&](const std::string& name, float logprob) {
    const auto [place, is_new] = places.try_emplace(name, all.size());
    if (is_new) all.emplace_back(name, Json());
    all[place->second].second = finite_logprob(logprob);
  };
  for (const TokenLogprob::Top& other : score.logprob.top)
    set(name_of(other.id, names_, request_.form.tokens_as_ids), other.logprob);
  set(own, score.logprob.logprob);
  return all;
}

// The next ones of a choice. With echo the prompt's come before its first; nothing is known of the
// prompt's first token.
Json CompletionWriter::logprobs(const Choice& choice, const Answer& answer,
                                const std::vector<TokenScore>& own, bool first,
                                std::size_t& offset) const {
  if (request_.facts.top_logprobs < 0) return {};
  const bool echoes = request_.echo && first;
  std::vector<TokenScore> scores;
  if (echoes) {
    const std::vector<TokenId>& ids = answer.prompts[static_cast<std::size_t>(choice.prompt)];
    scores.push_back({.id = ids[0]});
    for (std::size_t i = 0; i < choice.prompt_scores.size() && i + 1 < ids.size(); ++i)
      scores.push_back({.id = ids[i + 1], .logprob = choice.prompt_scores[i]});
  }
  scores.insert(scores.end(), own.begin(), own.end());
  Json::Array tokens, values, tops, offsets;
  for (const TokenScore& score : scores) {
    const std::string name = name_of(score.id, names_, request_.form.tokens_as_ids);
    tokens.push_back(name);
    values.push_back(finite_logprob(score.logprob.logprob));
    offsets.push_back(static_cast<std::int64_t>(offset));
    offset += names_.count_characters(score.id);  // as Python and OpenAI count
    tops.push_back(top_json(score, name));
  }
  if (echoes) values[0] = tops[0] = Json();
  return Json::Object{{"tokens", std::move(tokens)},
                      {"token_logprobs", std::move(values)},
                      {"top_logprobs", std::move(tops)},
                      {"text_offset", std::move(offsets)}};
}

Json CompletionWriter::choice_json(const Choice& choice, const Answer& answer) const {
  const auto prompt = static_cast<std::size_t>(choice.prompt);
  std::size_t offset = 0;
  Json logprobs_json = logprobs(choice, answer, choice.scores, true, offset);
  std::string text = request_.echo ? answer.prompt_texts[prompt] : std::string();
  text += choice.text();
  Json out = Json::Object{{"index", choice.index},
                          {"text", text},
                          {"logprobs", std::move(logprobs_json)},
                          {"finish_reason", openai_finish_reason(choice.finish)},
                          {"stop_reason", stop_reason(choice.finish)}};
  if (request_.facts.prompt_logprobs >= 0)
    out.set("prompt_logprobs", prompt_logprobs_json(choice, answer.prompts[prompt], names_));
  if (request_.form.return_token_ids) {
    out.set("token_ids", ids_json(choice.tokens));
    out.set("prompt_token_ids", ids_json(answer.prompts[prompt]));
  }
  if (request_.facts.routed_experts) out.set("routed_experts", routed_experts_json(choice));
  return out;
}

Json CompletionWriter::whole(const Answer& answer) {
  Json out = head("text_completion");
  Json::Array choices;
  for (const Choice& choice : answer.choices) choices.push_back(choice_json(choice, answer));
  out.set("choices", std::move(choices));
  finish_whole(answer, out);
  return out;
}

void CompletionWriter::piece(const Piece& piece, const Answer& answer, std::string& out) {
  const auto index = static_cast<std::size_t>(piece.choice);
  if (offsets_.size() <= index) offsets_.resize(index + 1, std::string::npos);
  const Choice& choice = answer.choices[index];
  const auto prompt = static_cast<std::size_t>(choice.prompt);
  const bool first = offsets_[index] == std::string::npos;
  if (first) offsets_[index] = 0;
  std::string text = first && request_.echo ? answer.prompt_texts[prompt] : std::string();
  for (const Delta& delta : piece.deltas) text += delta.text;
  open_chunk(piece.choice, out);
  out += ",\"text\":";
  append_json_string(out, text);
  out += ",\"logprobs\":";
  out += dump_json(logprobs(choice, answer, piece.scores, first, offsets_[index]));
  append_finish(piece.finish, out);
  append_tokens(piece, out);
  if (first) append_prompt(answer.prompts[prompt], out);
  out += "}]";
  close_chunk(answer, out);
}

Json ChatWriter::logprobs(const std::vector<TokenScore>& scores) const {
  if (request_.facts.top_logprobs < 0) return {};
  return Json::Object{{"content", logprobs_json(scores, names_, request_.form.tokens_as_ids)},
                      {"refusal", Json()}};
}

namespace {

// With echo; else empty.
std::string_view echoed(const Answer& answer) {
  return answer.prompt_texts.empty() ? std::string_view() : answer.prompt_texts[0];
}

}  // namespace

Json ChatWriter::message(const Choice& choice, const Answer& answer) const {
  const ParsedAnswer& parsed = choice.parsed;
  const std::string content = str(echoed(answer), choice.text());
  const bool is_instead = parsed.reasoning || !parsed.calls.empty();
  const bool is_null = is_instead && !parsed.content && content.empty();
  Json out = Json::Object{
      {"role", "assistant"}, {"content", is_null ? Json() : Json(content)}, {"refusal", Json()}};
  if (parsed.reasoning && request_.form.include_reasoning) {
    out.set("reasoning_content", *parsed.reasoning);
    out.set("reasoning", *parsed.reasoning);
  }
  Json::Array calls;
  for (std::size_t i = 0; i < parsed.calls.size(); ++i)
    calls.push_back(Json::Object{
        {"id", call_id(info_, choice.index, static_cast<int>(i))},
        {"type", "function"},
        {"function",
         Json::Object{{"name", parsed.calls[i].name}, {"arguments", parsed.calls[i].arguments}}}});
  if (!calls.empty()) out.set("tool_calls", std::move(calls));
  return out;
}

Json ChatWriter::whole(const Answer& answer) {
  Json out = head("chat.completion");
  Json::Array choices;
  for (const Choice& choice : answer.choices) {
    Json one = Json::Object{{"index", choice.index},
                            {"message", message(choice, answer)},
                            {"logprobs", logprobs(choice.scores)},
                            {"finish_reason", openai_finish_reason(choice.finish)},
                            {"stop_reason", stop_reason(choice.finish)}};
    if (request_.form.return_token_ids) one.set("token_ids", ids_json(choice.tokens));
    if (request_.facts.routed_experts) one.set("routed_experts", routed_experts_json(choice));
    choices.push_back(std::move(one));
  }
  out.set("choices", std::move(choices));
  if (request_.facts.prompt_logprobs >= 0)
    out.set("prompt_logprobs", prompt_logprobs_json(answer.choices[0], answer.prompts[0], names_));
  if (request_.form.return_token_ids) out.set("prompt_token_ids", ids_json(answer.prompts[0]));
  finish_whole(answer, out);
  return out;
}

namespace {

// Deltas that may share a chunk: one text each of reasoning and content, or calls.
enum class Group { kReasoning, kContent, kTools };

Group group_of(const Delta& delta) {
  if (delta.kind == Delta::Kind::kReasoning) return Group::kReasoning;
  return delta.kind == Delta::Kind::kContent ? Group::kContent : Group::kTools;
}

}  // namespace

// The members of a "delta" for deltas of one group.
void ChatWriter::append_delta(int choice, std::span<const Delta> deltas, std::string& out) {
  const auto index = static_cast<std::size_t>(choice);
  if (begun_.size() <= index) begun_.resize(index + 1);
  const char* comma = "";
  out += ",\"delta\":{";
  if (!begun_[index]) {
    out += "\"role\":\"assistant\"";
    comma = ",";
    begun_[index] = true;
  }
  if (!deltas.empty() && group_of(deltas[0]) != Group::kTools) {
    std::string text;
    for (const Delta& delta : deltas) text += delta.text;
    const auto append = [&](const char* name) {
      out.append(comma).append("\"").append(name).append("\":");
      append_json_string(out, text);
      comma = ",";
    };
    if (group_of(deltas[0]) == Group::kContent) {
      append("content");
    } else {
      append("reasoning_content");
      append("reasoning");
    }
  } else if (!deltas.empty()) {
    out.append(comma).append("\"tool_calls\":");
    append_calls(choice, deltas, out);
  }
  out += '}';
}

// Deltas of calls, each call's together: a name only where the call begins.
void ChatWriter::append_calls(int choice, std::span<const Delta> deltas, std::string& out) const {
  out += '[';
  for (std::size_t i = 0; i < deltas.size();) {
    const int tool = deltas[i].tool;
    if (i > 0) out += ',';
    out.append("{\"index\":").append(std::to_string(tool));
    if (deltas[i].kind == Delta::Kind::kToolBegin) {
      out.append(",\"id\":\"").append(call_id(info_, choice, tool));
      out += "\",\"type\":\"function\",\"function\":{\"name\":";
      append_json_string(out, deltas[i++].text);
      out += ',';
    } else {
      out += ",\"function\":{";
    }
    std::string arguments;
    for (; i < deltas.size() && deltas[i].tool == tool; ++i) arguments += deltas[i].text;
    out += "\"arguments\":";
    append_json_string(out, arguments);
    out += "}}";
  }
  out += ']';
}

// One chunk for each group of deltas; tokens and log-probabilities go with the first, the end with
// the last.
void ChatWriter::piece(const Piece& piece, const Answer& answer, std::string& out) {
  std::vector<Delta> deltas;
  const auto index = static_cast<std::size_t>(piece.choice);
  const bool begun = index < begun_.size() && begun_[index];
  if (const std::string_view text = echoed(answer); !begun && !text.empty())
    deltas.push_back({.kind = Delta::Kind::kContent, .text = std::string(text)});
  for (const Delta& delta : piece.deltas) {
    const bool hidden = !request_.form.include_reasoning && group_of(delta) == Group::kReasoning;
    if (!hidden && delta.kind != Delta::Kind::kToolEnd) deltas.push_back(delta);
  }
  if (deltas.empty() && !piece.finish && !request_.form.return_token_ids && piece.scores.empty())
    return;
  std::size_t begin = 0;
  bool first = true;
  do {
    std::size_t end = begin;
    while (end < deltas.size() && group_of(deltas[end]) == group_of(deltas[begin])) ++end;
    open_chunk(piece.choice, out);
    append_delta(piece.choice, std::span(deltas).subspan(begin, end - begin), out);
    out += ",\"logprobs\":";
    out += request_.facts.top_logprobs < 0 || !first ? "null" : dump_json(logprobs(piece.scores));
    const bool last = end == deltas.size();
    append_finish(last ? piece.finish : std::nullopt, out);
    if (first) append_tokens(piece, out);
    out += "}]";
    if (!std::exchange(prompt_told_, true)) append_prompt(answer.prompts[0], out);
    close_chunk(answer, out);
    first = false;
    begin = end;
  } while (begin < deltas.size());
}

// [row][MoE layer][chosen expert]
Json OpenAiWriter::routed_experts_json(const Choice& choice) const {
  const auto layers = info_.moe_layers.size();
  const auto chosen = static_cast<std::size_t>(info_.experts_per_token);
  if (layers * chosen == 0) return Json::Array{};
  Json::Array rows;
  const std::vector<std::uint16_t>& ids = choice.routed_experts;
  for (std::size_t i = 0; i + layers * chosen <= ids.size();) {
    Json::Array row;
    for (std::size_t layer = 0; layer < layers; ++layer, i += chosen) {
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(i);
      row.push_back(Json::Array(begin, begin + info_.experts_per_token));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace glint
