// The tools of a request, in the forms of OpenAI's chat and of the dialects that have no "function"
// around a tool's fields; and the grammar that tools, tool_choice and a response format ask for
// together.
#pragma once

#include "server/api_types.h"
#include "server/dialects/request_reader.h"

namespace glint {

inline constexpr std::size_t kMaxTools = 1024;

// "tools", "tool_choice", "parallel_tool_calls" of a chat.
void read_tools(RequestReader& r, ApiRequest& request);

// A tool without "function" around its fields, as OpenAI's chat has it; it is added to `tools`.
// Without a schema the template sees `no_schema`.
Json read_flat_tool(RequestReader& t, const char* schema, Json no_schema, ToolUse& tools);

// "auto", "none", "required", {"type": "function", "function": {"name": ...}} or, flat, {"type":
// "function", "name": ...}; {"type": "allowed_tools", ...}.
void read_tool_choice(RequestReader& r, ToolUse& tools);

// Whether tools and tool_choice go together, after all fields were read; sets the grammar that they
// ask for. A call that is demanded wins over a response format. Where a call may come and the
// answer has a format, the answer is calls or in the format.
void check_tool_choice(RequestReader& r, ApiRequest& request);

}  // namespace glint
