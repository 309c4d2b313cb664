// TCP between processes of ours. Every wait has an end, and a connection whose other machine is
// gone fails within seconds.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"

namespace glint {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline seconds_from_now(int seconds) {
  return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
}

// The time left until `deadline`, as poll() takes it; 0: it has passed.
int milliseconds_until(Deadline deadline);

// Listens on every address of this machine; `port` 0: on any free one.
Result<OwnedFd> listen_tcp(int port);
int port_of(const OwnedFd& listener);

// The next connection; kUnavailable where none comes in time, or `listener` is shut down.
Result<OwnedFd> accept_tcp(const OwnedFd& listener, Deadline deadline);

// Accepts connections and gives those that speak, so that one that says nothing delays no other.
class SpeakingTcp {
 public:
  // A connection speaks once `bytes` are there to be read, or it has hung up; it is dropped where
  // it does neither for `patience`.
  SpeakingTcp(const OwnedFd& listener, int bytes, std::chrono::milliseconds patience)
      : listener_(listener), bytes_(bytes), patience_(patience) {}

  // The next connection that speaks; fails as accept_tcp() does.
  Result<OwnedFd> accept(Deadline deadline);

 private:
  struct Silent {
    OwnedFd socket;
    Deadline end;
  };
  const OwnedFd& listener_;
  const int bytes_;
  const std::chrono::milliseconds patience_;
  std::vector<Silent> silent_;  // the oldest first
};

// Connects to a name or an address. Tries again until `deadline` where there is no way to it; then
// kUnavailable. Where nobody listens likewise if `wait_for_listener`, else kNotFound at once.
Result<OwnedFd> connect_tcp(const std::string& host, int port, Deadline deadline,
                            bool wait_for_listener);

// The address of the other end: of this machine, where the socket has none.
std::string peer_address(int socket);

}  // namespace glint
