// The answers of /v1/completions and /v1/chat/completions.
#pragma once

#include <vector>

#include "server/dialects/response_writer.h"

namespace glint {

// Base of both writers: the head of every chunk is made once, and chunks are appended as text.
class OpenAiWriter : public ResponseWriter {
 public:
  OpenAiWriter(const ApiRequest& request, ResponseInfo info, const TokenNames& names,
               const char* chunk_object);
  void begin(const Answer&, std::string&) override {}
  void end(const Answer& answer, std::string& out) override;
  void error(const ApiError& error, std::string& out) override;

 protected:
  Json head(const char* object) const;
  void finish_whole(const Answer& answer, Json& out) const;  // usage, timings
  // Opens a chunk with its one choice; the caller appends ,"key":value pairs, }] and closes.
  void open_chunk(int choice, std::string& out) const;
  void close_chunk(const Answer& answer, std::string& out) const;
  void append_finish(const std::optional<Finish>& finish, std::string& out) const;
  Json routed_experts_json(const Choice& choice) const;
  // With return_token_ids.
  void append_tokens(const Piece& piece, std::string& out) const;
  void append_prompt(const std::vector<TokenId>& prompt, std::string& out) const;

 private:
  std::string chunk_head_;
};

class CompletionWriter : public OpenAiWriter {
 public:
  CompletionWriter(const ApiRequest& request, ResponseInfo info, const TokenNames& names)
      : OpenAiWriter(request, std::move(info), names, "text_completion") {}
  Json whole(const Answer& answer) override;
  void piece(const Piece& piece, const Answer& answer, std::string& out) override;

 private:
  Json top_json(const TokenScore& score, const std::string& own) const;
  Json logprobs(const Choice& choice, const Answer& answer, const std::vector<TokenScore>& own,
                bool first, std::size_t& offset) const;
  Json choice_json(const Choice& choice, const Answer& answer) const;

  std::vector<std::size_t> offsets_;  // of the text so far, by choice
};

class ChatWriter : public OpenAiWriter {
 public:
  ChatWriter(const ApiRequest& request, ResponseInfo info, const TokenNames& names)
      : OpenAiWriter(request, std::move(info), names, "chat.completion.chunk") {}
  Json whole(const Answer& answer) override;
  void piece(const Piece& piece, const Answer& answer, std::string& out) override;

 private:
  Json logprobs(const std::vector<TokenScore>& scores) const;
  Json message(const Choice& choice, const Answer& answer) const;
  void append_delta(int choice, std::span<const Delta> deltas, std::string& out);
  void append_calls(int choice, std::span<const Delta> deltas, std::string& out) const;

  std::vector<bool> begun_;   // by choice
  bool prompt_told_ = false;  // by the first chunk
};

}  // namespace glint
