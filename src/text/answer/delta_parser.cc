#include "text/answer/delta_parser.h"

#include <algorithm>

#include "base/contains.h"
#include "text/answer/text_finder.h"
#include "text/answer/tool_parser.h"
#include "text/template/jinja/characters.h"
#include "text/tokenizer/detokenizer.h"

namespace glint {
namespace {

constexpr std::string_view kThink = "<think>", kEndThink = "</think>", kToolCall = "<tool_call>",
                           kEndToolCall = "</tool_call>";

constexpr std::size_t kNumMarkers = 3;  // that mean something outside of calls

// The stop strings, then those markers.
std::vector<std::string> texts_to_find(const DeltaOptions& options) {
  std::vector<std::string> texts = options.stop;
  for (const std::string_view marker : {kThink, kEndThink, kToolCall}) {
    const bool is_used = marker != kToolCall || options.parse_tools;
    texts.emplace_back(is_used ? marker : "");  // empty: never found
  }
  return texts;
}

// The tokens that are markers for the parser: they are text even if they are special.
std::vector<TokenId> marker_ids(const Tokenizer& tokenizer, const DeltaOptions& options) {
  std::vector<std::string_view> texts = {kThink, kEndThink};
  if (options.parse_tools)
    texts.insert(texts.end(), std::begin(kToolMarkers), std::end(kToolMarkers));
  std::vector<TokenId> ids;
  for (const std::string_view text : texts) {
    if (const auto id = tokenizer.token_to_id(text)) ids.push_back(*id);
  }
  return ids;
}

}  // namespace

void add_delta(std::vector<Delta>& deltas, Delta delta) {
  using Kind = Delta::Kind;
  const bool is_text = delta.kind == Kind::kReasoning || delta.kind == Kind::kContent ||
                       delta.kind == Kind::kToolArguments;
  if (is_text && delta.text.empty()) return;
  if (is_text && !deltas.empty() && deltas.back().kind == delta.kind &&
      deltas.back().tool == delta.tool) {
    deltas.back().text += delta.text;
  } else {
    deltas.push_back(std::move(delta));
  }
}

struct DeltaParser::State {
  State(const Tokenizer& of, DeltaOptions with)
      : options(std::move(with)),
        tokenizer(of),
        markers(marker_ids(of, options)),
        detokenizer(of),
        finder(texts_to_find(options)),
        tools(options.tools),
        in_thought(options.in_reasoning) {}

  void feed(TokenId token);
  void read(std::string_view text);
  std::size_t read_text(std::string_view text);
  void on_found(std::size_t found);
  void on_thought_marker(std::string_view marker);
  void on_stop(const std::string& stop);
  void add(std::string_view text);
  void emit(std::string_view text);
  bool in_reasoning() const { return in_thought && options.parse_reasoning; }
  std::string& blanks() { return in_reasoning() ? reasoning_blanks : content_blanks; }
  void end_text();

  const DeltaOptions options;
  const Tokenizer tokenizer;  // a reference to shared parts
  const std::vector<TokenId> markers;
  Detokenizer detokenizer;
  TextFinder finder;
  ToolParser tools;
  bool in_thought;
  bool thought_over = false;  // what looks like its markers is text
  bool has_content = false;   // which may be a thought, if those are not parsed
  bool has_answer = false;    // content that is no thought
  std::string held;           // may be the beginning of a marker or stop string
  // After the last content, and after the last reasoning: they count only if more follows.
  std::string content_blanks, reasoning_blanks;
  std::vector<Delta> out;
  bool stopped = false;
  std::string stop;
  int num_tokens = 0, num_reasoning_tokens = 0;
};

void DeltaParser::State::feed(TokenId token) {
  const bool is_marker = contains(markers, token);
  const bool was_in_reasoning = in_reasoning();
  ++num_tokens;
  if (is_marker || !options.skip_special || !tokenizer.is_special(token))
    read(detokenizer.feed(token));
  if (was_in_reasoning && in_reasoning() && !is_marker) ++num_reasoning_tokens;
}

void DeltaParser::State::read(std::string_view text) {
  while (!text.empty() && !stopped) {
    if (!tools.in_call()) {
      text.remove_prefix(read_text(text));
      continue;
    }
    text.remove_prefix(tools.feed(text, out));
    const std::vector<std::string>& stops = options.stop;
    stopped = !tools.in_call() && num_tokens > options.min_tokens && contains(stops, kEndToolCall);
    if (stopped) stop = kEndToolCall;
  }
}

// Reads reasoning or content up to a marker or stop string; returns how many bytes.
std::size_t DeltaParser::State::read_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int found = finder.feed(text[i]);
    if (found < 0) continue;
    finder.reset();
    held += text.substr(0, i + 1);
    const std::string before = std::exchange(held, {});
    add(std::string_view(before).substr(0, before.size() - finder.text(found).size()));
    on_found(static_cast<std::size_t>(found));
    return i + 1;
  }
  held += text;
  const std::size_t certain = held.size() - finder.pending();
  add(std::string_view(held).substr(0, certain));
  held.erase(0, certain);
  return text.size();
}

