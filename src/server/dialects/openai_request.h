// The requests of /v1/completions and /v1/chat/completions: JSON -> ApiRequest.
#pragma once

#include "server/api_types.h"
#include "server/dialects/request_reader.h"

namespace glint {

void read_completion(RequestReader& r, ApiRequest& request, const ParseContext& context);
void read_chat(RequestReader& r, ApiRequest& request, const ParseContext& context);

// "messages", "tools", "chat_template_kwargs" ...: what becomes the prompt. Also of /tokenize and
// /apply-template.
void read_conversation(RequestReader& r, ApiRequest& request, const ParseContext& context);

// "prompt": one or a list of these, at most `most`; or nothing.
enum class PromptKind { kAny, kText, kTokens };
void read_prompts(RequestReader& r, const char* name, ApiRequest& request,
                  const ParseContext& context, std::size_t most = kMaxChoices,
                  PromptKind kind = PromptKind::kAny);

// Reads `body` with one of the functions above (or of another dialect).
using ReadRequest = void (*)(RequestReader&, ApiRequest&, const ParseContext&);
Result<ApiRequest, ApiError> parse_request(const Json& body, Api api, ReadRequest read,
                                           const ParseContext& context);

}  // namespace glint
