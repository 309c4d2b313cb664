// ExchangeState: what HttpExchange, on any thread, and HttpConnection, on the io thread, share of
// one answer; and Outbox, through which the first wakes the second.
//
// An answer is bytes: head and chunks are written out where they are made, so that the connection
// sends what has gathered and knows nothing of their form. A thousand writes of a step, each to
// another answer, cost one wake-up: the first enters itself and wakes, the others find the io
// thread woken.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_server.h"

namespace glint {

// The answers that have something for the io thread.
class Outbox {
 public:
  explicit Outbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void add(std::shared_ptr<ExchangeState> state);
  std::vector<std::shared_ptr<ExchangeState>> take();  // io thread
  void close();                                        // from here on nothing is woken

  std::atomic<bool> draining = false;  // no connection outlives its answer

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<std::shared_ptr<ExchangeState>> ready_;
};

class HttpConnection;

class ExchangeState : public std::enable_shared_from_this<ExchangeState> {
 public:
  struct Form {
    bool head = false;  // the request was HEAD: no body
    bool http_1_0 = false;
    bool keep_alive = true;
  };

  ExchangeState(std::shared_ptr<Outbox> outbox, Form form, std::size_t max_buffer);

  // A handle whose last copy, when dropped, ends the answer.
  HttpExchange handle();

  // HttpExchange's, on any thread.
  void respond(HttpResponse response);
  void begin_stream(int status, HttpHeaders headers);
  bool write(std::string_view bytes);
  void finish();
  void on_disconnect(std::function<void()> fn);
  bool gone() const;
  bool streams() const;
  std::size_t num_unsent() const;

  // HttpConnection's, on the io thread.
  enum class Phase {
    kUnanswered,
    kStreaming,
    kComplete,   // every byte is there
    kAbandoned,  // dropped without an answer: the connection makes one
    kBroken,     // dropped, or overtaken by its reader's slowness, in the middle of a stream
  };
  // Swaps the bytes that wait into `bytes` (empty on entry), and says how far the answer is with
  // them.
  Phase take(std::string& bytes);
  Phase look(std::size_t& waiting);  // takes nothing yet; `waiting`: bytes that take() would give
  bool keep_alive() const;           // when complete
  void client_gone();   // calls on_disconnect's function, unless the answer is complete
  void call_if_gone();  // for a function that was given too late

  HttpConnection* connection = nullptr;  // io thread only; null once it is closed

 private:
  void dropped();
  void enqueue();  // with mutex_ held
  void append_head(int status, const HttpHeaders& headers, const std::string& length);

  const std::shared_ptr<Outbox> outbox_;
  const Form form_;
  const std::size_t max_buffer_;

  mutable std::mutex mutex_;
  Phase phase_ = Phase::kUnanswered;
  bool gone_ = false, queued_ = false, chunked_ = false, has_body_ = true, keep_alive_ = true;
  std::string bytes_;
  std::size_t taken_ = 0;    // bytes that the last take() gave, which the socket may still hold
  std::size_t largest_ = 0;  // piece of the stream so far
  std::function<void()> on_disconnect_;
};

// The head of an answer, to the empty line. `length` is a field of its own, with its CR LF: the
// length or the transfer coding. Fields of `headers` that are the server's own are left out.
struct ResponseHead {
  int status = 200;
  const HttpHeaders& headers;
  std::string length = {};
  bool http_1_0 = false;
  bool keep_alive = true;
};
std::string format_head(const ResponseHead& head);

}  // namespace glint
