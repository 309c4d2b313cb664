// ResponseParser: an HTTP/1.1 answer out of the bytes that a server sends, without a socket.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/http_server.h"

namespace glint {

class ResponseParser {
 public:
  struct Options {
    bool head = false;  // the request was HEAD: no body follows
    std::size_t max_body_bytes = 0;
    std::function<bool(std::string_view)> on_piece = {};  // see HttpClient::send
  };

  explicit ResponseParser(Options options);
  ~ResponseParser();

  // Fails on what is no HTTP, or too long.
  Status feed(std::string_view bytes);
  // The server has closed: fails unless that was how the answer ends.
  Status feed_end();

  bool done() const;        // the answer is complete, or on_piece ended it
  bool keep_alive() const;  // of a complete answer
  HttpResponse take();      // its headers in lower case

 private:
  class Message;

  Status put();

  const Options options_;
  std::string buffer_;
  std::unique_ptr<Message> message_;
};

}  // namespace glint
