// RequestParser: HTTP/1.1 requests out of the bytes of one connection, without a socket: what a
// test and a fuzzer can drive.
//
// The grammar is Beast's; in front of it stands a strict check of every head, because where two
// readers of one connection disagree about where a request ends, requests are smuggled. Refused are
// bare CR and LF, folded lines, control characters, two lengths, any transfer coding but "chunked".
// Extensions of chunks and fields behind a chunked body are checked, and left out.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "net/http_server.h"

namespace glint {

class RequestParser {
 public:
  enum class Progress {
    kNeedMore,  // all bytes are read, the request is not complete
    kRequest,   // take() it; bytes behind it wait for the next parse()
    kRefused,   // status() and reason() say why; nothing more can be read from this connection
  };

  explicit RequestParser(const HttpLimits& limits);
  RequestParser& operator=(RequestParser&& other) noexcept;
  ~RequestParser();

  void append(std::string_view bytes) { buffer_.append(bytes); }
  Progress parse();
  HttpRequest take();

  // How far parse() is in the current request.
  bool started() const { return !buffer_.empty() || has_head(); }
  bool has_head() const { return message_ != nullptr; }
  std::size_t body_bytes() const;
  std::size_t waiting_bytes() const { return buffer_.size(); }

  // Whether the peer waits for "100 Continue" before it sends the body. True once for a request.
  bool take_expectation();

  // How the last complete request wants to be answered.
  bool http_1_0() const { return http_1_0_; }
  bool keep_alive() const { return keep_alive_; }

  int status() const { return status_; }
  const std::string& reason() const { return reason_; }
  // Method, path and headers of the current request, empty where it was refused before they were
  // read.
  HttpRequest head() const;

 private:
  class Message;

  bool refuse(int status, std::string reason);
  bool find_end_of_head();
  bool body_too_long();
  bool read_head();
  bool check_fields();
  bool read_body();
  bool read_chunk_line(std::string_view rest, std::size_t& bytes, std::string& plain);
  bool too_long();

  HttpLimits limits_;
  std::string buffer_;                  // begins at what is not parsed yet
  std::size_t scanned_ = 0, line_ = 0;  // of buffer_: what find_end_of_head() has seen, where the
                                        // line begins that it stands in
  std::unique_ptr<Message> message_;    // from the end of the head on
  bool expectation_ = false, http_1_0_ = false, keep_alive_ = false;
  int status_ = 0;
  std::string reason_, path_;
};

}  // namespace glint
