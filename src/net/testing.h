// For tests of net/: a client of plain system calls, so that what stands on the wire is what the
// test says.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/check.h"
#include "net/http_server.h"

namespace glint {

// How long a test waits for what must happen. Not a claim about speed: a test that waits so long
// has failed.
constexpr int kPatienceMs = 20'000;

// Waits until `condition` holds, looking often.
inline bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < kPatienceMs / 2; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }

  // False if the server did not take all of it.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  // Reads until `text` has come; returns all up to its end, and keeps what follows.
  std::string read_until(std::string_view text) {
    std::size_t at, from = 0;
    while ((at = buffer_.find(text, from)) == std::string::npos) {
      from = std::max(buffer_.size(), text.size()) - text.size();
      if (!read_some()) return std::exchange(buffer_, {}) + "<end>";
    }
    const std::string out = buffer_.substr(0, at + text.size());
    buffer_.erase(0, at + text.size());
    return out;
  }

  // Reads until the server closes. "<reset>" at the end if it did so with an error, "<waits>" if it
  // does not.
  std::string read_all() {
    while (read_some()) {
    }
    return std::exchange(buffer_, {}) + (end_ == End::kEof     ? ""
                                         : end_ == End::kReset ? "<reset>"
                                                               : "<waits>");
  }

  // Whether something can be read now.
  bool is_readable() const {
    pollfd entry = {.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&entry, 1, 0) > 0;
  }

  // Whether the server closes without another byte.
  bool is_closed() { return !read_some() && end_ != End::kWaits; }

  std::string exchange(std::string_view request) {
    send(request);
    return read_all();
  }

  void shutdown_send() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  enum class End { kNone, kEof, kReset, kWaits };

  bool read_some() {
    pollfd entry = {.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&entry, 1, kPatienceMs) <= 0) {
      end_ = End::kWaits;
      return false;
    }
    char bytes[4096];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    if (n > 0) {
      buffer_.append(bytes, static_cast<std::size_t>(n));
      return true;
    }
    end_ = n == 0 ? End::kEof : End::kReset;
    return false;
  }

  int fd_ = -1;
  bool connected_ = false;
  End end_ = End::kNone;
  std::string buffer_;
};

// The exchanges of a handler, for a test that answers them itself.
class Exchanges {
 public:
  HttpServer::Handler handler() {
    return [this](HttpRequest request, HttpExchange exchange) {
      const std::lock_guard lock(mutex_);
      waiting_.emplace_back(std::move(request), std::move(exchange));
      changed_.notify_all();
    };
  }

  std::pair<HttpRequest, HttpExchange> next() {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs),
                                        [this] { return !waiting_.empty(); });
    GLINT_CHECK(came, "no request came");
    auto out = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    return out;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<HttpRequest, HttpExchange>> waiting_;
};

// Answers with what it was asked.
inline void echo(HttpRequest request, HttpExchange exchange) {
  exchange.respond({.body = request.method + " " + request.path + " " + request.body});
}

inline std::unique_ptr<HttpServer> serve(HttpServer::Handler handler,
                                         HttpServerOptions options = {}) {
  auto server = HttpServer::start(std::move(options), std::move(handler));
  EXPECT_TRUE(server.ok()) << server.error().message;
  return std::move(server).value();
}

}  // namespace glint
