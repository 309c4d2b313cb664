// Conversations in files, read as those in requests are.
#pragma once

#include "server/api_types.h"

namespace glint {

// `messages` and `tools` (null: none) in OpenAI's form, ready for a chat template: one message for
// each. `vocab` is the model's.
Result<ChatInput> read_chat(const Json& messages, const Json& tools, std::int64_t vocab);

// The messages alone.
Result<Json> read_chat_messages(const Json& messages, const Json& tools, std::int64_t vocab);

}  // namespace glint
