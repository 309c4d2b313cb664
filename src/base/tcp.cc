#include "base/tcp.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/str.h"

namespace glint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenTries{100};
// After so long without a sign of the other machine a connection has failed.
constexpr int kSilentMilliseconds = 5000;
constexpr std::size_t kMostSilent = 64;  // the oldest makes room: descriptors are few

void set(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

// A connection that waits for an answer fails by probes, one whose bytes nobody takes by its time.
OwnedFd watched(OwnedFd socket) {
  set(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, kSilentMilliseconds / 1000 - 1);
  set(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kSilentMilliseconds);
  return socket;
}

// 0, or why there is no connection.
int try_to_connect(const addrinfo& to, Deadline deadline, OwnedFd& out) {
  OwnedFd socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  if (::connect(socket.get(), to.ai_addr, to.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd writable = {.fd = socket.get(), .events = POLLOUT, .revents = 0};
    const int wait = std::min(milliseconds_until(deadline), kSilentMilliseconds);
    if (::poll(&writable, 1, wait) <= 0) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  const int flags = ::fcntl(socket.get(), F_GETFL);
  ::fcntl(socket.get(), F_SETFL, flags & ~O_NONBLOCK);
  out = watched(std::move(socket));
  return 0;
}

}  // namespace

int milliseconds_until(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
}

Result<OwnedFd> listen_tcp(int port) {
  // Both families where there are two.
  for (const int family : {AF_INET6, AF_INET}) {
    OwnedFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) continue;
    set(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    sockaddr_in6 six = {};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(static_cast<std::uint16_t>(port));
    sockaddr_in four = {};
    four.sin_family = AF_INET;
    four.sin_port = six.sin6_port;
    if (family == AF_INET6) set(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    const auto* address = family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&six)
                                             : reinterpret_cast<const sockaddr*>(&four);
    const socklen_t size = family == AF_INET6 ? sizeof six : sizeof four;
    if (::bind(socket.get(), address, size) == 0 && ::listen(socket.get(), SOMAXCONN) == 0)
      return socket;
    if (errno == EADDRINUSE) break;
  }
  return unavailable(str("cannot listen on port ", port, ": ", std::strerror(errno)));
}

int port_of(const OwnedFd& listener) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Result<OwnedFd> accept_tcp(const OwnedFd& listener, Deadline deadline) {
  for (;;) {
    pollfd readable = {.fd = listener.get(), .events = POLLIN, .revents = 0};
    const int ready = ::poll(&readable, 1, milliseconds_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return unavailable("nobody has connected in time");
    OwnedFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket) return watched(std::move(socket));
    if (errno == EINVAL) return unavailable("nobody listens any more");  // it was shut down
    if (Clock::now() >= deadline) {
      return unavailable(str("cannot accept a connection: ", std::strerror(errno)));
    }
    // Where descriptors run out the connection stays, and poll() reports it at once again.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<OwnedFd> SpeakingTcp::accept(Deadline deadline) {
  for (;;) {
    std::erase_if(silent_, [](const Silent& one) { return one.end <= Clock::now(); });
    std::vector<pollfd> all = {{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const Silent& one : silent_)
      all.push_back({.fd = one.socket.get(), .events = POLLIN, .revents = 0});
    const Deadline until = silent_.empty() ? deadline : std::min(deadline, silent_.front().end);
    if (::poll(all.data(), all.size(), milliseconds_until(until)) < 0 && errno == EINTR) continue;
    for (std::size_t i = 0; i < silent_.size(); ++i) {
      if (all[i + 1].revents == 0) continue;
      OwnedFd socket = std::move(silent_[i].socket);
      silent_.erase(silent_.begin() + static_cast<std::ptrdiff_t>(i));
      set(socket.get(), SOL_SOCKET, SO_RCVLOWAT, 1);
      return socket;
    }
    if (all[0].revents == 0) {
      if (Clock::now() < deadline) continue;
      return unavailable("nobody has connected in time");
    }
    // Where descriptors run out, those that say nothing give theirs.
    Result<OwnedFd> socket = accept_tcp(listener_, silent_.empty() ? deadline : Clock::now());
    if (!socket.ok() && silent_.empty()) return socket;
    if (!socket.ok() || silent_.size() == kMostSilent) silent_.erase(silent_.begin());
    if (!socket.ok()) continue;
    set(socket.value().get(), SOL_SOCKET, SO_RCVLOWAT, bytes_);
    silent_.push_back({.socket = std::move(socket).value(), .end = Clock::now() + patience_});
  }
}

Result<OwnedFd> connect_tcp(const std::string& host, int port, Deadline deadline,
                            bool wait_for_listener) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  std::string why;
  for (bool first = true; first || Clock::now() < deadline; first = false) {
    addrinfo* found = nullptr;
    const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
    if (failed != 0) why = ::gai_strerror(failed);
    for (const addrinfo* at = failed == 0 ? found : nullptr; at; at = at->ai_next) {
      OwnedFd socket;
      const int error = try_to_connect(*at, deadline, socket);
      if (error == 0) return socket;
      why = std::strerror(error);
      if (error == ECONNREFUSED && !wait_for_listener && !at->ai_next)
        return not_found(str("nobody listens on ", host, ":", port));
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  return unavailable(str("cannot connect to ", host, ":", port, ": ", why));
}

std::string peer_address(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  char text[NI_MAXHOST] = "";
  ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size);
  if (address.ss_family == AF_UNIX) return "127.0.0.1";
  ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof text, nullptr, 0,
                NI_NUMERICHOST);
  const std::string found = text;
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 on a socket of both families
  return found.starts_with(kMapped) ? found.substr(kMapped.size()) : found;
}

}  // namespace glint
