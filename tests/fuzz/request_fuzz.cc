// The parsers of API requests: whatever JSON a stranger sends is a request or one error with a
// status of 4xx, a message and a path. The first byte says which API.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "server/dialects/anthropic.h"
#include "server/dialects/openai_request.h"
#include "server/dialects/responses_api.h"
#include "server/dialects/sglang_generate.h"

namespace {

struct Parser {
  glint::Api api;
  glint::ReadRequest read;
};
constexpr Parser kParsers[] = {{glint::Api::kChat, glint::read_chat},
                               {glint::Api::kCompletions, glint::read_completion},
                               {glint::Api::kResponses, glint::read_responses},
                               {glint::Api::kMessages, glint::read_anthropic},
                               {glint::Api::kMessages, glint::read_anthropic_count},
                               {glint::Api::kGenerate, glint::read_generate},
                               {glint::Api::kChat, glint::read_conversation}};

const glint::ServerConfig& config() {
  static const glint::ServerConfig the_config = {.served_names = {"m"}};
  return the_config;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Parser& parser = kParsers[data[0] % std::size(kParsers)];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const glint::Result<glint::Json> json = glint::parse_json(text, {.max_values = 100000});
  if (!json.ok()) return 0;
  const auto parsed = glint::parse_request(json.value(), parser.api, parser.read, {config(), 1000});
  if (!parsed.ok()) {
    const glint::ApiError& error = parsed.error();
    GLINT_CHECK(error.status >= 400 && error.status < 500, "a client's error");
    GLINT_CHECK(!error.message.empty(), "errors say why");
    glint::error_response(error, glint::ErrorStyle::kOpenAi);
    return 0;
  }
  const glint::ApiRequest& request = parsed.value();
  const bool chat = request.chat.has_value();
  GLINT_CHECK(chat != !request.prompts.empty(), "a request has a conversation or prompts");
  GLINT_CHECK(!chat || !request.chat->messages.empty(), "a conversation has messages");
  GLINT_CHECK(request.n >= 1 && request.best_of >= request.n, "choices");
  GLINT_CHECK(glint::validate(request.sampling).ok(), "sampling");
  for (const glint::TokenId id : request.end.stop_ids) GLINT_CHECK(id >= 0 && id < 1000, "ids");
  return 0;
}
