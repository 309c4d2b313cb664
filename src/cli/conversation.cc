#include "cli/conversation.h"

#include "server/dialects/openai_request.h"

namespace glint {

Result<ChatInput> read_chat(const Json& messages, const Json& tools, std::int64_t vocab) {
  Json body(Json::Object{{"messages", messages}, {"tools", tools}});
  ApiRequest request;
  const auto error = parse_request(body, Api::kChat, read_conversation,
                                   {ServerConfig(), static_cast<TokenId>(vocab)}, request);
  if (error) return invalid(error->message);
  return std::move(*request.chat);
}

Result<Json> read_chat_messages(const Json& messages, const Json& tools, std::int64_t vocab) {
  GLINT_TRY(ChatInput chat, read_chat(messages, tools, vocab));
  return Json(std::move(chat.messages));
}

}  // namespace glint
