// How much a model thinks, in the words of every client: reasoning_effort, reasoning, thinking,
// enable_thinking, thinking_token_budget, thinking_budget, and chat_template_kwargs, which is read
// last and says it most directly.
#pragma once

#include "server/api_types.h"
#include "server/dialects/request_reader.h"

namespace glint {

// Fills the template's kwargs and the thinking budget; request.chat has to be set.
void read_thinking(RequestReader& r, ApiRequest& request);

// The parts of it that APIs with words of their own for the others read, too: the budget, and
// chat_template_kwargs.
void read_thinking_budget(RequestReader& r, ApiRequest& request);
void read_template_kwargs(RequestReader& r, ApiRequest& request);

// The thinking budget of prompts that end in <think>, after the constraint was read.
void read_prompt_thinking(RequestReader& r, ApiRequest& request);

// One word for it, as the template's kwargs; "none" turns thinking off.
void read_effort(RequestReader& r, const char* name, Json& kwargs);

}  // namespace glint
