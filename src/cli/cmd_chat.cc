// glint chat: a conversation in the terminal, with a model here or with a server.
#include <unistd.h>

#include <algorithm>

#include "base/json.h"
#include "base/str.h"
#include "base/terminal.h"
#include "base/utf8.h"
#include "cli/chat_source.h"
#include "cli/line_editor.h"

namespace glint {
namespace {

constexpr const char* kHelp =
    "/system TEXT  set the system message and begin again\n"
    "/reset        begin again\n"
    "/quit         leave (also Ctrl-D)\n"
    "\\ at the end  the message goes on in the next line; pasted lines are one message\n"
    "Ctrl-C        stop the answer, or clear the line\n";

Result<Json> read_tools(const std::string& path) {
  if (path.empty()) return Json();
  GLINT_TRY(Json tools, read_json_file(path));
  if (!tools.is_array())
    return invalid(str(path, " holds ", tools.kind(), "; expected a list of tools"));
  return tools;
}

// The calls as OpenAI's objects, but with the arguments as an object: what templates read. Text
// that is no JSON, as servers may send, stays text.
Json::Array calls_of(const ParsedAnswer& answer) {
  Json::Array calls;
  for (const ParsedAnswer::Call& call : answer.calls) {
    const std::string& text = call.arguments;
    Result<Json> parsed = text.empty() ? Json(Json::Object{}) : parse_json(text);
    Json::Object function{{"name", call.name},
                          {"arguments", parsed.ok() ? std::move(parsed).value() : text}};
    calls.push_back(Json::Object{{"type", "function"}, {"function", std::move(function)}});
  }
  return calls;
}

// The answer as a message of the conversation.
Json message_of(const ParsedAnswer& answer) {
  Json message(Json::Object{{"role", "assistant"}, {"content", answer.content.value_or("")}});
  if (answer.reasoning) message.set("reasoning_content", *answer.reasoning);
  if (!answer.calls.empty()) message.set("tool_calls", calls_of(answer));
  return message;
}

class Chat {
 public:
  Chat(ChatSource& source, std::string system, bool interactive, Cli& cli)
      : source_(source), cli_(cli), system_(std::move(system)), interactive_(interactive) {
    reset();
  }

  // A message gets no answer: where nobody reads along, the exit code says so.
  void fail(const std::string& why) {
    cli_.failed |= !interactive_;
    cli_.console.note(why);
  }

  void reset() {
    messages_.clear();
    if (!system_.empty()) say("system", system_);
  }

