// glint generate: a prompt to an answer on stdout.
#include <chrono>

#include "base/contains.h"
#include "base/file.h"
#include "base/json.h"
#include "base/seconds.h"
#include "base/str.h"
#include "base/utf8.h"
#include "cli/generate_options.h"
#include "cli/interrupt.h"
#include "cli/json_lines.h"
#include "cli/option_checks.h"
#include "cli/rank_options.h"
#include "text/answer/delta_parser.h"
#include "text/template/chat_template.h"

namespace glint {
namespace {

struct Options : RunOptions, LayoutOptions, SamplingOptions {
  std::string prompt, file;
  std::string system;
  bool chat = false, thinking = true, json = false;
  int max_tokens = 256;
  std::vector<std::string> stop;
  bool ignore_eos = false;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("MODEL", model, "directory of a checkpoint, or an id in the Hugging Face cache");
    v.section("Prompt");
    v("prompt,p=TEXT", prompt,
      "the prompt, as it is: special tokens in it are read as such, nothing is added");
    v("file,f=FILE", file, "the prompt is this file's text without its last newline; - is stdin");
    v("chat", chat, "take the prompt as a user's message and render it through the chat template");
    v("system=TEXT", system, "with --chat, a system message before it");
    v("thinking", thinking, "with --chat, let the model think first");
    v.section("Answer");
    v("max-tokens,n", max_tokens, "tokens to generate at most");
    v("stop=TEXT", stop, "end the answer before this text; repeatable");
    v("ignore-eos", ignore_eos, "go on after stop tokens");
    v("json", json,
      "print one object: text, tokens, logprobs, finish_reason, usage, timings, ranks");
    SamplingOptions::visit(v);
    visit_running(v);
    LayoutOptions::visit(v, kHelpOfOneSequence);
  }
};

Result<std::string> read_prompt(const Options& options) {
  if (options.file.empty()) return options.prompt;
  if (!options.prompt.empty()) return invalid("-p and --file are both given; expected one of them");
  Result<std::string> text = options.file == "-" ? read_stdin() : read_file(options.file);
  if (text.ok() && text.value().ends_with('\n')) text.value().pop_back();
  return text;
}

Result<std::string> render_prompt(const Options& options, const std::string& prompt,
                                  const std::string& dir) {
  if (!options.chat) return prompt;
  GLINT_TRY(const ChatTemplate chat, ChatTemplate::open(dir));
  Json::Array messages;
  if (!options.system.empty()) {
    messages.push_back(Json::Object{{"role", "system"}, {"content", lossy_utf8(options.system)}});
  }
  messages.push_back(Json::Object{{"role", "user"}, {"content", lossy_utf8(prompt)}});
  Json kwargs(Json::Object{{"add_generation_prompt", true}});
  if (!options.thinking) kwargs.set("enable_thinking", false);
  return chat.render(messages, Json(), kwargs).in("the chat template of " + dir);
}

// The answer as it grows: shown token by token, or kept for the JSON object.
struct Answer {
  DeltaParser parser;  // all is content, up to a stop string
  Console& console;
  bool shown;
  bool thinks;  // up to </think>; what is shown is dimmed till then
  std::string text = {};
  Json::Array tokens = {}, logprobs = {};

  void add(const std::vector<Delta>& deltas) {
    for (const Delta& delta : deltas) {
      text += delta.text;
      if (shown) show(delta.text);
    }
    if (shown && !deltas.empty()) console.flush();
  }

