#include "cli/conversation.h"

#include "server/dialects/openai_request.h"

namespace glint {

Result<ChatInput> read_chat(const Json& messages, const Json& tools, std::int64_t vocab) {
  Json body(Json::Object{{"messages", messages}, {"tools", tools}});
  auto request = parse_request(body, Api::kChat, read_conversation,
                               {ServerConfig(), static_cast<TokenId>(vocab)});
  if (!request.ok()) return invalid(request.error().message);
  return *std::move(request).value().chat;
}

Result<Json> read_chat_messages(const Json& messages, const Json& tools, std::int64_t vocab) {
  GLINT_TRY(ChatInput chat, read_chat(messages, tools, vocab));
  return Json(std::move(chat.messages));
}

}  // namespace glint
