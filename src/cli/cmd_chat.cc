// glint chat: a conversation in the terminal.
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "base/terminal.h"
#include "cli/generate_options.h"
#include "cli/interrupt.h"
#include "cli/line_editor.h"
#include "text/chat_template.h"
#include "text/delta_parser.h"

namespace glint {
namespace {

struct Options : RunOptions, SamplingOptions {
  std::string system, tools;
  bool thinking = true;
  int max_tokens = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    RunOptions::visit(v);
    v.section("Conversation");
    v("system=TEXT", system, "a system message to begin with; /system changes it");
    v("tools=FILE", tools, "JSON list of tools the model may call; you are asked for each result");
    v("thinking", thinking, "let the model think before it answers");
    v("max-tokens,n", max_tokens, "tokens of one answer at most (default: as many as fit)");
    SamplingOptions::visit(v);
  }
};

constexpr const char* kHelp =
    "/system TEXT  set the system message and begin again     /reset  begin again\n"
    "/quit         leave (also Ctrl-D)                        Ctrl-C  stop the answer\n";

Result<Json> read_tools(const std::string& path) {
  if (path.empty()) return Json();
  GLINT_TRY(const std::string text, read_file(path));
  Result<Json> tools = parse_json(text);
  if (!tools.ok()) return std::move(tools).take_error().in(path);
  if (!tools.value().is_array())
    return invalid(str(path, " holds ", tools.value().kind(), "; expected a list of tools"));
  return tools;
}

// The functions of OpenAI's list of tools.
std::vector<ToolSpec> tool_specs(const Json& tools) {
  std::vector<ToolSpec> specs;
  if (!tools.is_array()) return specs;
  for (const Json& tool : tools.as_array()) {
    const Json* function = tool.find("function");
    const Json* name = (function ? *function : tool).find("name");
    const Json* parameters = (function ? *function : tool).find("parameters");
    if (name && name->is_string())
      specs.push_back({name->as_string(), parameters ? *parameters : Json()});
  }
  return specs;
}

// The calls as OpenAI's objects, but with the arguments as an object: what templates read.
Json::Array calls_of(const ParsedAnswer& answer) {
  Json::Array calls;
  for (const auto& [name, arguments] : answer.calls) {
    Result<Json> parsed = parse_json(arguments);
    Json::Object function{{"name", name}, {"arguments", std::move(parsed).value()}};
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
  Chat(const Options& options, Cli& cli, const Tokenizer& tokenizer,
       const ChatTemplate& chat_template, Json tools, LoadedModel& model,
       GenerateOptions generation)
      : options_(options),
        cli_(cli),
        tokenizer_(tokenizer),
        template_(chat_template),
        tools_(std::move(tools)),
        model_(model),
        generation_(std::move(generation)),
        system_(options.system) {
    reset();
  }

  void reset() {
    messages_.clear();
    if (!system_.empty())
      messages_.push_back(Json::Object{{"role", "system"}, {"content", system_}});
  }

  // True if `line` was a command; sets `quit`.
  bool command(const std::string& line, bool& quit) {
    if (!line.starts_with('/')) return false;
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
      cli_.console.note(str(quoted(line), " is no command; /help lists them"));
    }
    return true;
  }

  void say(const std::string& role, const std::string& content) {
    messages_.push_back(Json::Object{{"role", role}, {"content", content}});
  }

  // Streams the model's answer and adds it to the conversation. Returns the calls it made.
  Result<Json::Array> answer() {
    GLINT_TRY(const std::string prompt, render());
    GLINT_TRY(std::vector<TokenId> tokens, tokenizer_.encode(prompt));
    keep_common_prefix(tokens);
    DeltaParser parser(tokenizer_, {.in_reasoning = ends_in_reasoning(tokenizer_, tokens),
                                    .tools = tool_specs(tools_),
                                    .skip_special = false});
    ParsedAnswer parsed;
    const InterruptGuard interrupt;
    const auto on_token = [&](TokenId token, float) {
      show(parser.feed(std::span(&token, 1)), parsed);
      return !interrupt.interrupted();
    };
    GLINT_TRY(const GenerateStats stats, generate(model_, tokens, &cached_, generation_, on_token));
    show(parser.finish(), parsed);
    cli_.console.print("\n");
    cli_.console.flush();
    tokens_ = std::move(tokens);
    messages_.push_back(message_of(parsed));
    if (stats.reason == FinishReason::kLength)
      cli_.console.note("(the answer was cut: no more tokens)");
    if (cli_.console.err_is_terminal()) report_speed(stats, cli_);
    return calls_of(parsed);
  }

 private:
  Result<std::string> render() {
    Json kwargs(Json::Object{{"add_generation_prompt", true}});
    if (!options_.thinking) kwargs.set("enable_thinking", false);
    return template_.render(messages_, tools_, kwargs);
  }

  // What of the cache the new prompt can use: the tokens in which it agrees with the old ones, but
  // at least one must run.
  void keep_common_prefix(const std::vector<TokenId>& tokens) {
    const std::size_t most = std::min(tokens.size() - 1, static_cast<std::size_t>(cached_));
    std::size_t same = 0;
    while (same < most && same < tokens_.size() && tokens_[same] == tokens[same]) ++same;
    cached_ = static_cast<int>(same);
  }

  void show(const std::vector<Delta>& deltas, ParsedAnswer& parsed) {
    Console& console = cli_.console;
    parsed.add(deltas);
    for (const auto& [kind, text, tool] : deltas) {
      if (kind != last_kind_ && last_kind_ == Delta::Kind::kReasoning) console.print("\n");
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

  const Options& options_;
  Cli& cli_;
  const Tokenizer& tokenizer_;
  const ChatTemplate& template_;
  const Json tools_;
  LoadedModel& model_;
  const GenerateOptions generation_;
  std::string system_;
  Json::Array messages_;
  std::vector<TokenId> tokens_;  // of the last prompt and answer
  int cached_ = 0;               // how many of them the cache holds
  Delta::Kind last_kind_ = Delta::Kind::kContent;
};

Status converse(Chat& chat, LineEditor& editor, Cli& cli) {
  bool quit = false;
  while (!quit) {
    const std::optional<std::string> line = editor.read("> ");
    if (!line) break;
    if (line->empty() || chat.command(*line, quit)) continue;
    chat.say("user", *line);
    Result<Json::Array> calls = chat.answer();
    // The model asked for tools: the user plays them, until it answers.
    while (calls.ok() && !calls.value().empty()) {
      for (const Json& call : calls.value()) {
        const std::string& name = call.find("function")->find("name")->as_string();
        const std::optional<std::string> result = editor.read(str("result of ", name, "> "));
        if (!result) return Ok{};
        chat.say("tool", *result);
      }
      calls = chat.answer();
    }
    // A prompt that is too long, say: the conversation can be begun again.
    if (!calls.ok())
      cli.console.note(str("glint: ", calls.error().message, " (/reset begins again)"));
  }
  return Ok{};
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY(const int num_drafts, parse_spec(options.spec));
  GLINT_TRY(const Json tools, read_tools(options.tools));
  GLINT_TRY(const std::string dir, model_dir(options.model, cli));
  GLINT_TRY(const Tokenizer tokenizer, Tokenizer::open(dir));
  GLINT_TRY(const ChatTemplate chat_template, ChatTemplate::open(dir));
  GLINT_TRY(const std::unique_ptr<LoadedModel> model, load_model(options, cli, num_drafts > 0));
  GLINT_TRY(GenerateOptions generation, generate_options(options, *model, tokenizer, num_drafts));
  const int positions = static_cast<int>(model->config().max_position_embeddings);
  generation.max_tokens = options.max_tokens > 0 ? options.max_tokens : positions;
  // Memory is taken page by page as the conversation grows.
  GLINT_TRY_STATUS(model->reserve_pages(pages_for(positions, num_drafts)));

  const bool interactive = is_terminal(STDIN_FILENO) && cli.console.out_is_terminal();
  if (interactive) cli.console.print(cli.console.dim(kHelp));
  const std::string& home = cli.environment.home;
  LineEditor editor(interactive, home.empty() ? "" : home + "/.glint_history");
  Chat chat(options, cli, tokenizer, chat_template, tools, *model, std::move(generation));
  return converse(chat, editor, cli);
}

}  // namespace

Command chat_command() {
  return make_command<Options>(
      {.name = "chat",
       .group = "Model",
       .summary = "a conversation in the terminal",
       .description = "Talks to a model through its chat template. Thinking is dimmed, tool calls "
                      "are shown. Ctrl-C stops the answer, "
                      "not the program. Lines can also come from a pipe: one message each.",
       .examples = {{"glint chat models/glm5-tiny", "talk to the bundled model"},
                    {"glint chat models/glm5-tiny --tools tools.json --temperature 0",
                     "with tools, whose results you type"}}},
      run);
}

}  // namespace glint
