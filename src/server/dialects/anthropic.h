// /v1/messages, Anthropic's API: its requests as conversations, its answers and its stream events.
#pragma once

#include "server/dialects/request_reader.h"
#include "server/dialects/response_writer.h"

namespace glint {

// Thinking is off unless "thinking" asks for it.
void read_anthropic(RequestReader& r, ApiRequest& request, const ParseContext& context);
// The body of /v1/messages/count_tokens: no max_tokens.
void read_anthropic_count(RequestReader& r, ApiRequest& request, const ParseContext& context);

class MessagesWriter : public ResponseWriter {
 public:
  using ResponseWriter::ResponseWriter;
  Json whole(const Answer& answer) override;
  void begin(const Answer& answer, std::string& out) override;
  void piece(const Piece& piece, const Answer& answer, std::string& out) override;
  void end(const Answer& answer, std::string& out) override;
  void waiting(std::string& out) override;
  void error(const ApiError& error, std::string& out) override;

 private:
  enum class Block { kNone, kThinking, kText, kTool };
  Json message(Json::Array content, const Answer& answer, bool ended) const;
  void open(Block block, const Delta& delta, std::string& out);
  void close(std::string& out);
  void delta(const Json& delta, std::string& out) const;

  int index() const { return static_cast<int>(blocks_.size()); }

  // The block that grows; `content_` has all but its text.
  Block block_ = Block::kNone;
  Json content_;
  std::string text_;
  Json::Array blocks_;  // that are done
};

}  // namespace glint
