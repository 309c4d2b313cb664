// How much a model thinks, in the words of every client: reasoning_effort, reasoning, thinking,
// enable_thinking, thinking_token_budget, and chat_template_kwargs, which is read last and says it
// most directly.
#pragma once

#include "server/api_types.h"
#include "server/dialects/request_reader.h"

namespace glint {

// Of a conversation that was begun; tells its template.
void read_thinking(RequestReader& r, ApiRequest& request);

}  // namespace glint