  void show(std::string_view piece) {
    constexpr std::string_view kEnd = "</think>";
    const std::size_t end = thinks ? piece.find(kEnd) : 0;
    const std::size_t dimmed = end == piece.npos ? piece.size() : thinks ? end + kEnd.size() : 0;
    thinks = end == piece.npos;
    if (dimmed > 0) console.print(console.dim(console.shown(piece.substr(0, dimmed))));
    console.print(console.shown(piece.substr(dimmed)));
  }
};

Json to_json(const Answer& answer, const GenerateStats& stats, const char* reason, double load_s) {
  const int decoded = stats.completion_tokens - 1;
  Json timings(Json::Object{{"load_s", load_s},
                            {"prefill_s", stats.prefill_s},
                            {"decode_s", stats.decode_s},
                            {"prefill_tokens_per_s", stats.prompt_tokens / stats.prefill_s},
                            {"decode_tokens_per_s", decoded > 0 ? decoded / stats.decode_s : 0.0}});
  Json usage(Json::Object{{"prompt_tokens", stats.prompt_tokens},
                          {"completion_tokens", stats.completion_tokens},
                          {"total_tokens", stats.prompt_tokens + stats.completion_tokens}});
  Json object(Json::Object{{"text", answer.text},
                           {"tokens", answer.tokens},
                           {"logprobs", answer.logprobs},
                           {"finish_reason", reason},
                           {"usage", usage},
                           {"timings", timings}});
  if (stats.drafted) {
    object.set("speculation", Json::Object{{"drafted", stats.drafted},
                                           {"accepted", stats.accepted},
                                           {"acceptance_rate",
                                            static_cast<double>(stats.accepted) / stats.drafted}});
  }
  return object;
}

Status run(const Options& options, Cli& cli) {
  GLINT_TRY_STATUS(check_least("max-tokens", options.max_tokens, 1));
  if (contains(options.stop, ""))
    return invalid("--stop is empty, and no answer ends before nothing; give a text");
  if (!options.chat && (!options.system.empty() || !options.thinking)) {
    return invalid(str(options.thinking ? "--system" : "--no-thinking",
                       " has no meaning for a raw prompt; add --chat, or leave it out"));
  }
  GLINT_TRY(const int num_drafts, parse_spec(options.spec));
  GLINT_TRY(const std::string dir, model_dir(options.model, cli, part_of(options)));
  GLINT_TRY(const Tokenizer tokenizer, Tokenizer::open(dir));
  GLINT_TRY(const std::string text, read_prompt(options));
  if (text.empty()) return invalid("the prompt is empty; give -p TEXT or --file FILE");
  GLINT_TRY(const std::string prompt, render_prompt(options, text, dir));
  GLINT_TRY(std::vector<TokenId> tokens, tokenizer.encode(prompt));

  const auto load_start = std::chrono::steady_clock::now();
  GLINT_TRY(const ModelOptions resolved, resolve(options, cli, num_drafts > 0));
  GLINT_TRY(const OpenedModel opened, open_model(resolved));
  GLINT_TRY(GenerateOptions generation,
            generate_options(options, dir, opened, tokenizer, num_drafts));
  generation.max_tokens = options.max_tokens;
  generation.want_logprobs = options.json;
  if (options.ignore_eos) generation.stop_ids.clear();
  GLINT_TRY_STATUS(check_prompt(opened.config, tokens));
  GLINT_TRY_STATUS(check_one_sequence(options));
  GLINT_TRY(const LedRanks ranks, load_led_ranks(options, options, resolved, opened, cli));
  LoadedModel& model = ranks.first();
  const double load_s = seconds_since(load_start);
  GLINT_TRY_STATUS(
      reserve_context(model, static_cast<int>(tokens.size()), options.max_tokens, num_drafts));

  const InterruptGuard interrupt;
  generation.goes_on = [&] { return !interrupt.interrupted(); };
  Answer answer = {.parser = DeltaParser(tokenizer, {.parse_reasoning = false,
                                                     .parse_tools = false,
                                                     .stop = options.stop,
                                                     .skip_special = false}),
                   .console = cli.console,
                   .shown = !options.json,
                   .thinks = options.chat && ends_in_reasoning(tokenizer, tokens)};
  if (answer.shown && answer.thinks) answer.show("<think>");  // the prompt ends with it
  const auto on_token = [&](TokenId token, float logprob) {
    answer.tokens.push_back(token);
    answer.logprobs.push_back(static_cast<double>(logprob));
    answer.add(answer.parser.feed(std::span(&token, 1)));
    return !answer.parser.stopped() && !interrupt.interrupted() && !cli.console.lost_out();
  };
  int cached = 0;
  GLINT_TRY(const GenerateStats stats, generate(model, tokens, &cached, generation, on_token));
  answer.add(answer.parser.finish());

  cli.interrupted = interrupt.interrupted();
  const char* reason = answer.parser.stopped() ? "stop" : name_of(stats.reason);
  if (options.json) {
    Json said = to_json(answer, stats, reason, load_s);
    said.set("ranks", to_json(ranks.ranks()));
    cli.console.print(dump_json(said) + "\n");
    return Ok{};
  }
  cli.console.end_line();
  cli.console.note(describe_speed(stats));
  return Ok{};
}

}  // namespace

Command generate_command() {
  return make_command<Options>(
      {.name = "generate",
       .group = "Model",
       .summary = "continue a prompt",
       .description = "Streams the answer to stdout, and nothing else but the <think> by which the "
                      "prompt of a --chat may end. Sampling defaults come from "
                      "the model's generation_config.json; stop tokens from it and from "
                      "config.json, and are never part of the answer. The same seed gives the same "
                      "answer, whatever the number of threads.",
       .examples =
           {{"glint generate models/glm5-tiny -p 'The capital of France is' --temperature 0",
             "a raw prompt, greedy"},
            {"glint generate models/glm5-tiny --chat -p 'What is 12 + 7?' --spec mtp:3",
             "a chat message, three drafts a step"},
            {"glint generate models/glm5-tiny --chat -f question.txt", "a message from a file"}}},
      run);
}

}  // namespace glint
