// glint chat with a model that runs in this process.
#include <algorithm>

#include "base/str.h"
#include "cli/chat_source.h"
#include "cli/interrupt.h"
#include "rl/tool_turns.h"
#include "text/template/chat_template.h"

namespace glint {
namespace {

// Tools as templates read them, and as the parser of answers does.
struct Tools {
  Json list = {};
  std::vector<ToolSpec> specs = {};
};

class LocalChat : public ChatSource {
 public:
  LocalChat(bool thinking, Tools tools, Tokenizer tokenizer, ChatTemplate chat_template,
            LedRanks ranks, GenerateOptions generation)
      : thinking_(thinking),
        tools_(std::move(tools)),
        tokenizer_(std::move(tokenizer)),
        template_(std::move(chat_template)),
        ranks_(std::move(ranks)),
        generation_(std::move(generation)) {}

  Result<End> answer(const Json::Array& messages, const OnDeltas& on_deltas) override {
    Json kwargs(Json::Object{{"add_generation_prompt", true}});
    if (!thinking_) kwargs.set("enable_thinking", false);
    GLINT_TRY(const std::string prompt,
              template_.render(messages, tools_.list, kwargs).in("the chat template"));
    GLINT_TRY(std::vector<TokenId> tokens, tokenizer_.encode(prompt));
    keep_common_prefix(tokens);
    DeltaParser parser(tokenizer_, {.in_reasoning = ends_in_reasoning(tokenizer_, tokens),
                                    .tools = tools_.specs,
                                    .skip_special = false});
    const InterruptGuard interrupt(InterruptGuard::Hears::kCtrlC);
    GenerateOptions generation = generation_;
    generation.goes_on = [&] { return !interrupt.interrupted(); };
    const auto on_token = [&](TokenId token, float) {
      on_deltas(parser.feed(std::span(&token, 1)));
      return !interrupt.interrupted();
    };
    GLINT_TRY(const GenerateStats stats,
              generate(ranks_.first(), tokens, &cached_, generation, on_token));
    on_deltas(parser.finish());
    tokens_ = std::move(tokens);
    return End{.cut = stats.reason == FinishReason::kLength,
               .stopped = interrupt.interrupted(),
               .speed = describe_speed(stats)};
  }

 private:
  // The new prompt uses the cached tokens that it begins with, but at least one must run.
  void keep_common_prefix(const std::vector<TokenId>& tokens) {
    const auto differ =
        std::mismatch(tokens.begin(), tokens.end(), tokens_.begin(), tokens_.end()).first;
    const auto same = static_cast<int>(differ - tokens.begin());
    cached_ = std::max(std::min({cached_, same, static_cast<int>(tokens.size()) - 1}), 0);
  }

  const bool thinking_;
  const Tools tools_;
  const Tokenizer tokenizer_;
  const ChatTemplate template_;
  const LedRanks ranks_;
  const GenerateOptions generation_;
  std::vector<TokenId> tokens_;  // of the last prompt and answer
  int cached_ = 0;               // how many of them the cache holds
};

}  // namespace

Result<std::unique_ptr<ChatSource>> local_chat(const ChatOptions& options, Json list, Cli& cli) {
  if (!options.ca_file.empty())
    return invalid(
        str("--ca-file is for a server, and ", quoted_path(options.model), " runs here"));
  if (options.timeout)
    return invalid(
        str("--timeout is for a server, and ", quoted_path(options.model), " runs here"));
  Tools tools = {.list = std::move(list)};
  if (!options.tools.empty()) {
    GLINT_TRY(tools.specs, read_tool_specs(tools.list).in(options.tools));
  }
  GLINT_TRY(const int num_drafts, parse_spec(options.spec));
  GLINT_TRY(const std::string dir, model_dir(options.model, cli, part_of(options)));
  GLINT_TRY(Tokenizer tokenizer, Tokenizer::open(dir));
  GLINT_TRY(ChatTemplate chat_template, ChatTemplate::open(dir));
  GLINT_TRY(const ModelOptions resolved, resolve(options, cli, num_drafts > 0));
  GLINT_TRY(const OpenedModel opened, open_model(resolved));
  GLINT_TRY(GenerateOptions generation,
            generate_options(options, dir, opened, tokenizer, num_drafts));
  GLINT_TRY_STATUS(check_one_sequence(options));
  GLINT_TRY(LedRanks ranks, load_led_ranks(options, options, resolved, opened, cli));
  LoadedModel& model = ranks.first();
  const int positions = static_cast<int>(model.config().max_position_embeddings);
  generation.max_tokens = options.max_tokens > 0 ? options.max_tokens : positions;
  // Memory is taken page by page as the conversation grows.
  GLINT_TRY_STATUS(reserve_context(model, positions, 0, num_drafts));
  return std::unique_ptr<ChatSource>(std::make_unique<LocalChat>(
      options.thinking, std::move(tools), std::move(tokenizer), std::move(chat_template),
      std::move(ranks), std::move(generation)));
}

}  // namespace glint
