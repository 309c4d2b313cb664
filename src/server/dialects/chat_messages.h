// The conversation of a chat request: OpenAI's messages, checked field by field, in the
// form that templates expect: every content a text, calls with their arguments as objects,
// reasoning under one name.
#pragma once

#include "server/api_types.h"
#include "server/dialects/request_reader.h"

namespace glint {

// Values that a conversation may have with its tools. Templates make some hundred bytes of each.
inline constexpr std::size_t kMaxChatValues = std::size_t{1} << 18;

// How many values there are in one, itself among them.
std::size_t count_values(const Json& json);

// Begins the conversation, with the server's own chat_template_kwargs.
ChatInput& begin_chat(ApiRequest& request, const ParseContext& context);

// "messages"; whether a schema demands it is the caller's to say.
void read_messages(RequestReader& r, ChatInput& chat);

// A call in an assistant's message, as templates expect it.
Json call_json(const std::string& id, const std::string& name, Json arguments);

// The arguments of the calls of one conversation. They are JSON in texts, whose values no limit of
// the body counts.
class ArgumentsReader {
 public:
  // The arguments in `text` as an object, empty for a blank text. Fails if the text is no object,
  // or the calls so far have more values than a conversation may.
  Result<Json> read(const std::string& text);

 private:
  std::size_t values_left_ = kMaxChatValues;
};

// The text of a part of this type: of a text, or of a document or a search result (a line each, the
// title first). Nothing if the type is another one.
std::optional<std::string> read_part(RequestReader& part, const std::string& type);

// A field that holds a text or parts, joined: [{"type": "text", "text": "a"}, "b"] -> "ab". Nothing
// if there is none, or what is no text, at which the reader fails.
std::optional<std::string> read_parts(RequestReader& reader, const char* name);

}  // namespace glint