  // Whether the first word is a slash and small letters: a path has more of both.
  static bool is_command(std::string_view text) {
    const std::string_view word = text.substr(0, text.find_first_of(" \t\r\n"));
    return word.size() > 1 && word[0] == '/' &&
           std::all_of(word.begin() + 1, word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  }

  // True if `line` was a command; sets `quit`.
  bool command(const std::string& line, bool& quit) {
    if (!is_command(line)) return false;
    if (line == "/quit" || line == "/exit") {
      quit = true;
    } else if (line == "/reset") {
      reset();
      cli_.console.note("a new conversation");
    } else if (line == "/system" || line.starts_with("/system ")) {
      system_ = line.size() > 8 ? line.substr(8) : "";
      reset();
      cli_.console.note(system_.empty() ? "no system message; a new conversation"
                                        : "a new conversation with that system message");
    } else if (line == "/help") {
      cli_.console.print(kHelp);
    } else {
      fail(str(quoted(line),
               " is no command; /help lists them, and a message may begin with a space"));
    }
    return true;
  }

  std::size_t length() const { return messages_.size(); }
  void forget_from(std::size_t length) { messages_.resize(length); }
  void say(const std::string& role, const std::string& content) {
    messages_.push_back(Json::Object{{"role", role}, {"content", lossy_utf8(content)}});
  }

  // Streams the model's answer and adds it to the conversation. Returns the calls it made.
  Result<Json::Array> answer() {
    ParsedAnswer parsed;
    last_kind_ = Delta::Kind::kContent;
    bool shown = false;
    Result<ChatSource::End> done = source_.answer(messages_, [&](const std::vector<Delta>& deltas) {
      show(deltas, parsed);
      shown = true;
    });
    if (done.ok() || shown) cli_.console.print("\n");
    cli_.console.flush();
    GLINT_TRY(const ChatSource::End end, std::move(done));
    // A call that was stopped has no result, and half of one could not be sent again.
    if (end.stopped) parsed.calls.clear();
    messages_.push_back(message_of(parsed));
    if (end.cut) cli_.console.note("(the answer was cut: no more tokens)");
    if (cli_.console.err_is_terminal() && !end.speed.empty()) cli_.console.note(end.speed);
    return calls_of(parsed);
  }

 private:
  void show(const std::vector<Delta>& deltas, ParsedAnswer& parsed) {
    Console& console = cli_.console;
    parsed.add(deltas);
    for (const auto& [kind, written, tool] : deltas) {
      const std::string text = console.shown(written);
      const bool begins = kind != last_kind_ && kind == Delta::Kind::kReasoning;
      const bool ends = kind != last_kind_ && last_kind_ == Delta::Kind::kReasoning;
      if (begins && !console.color()) console.print("<think>");
      if (ends) console.print(console.color() ? "\n" : "</think>\n");
      last_kind_ = kind;
      switch (kind) {
        case Delta::Kind::kReasoning:
          console.print(console.dim(text));
          break;
        case Delta::Kind::kToolBegin:
          console.print(str("\n", console.bold("tool call: "), text, " "));
          break;
        case Delta::Kind::kContent:
        case Delta::Kind::kToolArguments:
          console.print(text);
          break;
        case Delta::Kind::kToolEnd:
          break;
      }
    }
    console.flush();
  }

  ChatSource& source_;
  Cli& cli_;
  std::string system_;
  const bool interactive_;
  Json::Array messages_;
  Delta::Kind last_kind_ = Delta::Kind::kContent;
};

// A line, and those that are pasted with it. Lines that were typed ahead come at once as well, and
// each is a text of its own.
std::optional<std::string> read_text(LineEditor& editor, const std::string& prompt) {
  const bool typed_ahead = editor.typed_ahead();
  std::optional<std::string> text = editor.read(prompt);
  while (text && !typed_ahead && !Chat::is_command(*text) && editor.pastes()) {
    const std::optional<std::string> next = editor.read("  ");
    if (!next) return {};
    *text += "\n" + *next;
  }
  return text;
}

// The user's text, and more after it while it ends in a backslash; nothing at the end of the input.
std::optional<std::string> read_message(LineEditor& editor) {
  std::optional<std::string> message = read_text(editor, "> ");
  while (message && message->ends_with('\\')) {
    const std::optional<std::string> next = read_text(editor, "  ");
    message->pop_back();
    if (next) {
      *message += "\n" + *next;
      continue;
    }
    if (editor.interactive()) return "";  // Ctrl-D takes the message back
    break;
  }
  return message;
}

Status converse(Chat& chat, LineEditor& editor, const Console& console) {
  bool quit = false;
  while (!quit) {
    const std::optional<std::string> line = read_message(editor);
    if (!line) break;
    if (trimmed(*line).empty() || chat.command(*line, quit)) continue;
    const std::size_t before = chat.length();
    chat.say("user", *line);
    Result<Json::Array> calls = chat.answer();
    // The model asked for tools: the user plays them, until it answers.
    while (calls.ok() && !calls.value().empty()) {
      for (const Json& call : calls.value()) {
        const std::string& name = call.find("function")->find("name")->as_string();
        const std::optional<std::string> result =
            read_text(editor, str("result of ", console.shown(name), "> "));
        if (!result) return editor.status();
        chat.say("tool", *result);
      }
      calls = chat.answer();
    }
    if (calls.ok()) continue;
    // A prompt that is too long, say, or a server that is away: another question may be answered.
    chat.forget_from(before);
    chat.fail(
        str("glint: ", calls.error().message, " (this question is forgotten; /reset forgets all)"));
  }
  return editor.status();
}

Status run(const ChatOptions& options, const OptionList& list, Cli& cli) {
  if (options.max_tokens < 0)
    return invalid(str("--max-tokens is ", options.max_tokens, "; it must be 1 or more"));
  GLINT_TRY(Json tools, read_tools(options.tools));
  const bool is_url = options.model.starts_with("http://") || options.model.starts_with("https://");
  Result<std::unique_ptr<ChatSource>> opened =
      is_url ? remote_chat(options, list, std::move(tools), cli)
             : local_chat(options, std::move(tools), cli);
  if (!opened.ok() && opened.error().code == ErrorCode::kNotFound &&
      options.model.find(':') != std::string::npos)
    return not_found(opened.error().message + "; the URL of a server begins with http://");
  GLINT_TRY(const std::unique_ptr<ChatSource> source, std::move(opened));
  const bool interactive = is_terminal(STDIN_FILENO) && cli.console.out_is_terminal();
  if (interactive) cli.console.print(cli.console.dim(kHelp));
  const std::string& home = cli.environment.home;
  LineEditor editor(interactive, home.empty() ? "" : home + "/.glint_history");
  Chat chat(*source, options.system, interactive, cli);
  return converse(chat, editor, cli.console);
}

}  // namespace

Command chat_command() {
  return make_command<ChatOptions>(
      {.name = "chat",
       .group = "Model",
       .summary = "a conversation in the terminal",
       .description =
           "Talks to a model through its chat template, or to a server of OpenAI's API "
           "(its key is GLINT_API_KEY). Thinking is dimmed, or where there are no colours between "
           "<think> and </think>; tool calls are shown. Ctrl-C stops the answer, not the program. "
           "Lines can also come from a pipe: one message each, and exit code 1 if one got no "
           "answer. A line that ends in \\ goes on in the next, and lines that are pasted at the "
           "prompt of a terminal are one message. What is typed there is kept in ~/.glint_history.",
       .examples = {{"glint chat models/glm5-tiny", "talk to the bundled model"},
                    {"glint chat http://127.0.0.1:8000", "talk to what `glint serve` serves"},
                    {"glint chat models/glm5-tiny --tools tools.json --temperature 0",
                     "with tools, whose results you type"}}},
      run);
}

}  // namespace glint
