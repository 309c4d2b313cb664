// The conversation of a chat request: OpenAI's messages and tools, checked field by field, in the
// form that templates expect: every content a text, calls with their arguments as objects,
// reasoning under one name.
#pragma once

#include "server/api_types.h"
#include "server/request_reader.h"

namespace glint {

// Begins the conversation, with the server's own chat_template_kwargs.
ChatInput& begin_chat(ApiRequest& request, const ParseContext& context);

// "messages"; whether a schema demands it is the caller's to say.
void read_messages(RequestReader& r, ChatInput& chat);

// "tools", "tool_choice", "parallel_tool_calls".
void read_tools(RequestReader& r, ApiRequest& request);

// A tool of the dialects that have no "function" around its fields, as OpenAI's chat has it; it is
// added to `tools`. Without a schema the template sees `no_schema`.
Json read_flat_tool(RequestReader& t, const char* schema, Json no_schema, ToolUse& tools);

// A call in an assistant's message, as templates expect it.
Json call_json(const std::string& id, const std::string& name, Json arguments);

// The arguments of a call as an object, empty for a blank text; nothing if the text is none.
std::optional<Json> parse_arguments(const std::string& text);

// How much to think, in OpenAI's words: read into `effort`, and told to the template, where "none"
// turns thinking off.
void read_effort(RequestReader& r, const char* name, std::string& effort);
void set_effort(const std::string& effort, Json& kwargs);

// Whether tools and tool_choice go together with the rest; sets the grammar that it asks for.
void check_tool_choice(RequestReader& r, ApiRequest& request);

// A content's parts joined: [{"type": "text", "text": "a"}, "b"] -> "ab". Fails on what is no text,
// naming it under `path`.
std::optional<ApiError> flatten_parts(const Json& content, const std::string& path,
                                      std::string& out);

}  // namespace glint
