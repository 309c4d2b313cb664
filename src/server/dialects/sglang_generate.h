// /generate, SGLang's native API: tokens or text in, text, tokens, log-probabilities and routed
// experts out.
#pragma once

#include <vector>

#include "server/dialects/request_reader.h"
#include "server/dialects/response_writer.h"

namespace glint {

// The fields of a request with one prompt.
void read_generate(RequestReader& r, ApiRequest& request, const ParseContext& context);

// The requests of a body: one, or one for each prompt of a list.
Result<std::vector<ApiRequest>, ApiError> parse_generate(const Json& body,
                                                         const ParseContext& context);

class GenerateWriter : public ResponseWriter {
 public:
  using ResponseWriter::ResponseWriter;
  // An object; a list where several choices were asked for.
  Json whole(const Answer& answer) override;
  void begin(const Answer&, std::string&) override {}
  // Each event holds the whole text so far.
  void piece(const Piece& piece, const Answer& answer, std::string& out) override;
  void end(const Answer& answer, std::string& out) override;
  void error(const ApiError& error, std::string& out) override;

 private:
  Json choice_json(const Choice& choice, const Answer& answer, bool ended) const;
};

}  // namespace glint