void DeltaParser::State::on_found(std::size_t found) {
  if (found < options.stop.size()) {
    if (num_tokens > options.min_tokens) return on_stop(options.stop[found]);
    // It is text, but a marker at its end stays one.
    std::string_view text = options.stop[found];
    for (std::size_t i = options.stop.size(); i < options.stop.size() + kNumMarkers; ++i) {
      const std::string& marker = finder.text(static_cast<int>(i));
      if (marker.empty() || !text.ends_with(marker)) continue;
      text.remove_suffix(marker.size());
      found = i;
    }
    add(text);
    if (found < options.stop.size()) return;
  }
  if (found == options.stop.size()) return on_thought_marker(kThink);
  if (found == options.stop.size() + 1) return on_thought_marker(kEndThink);
  if (options.calls_first && has_answer) return add(kToolCall);
  reasoning_blanks.clear();
  in_thought = false;
  tools.begin();
}

void DeltaParser::State::on_thought_marker(std::string_view marker) {
  const bool is_end = marker == kEndThink;
  if (thought_over) return add(marker);
  thought_over = is_end;
  if (options.parse_reasoning) {
    if (!is_end && in_thought) return;
    reasoning_blanks.clear();
  } else {
    in_thought = true;  // it is shown as a part of the thought
    add(marker);
  }
  in_thought = !is_end;
}

void DeltaParser::State::on_stop(const std::string& found) {
  stop = found;
  stopped = true;
  if (!options.include_stop) return;
  emit(std::exchange(blanks(), {}));
  emit(stop);
}

void DeltaParser::State::emit(std::string_view text) {
  add_delta(out, {in_reasoning() ? Delta::Kind::kReasoning : Delta::Kind::kContent,
                  std::string(text), 0});
}

void DeltaParser::State::add(std::string_view text) {
  const std::string_view body = jinja::strip_right(text);
  if (!body.empty()) {
    // Blanks between calls and the first content are no content.
    const bool first = !in_reasoning() && !has_content && tools.num_calls() > 0;
    if (first) content_blanks.clear();
    emit(std::exchange(blanks(), {}));
    emit(first ? jinja::strip_left(body) : body);
    if (!in_reasoning()) has_content = true;
    if (!in_thought) has_answer = thought_over = true;
  }
  blanks() += text.substr(body.size());
}

// The end of the answer, if it is not inside a call.
void DeltaParser::State::end_text() {
  if (!stopped) add(std::exchange(held, {}));
  if (!in_reasoning() && tools.num_calls() == 0) emit(content_blanks);
}

DeltaParser::DeltaParser(const Tokenizer& tokenizer, DeltaOptions options)
    : state_(std::make_unique<State>(tokenizer, std::move(options))) {}

DeltaParser::~DeltaParser() = default;

std::vector<Delta> DeltaParser::feed(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) {
    if (state_->stopped) break;
    state_->feed(token);
  }
  return std::exchange(state_->out, {});
}

std::vector<Delta> DeltaParser::finish(bool is_cut) {
  State& state = *state_;
  if (!state.stopped) state.read(state.detokenizer.flush());
  while (state.tools.in_call()) state.read(state.tools.finish(state.out, is_cut));
  state.end_text();
  return std::exchange(state.out, {});
}

bool DeltaParser::stopped() const { return state_->stopped; }
const std::string& DeltaParser::stop_string() const { return state_->stop; }
bool DeltaParser::in_content() const { return !state_->in_reasoning() && !state_->tools.in_call(); }
int DeltaParser::num_reasoning_tokens() const { return state_->num_reasoning_tokens; }
int DeltaParser::num_tools() const { return state_->tools.num_calls(); }

bool ends_in_reasoning(const Tokenizer& tokenizer, std::span<const TokenId> prompt) {
  const auto think = tokenizer.token_to_id(kThink);
  if (!think) return false;
  // A turn ends the thinking of the one before it.
  std::vector<TokenId> ends;
  for (const char* text :
       {"</think>", "<|assistant|>", "<|user|>", "<|system|>", "<|observation|>"}) {
    if (const auto id = tokenizer.token_to_id(text)) ends.push_back(*id);
  }
  for (std::size_t i = prompt.size(); i-- > 0;) {
    if (prompt[i] == *think) return true;
    if (contains(ends, prompt[i])) return false;
  }
  return false;
}

namespace {

void append(std::optional<std::string>& to, const std::string& text) {
  if (!to) to.emplace();
  *to += text;
}

}  // namespace

void ParsedAnswer::add(const std::vector<Delta>& deltas) {
  using Kind = Delta::Kind;
  for (const Delta& delta : deltas) {
    switch (delta.kind) {
      case Kind::kReasoning:
        append(reasoning, delta.text);
        break;
      case Kind::kContent:
        append(content, delta.text);
        break;
      case Kind::kToolBegin:
        calls.push_back({delta.text, ""});
        break;
      case Kind::kToolArguments:
        calls[static_cast<std::size_t>(delta.tool)].arguments += delta.text;
        break;
      case Kind::kToolEnd:
        break;
    }
  }
}

}  // namespace glint
