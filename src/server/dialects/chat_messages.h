// The conversation of a chat request: OpenAI's messages, checked field by field, in the
// form that templates expect: every content a text, calls with their arguments as objects,
// reasoning under one name.
#pragma once

#include "server/api_types.h"
#include "server/dialects/request_reader.h"

namespace glint {

// Begins the conversation, with the server's own chat_template_kwargs.
ChatInput& begin_chat(ApiRequest& request, const ParseContext& context);

// "messages"; whether a schema demands it is the caller's to say.
void read_messages(RequestReader& r, ChatInput& chat);

// A call in an assistant's message, as templates expect it.
Json call_json(const std::string& id, const std::string& name, Json arguments);

// The arguments of a call as an object, empty for a blank text; nothing if the text is none.
std::optional<Json> parse_arguments(const std::string& text);

// A field that holds a text or parts, joined: [{"type": "text", "text": "a"}, "b"] -> "ab". Nothing
// if there is none, or what is no text, at which the reader fails.
std::optional<std::string> read_parts(RequestReader& reader, const char* name);

}  // namespace glint
