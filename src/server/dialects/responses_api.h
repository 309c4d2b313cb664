// /v1/responses: OpenAI's API of items. Nothing is stored: a client sends the whole conversation.
#pragma once

#include <string>

#include "server/dialects/request_reader.h"
#include "server/dialects/response_writer.h"

namespace glint {

void read_responses(RequestReader& r, ApiRequest& request, const ParseContext& context);

// Only the fields that make a prompt: the body of /v1/responses/input_tokens.
void read_responses_input(RequestReader& r, ApiRequest& request, const ParseContext& context);

class ResponsesWriter : public ResponseWriter {
 public:
  using ResponseWriter::ResponseWriter;
  Json whole(const Answer& answer) override;
  void begin(const Answer& answer, std::string& out) override;
  void piece(const Piece& piece, const Answer& answer, std::string& out) override;
  void end(const Answer& answer, std::string& out) override;
  void error(const ApiError& error, std::string& out) override;

 private:
  enum class Kind { kNone, kReasoning, kMessage, kCall };
  // The item that grows; the texts of those that are done stand in `items_`.
  struct Item {
    Kind kind = Kind::kNone;
    std::string id = {}, name = {}, call_id = {}, text = {};
    std::vector<TokenScore> scores = {};  // of a message's tokens, if they are wanted
  };

  Json response(Json::Array output, const char* status, const Answer* answer) const;
  Json item_json(const Item& item, const char* status) const;
  void event(const char* type, Json fields, std::string& out);
  void open(Item item, std::string& out);
  void close(std::string& out, const char* status = "completed");
  Json ended(const Answer& answer, std::string& out);  // the response, after its last event but one
  std::string id_of(const char* prefix, int index) const;

  std::int64_t sequence_ = 0;
  Item item_;
  Json::Array items_;  // that are done
};

}  // namespace glint
