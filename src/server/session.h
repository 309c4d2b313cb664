// Session: one generating request from the first event of the engine to the last byte of the
// answer. Turns tokens into text (one DeltaParser per choice), ends choices at stop strings,
// gathers what a whole answer needs, and streams. Owned by one event thread; nothing here is
// locked.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "server/dialects/response_writer.h"
#include "server/prepare.h"
#include "server/reply.h"

namespace glint {

// Shared by all sessions.
struct SessionServices {
  const TextModel& model;
  const TokenNames& names;
  Metrics& metrics;
  std::function<void(RequestId)> abort;
  std::function<bool()> stopping;  // requests are cancelled because the server ends
  // Called once, at the end, with what it was.
  std::function<void(const RequestRecord&, const RequestContext&, const Answer&)> done;
};

class Session {
 public:
  // The low bits of a RequestId are the choice, the others the session's number.
  static RequestId id_of(std::uint64_t number, std::size_t choice) {
    return (number << 16) + choice;
  }
  static std::uint64_t number_of(RequestId id) { return id >> 16; }

  Session(std::uint64_t number, ApiRequest request, Prepared prepared, ResponseInfo info,
          Reply reply, const SessionServices& services);

  // Takes an event of one of its choices.
  void on_event(TokenEvent event);
  // Ends everything; before the first byte with this error's status.
  void fail(const ApiError& error);
  // fail(), if memory ran out within one of these calls: 503, or the stream is cut.
  void give_up() noexcept;
  // Once nothing was sent for `seconds`: sends that the answer is still awaited, and before it the
  // head of the stream. From then on errors are events.
  void keep_alive(double seconds);
  // The client is gone.
  void disconnect();
  // The answer has ended, but writing it takes so long that others would wait: tell() does it, and
  // may be called on any thread, after the last of the calls above.
  bool awaits_telling() const { return awaits_telling_; }
  void tell();
  bool done() const { return done_; }

 private:
  struct ChoiceState {
    std::unique_ptr<DeltaParser> parser;
    Piece pending = {};     // not sent yet
    bool stopping = false;  // at a stop string: its last event is awaited
    bool finished = false;
    bool sent = false;
    double last_token_s = 0;  // since the request began
  };

  void fail_as(FinishReason reason, const ApiError& error);
  std::optional<ApiError> error_of_abort(const ChoiceState& state) const;
  void take_tokens(ChoiceState& state, Choice& choice, const TokenEvent& event);
  void count_cached(Choice& choice, const TokenEvent::Usage& usage);
  void take_extras(Choice& choice, TokenEvent& event);
  void finish_choice(ChoiceState& state, Choice& choice, const TokenEvent& event);
  void begin_stream(std::string& out);
  void send(int index, ChoiceState& state, bool now);
  void write(const std::string& bytes);
  std::int64_t num_numbers() const;
  void complete();
  void keep_best();
  void end(int status, const std::string& error = {});
  void abort_rest();

  const std::uint64_t number_;
  const ApiRequest request_;
  Prepared prepared_;  // less its prompts, which the answer has
  Reply reply_;
  const SessionServices& services_;
  std::unique_ptr<ResponseWriter> writer_;
  std::vector<ChoiceState> states_;
  Answer answer_;
  int num_open_ = 0;
  bool streaming_ = false;  // the head was sent
  bool awaits_telling_ = false, done_ = false;
  std::size_t last_ = 0;  // choice that ended
  double first_token_s_ = 0;
  double last_write_s_ = 0;  // since the request began
  const std::string id_;
  const std::size_t row_experts_;  // that the layers choose for a token
};

}  // namespace glint
