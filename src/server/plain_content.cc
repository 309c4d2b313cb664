#include "server/plain_content.h"

#include <algorithm>

namespace glint {
namespace {

void insert_marks(std::string& text, const std::string& name) {
  std::size_t first = 1;  // bytes of the name's first character
  while (first < name.size() && (name[first] & 0xc0) == 0x80) ++first;
  if (first >= name.size()) return;  // nothing to put a mark into
  if (text.find(name) == text.npos) return;
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + first)) {
    out += std::string_view(text).substr(done, at + first - done);
    out += kPlainMark;
    done = at + first;
  }
  text = out + text.substr(done);
}

void mark_text(Json& text, const Tokenizer& tokenizer) {
  std::string marked = without_marks(text.as_string());
  for (const AddedToken& token : tokenizer.added_tokens()) insert_marks(marked, token.content);
  text = std::move(marked);
}

}  // namespace

std::string without_marks(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t mark = std::min(text.find(kPlainMark, at), text.size());
    out += text.substr(at, mark - at);
    at = mark + kPlainMark.size();
  }
  return out;
}

void mark_plain(Json::Array& messages, const Tokenizer& tokenizer) {
  for (Json& message : messages) {
    const Json* role = message.find("role");
    const Json* content = message.find("content");
    if (!role || !content || (*role != Json("user") && *role != Json("tool"))) continue;
    Json marked = *content;
    if (marked.is_string()) mark_text(marked, tokenizer);
    if (marked.is_array()) {
      for (Json& part : marked.as_array()) {
        const Json* text = part.find("text");
        if (!text || !text->is_string()) continue;
        Json inner = *text;
        mark_text(inner, tokenizer);
        part.set("text", std::move(inner));
      }
    }
    message.set("content", std::move(marked));
  }
}

}  // namespace glint
