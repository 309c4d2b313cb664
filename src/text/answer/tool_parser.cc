#include "text/answer/tool_parser.h"

#include "text/template/jinja/characters.h"

namespace glint {
namespace {

// Places in kToolMarkers.
enum Marker { kCall, kEndCall, kKeyBegin, kKeyEnd, kValueBegin, kValueEnd };

}  // namespace

ToolParser::ToolParser(const std::vector<ToolSpec>& tools)
    : finder_({std::begin(kToolMarkers), std::end(kToolMarkers)}) {
  for (const ToolSpec& tool : tools) by_name_.emplace(tool.name, &tool);
}

void ToolParser::begin() {
  finder_.reset();
  held_.clear();
  text_.clear();
  state_ = State::kName;
  reported_ = has_arguments_ = streams_ = false;
  typing_ = nullptr;
}

std::size_t ToolParser::feed(std::string_view text, std::vector<Delta>& deltas) {
  std::size_t taken = 0;  // of `text`, by held_ or by what became of it
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int marker = finder_.feed(text[i]);
    if (marker < 0) continue;
    held_ += text.substr(taken, i + 1 - taken);
    taken = i + 1;
    std::string whole = std::exchange(held_, {});
    const std::string_view before =
        std::string_view(whole).substr(0, whole.size() - finder_.text(marker).size());
    take(before, deltas);
    if (!on_marker(marker, deltas)) take(std::string_view(whole).substr(before.size()), deltas);
    if (state_ == State::kOutside) return taken;
    finder_.reset();
  }
  held_ += text.substr(taken);
  const std::size_t certain = held_.size() - finder_.pending();
  take(std::string_view(held_).substr(0, certain), deltas);
  held_.erase(0, certain);
  return text.size();
}

void ToolParser::take(std::string_view text, std::vector<Delta>& deltas) {
  if (state_ == State::kValue && streams_) {
    std::string json;
    append_json_escaped(json, text);
    arguments(std::move(json), deltas);
  } else if (state_ == State::kName || state_ == State::kKey || state_ == State::kValue) {
    if (state_ == State::kValue && json_.may_come) follow_json(text);
    text_ += text;
  }
}

void ToolParser::follow_json(std::string_view text) {
  if (!json_.has_begun) {
    text = jinja::strip_left(text);
    if (text.empty()) return;
    json_.has_begun = true;
    json_.may_come = text[0] == '{' || text[0] == '[';
  }
  if (!json_.may_come) return;
  for (const char c : text) {
    if (c == '"' && !json_.is_escaped) json_.in_string = !json_.in_string;
    json_.is_escaped = c == '\\' && json_.in_string && !json_.is_escaped;
  }
}

// Whether the marker means something where it stands; else it is text.
bool ToolParser::on_marker(int marker, std::vector<Delta>& deltas) {
  if (state_ == State::kValue) {
    if (marker != kValueEnd || json_.in_string) return false;
    end_value(deltas);
    return true;
  }
  if (state_ == State::kKey && marker != kKeyEnd && marker != kEndCall) return false;
  switch (marker) {
    case kCall:
      // The call before it was never closed.
      if (state_ == State::kName) text_.clear();
      if (state_ != State::kName) end_call(deltas), begin();
      return true;
    case kEndCall:
      if (state_ == State::kName) end_name(deltas);
      end_call(deltas);
      return true;
    case kKeyBegin:
      if (state_ == State::kName) end_name(deltas);
      text_.clear();
      state_ = State::kKey;
      return true;
    case kKeyEnd:
      if (state_ != State::kKey) return false;
      state_ = State::kAfterKey;
      return true;
    case kValueBegin:
      if (state_ != State::kAfterKey) return false;
      begin_value(deltas);
      return true;
    default:
      return false;
  }
}

// The name may be followed by more on its line or below it, depending on the model. Of what was
// given as tools, the longest reading counts.
std::string ToolParser::known_name() const {
  const std::string_view whole = jinja::strip(text_);
  const std::string_view line = jinja::strip(whole.substr(0, whole.find('\n')));
  if (by_name_.empty()) return std::string(line);
  const std::string_view word = line.substr(0, line.find_first_of(" \t\r<"));
  for (const std::string_view name : {whole, line, word}) {
    if (by_name_.contains(name)) return std::string(name);
  }
  return {};
}

void ToolParser::end_name(std::vector<Delta>& deltas) {
  std::string name = known_name();
  text_.clear();
  state_ = State::kBetween;
  if (name.empty()) return;
  reported_ = true;
  if (const auto tool = by_name_.find(name);
      tool != by_name_.end() && tool->second->parameters.is_object()) {
    std::unique_ptr<ToolTyping>& typing = typings_[tool->first];
    if (!typing) typing = std::make_unique<ToolTyping>(tool->second->parameters);
    typing_ = typing.get();
  }
  add_delta(deltas, {Delta::Kind::kToolBegin, std::move(name), num_calls_++});
}

void ToolParser::begin_value(std::vector<Delta>& deltas) {
  const std::string_view name = jinja::strip(text_);
  schema_ = typing_ ? typing_->argument(name) : nullptr;
  streams_ = !typing_ || typing_->is_text(schema_);
  json_ = {.is_trusted = json_.is_trusted,
           .may_come = json_.is_trusted && !streams_ && typing_->is_json(schema_)};
  key_ = has_arguments_ ? ", " : "{";
  append_json_string(key_, name);
  key_ += ": ";
  text_.clear();
  state_ = State::kValue;
  if (!streams_) return;
  has_arguments_ = true;
  arguments(key_ + "\"", deltas);
}

void ToolParser::end_value(std::vector<Delta>& deltas) {
  if (streams_) {
    arguments("\"", deltas);
  } else {
    has_arguments_ = true;
    if (reported_)
      arguments(key_ + dump_json(typing_->value(text_, schema_), JsonStyle::kPython), deltas);
  }
  text_.clear();
  streams_ = false;
  state_ = State::kBetween;
}

void ToolParser::end_call(std::vector<Delta>& deltas) {
  state_ = State::kOutside;
  if (!reported_) return;
  arguments(has_arguments_ ? "}" : "{}", deltas);
  add_delta(deltas, {Delta::Kind::kToolEnd, "", num_calls_ - 1});
}

void ToolParser::arguments(std::string json, std::vector<Delta>& deltas) {
  if (reported_) add_delta(deltas, {Delta::Kind::kToolArguments, std::move(json), num_calls_ - 1});
}

std::string ToolParser::finish(std::vector<Delta>& deltas, bool is_cut) {
  if (!in_call()) return {};
  const std::string_view end = kToolMarkers[kValueEnd];
  const std::size_t at = is_cut ? text_.npos : text_.find(end);
  if (state_ == State::kValue && at != text_.npos) {
    std::string rest = text_.substr(at + end.size()) + std::exchange(held_, {});
    finder_.reset();
    text_.resize(at);
    json_ = {.is_trusted = false};
    end_value(deltas);
    return rest;
  }
  if (state_ == State::kValue && streams_) {
    if (!end.starts_with(held_)) take(std::exchange(held_, {}), deltas);
    arguments("\"", deltas);
  }
  if (state_ != State::kName) arguments(has_arguments_ ? "}" : "{}", deltas);
  state_ = State::kOutside;
  return {};
}

}  // namespace glint
