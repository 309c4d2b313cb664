// A rank's commands as bytes, and the stream between a leader and a follower that is a process of
// its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/owned_fd.h"
#include "base/result.h"
#include "base/tcp.h"
#include "runtime/rank_command.h"

namespace glint {

// Counts up with every change of what ranks tell each other.
inline constexpr std::uint32_t kRankWireVersion = 9;
inline constexpr int kRankFrameBytes = 16;  // in front of every message

std::string write_command(const RankCommand& command);
// Fails on bytes that write_command() would not write: slices that do not follow each other or do
// not lie in tokens and pages, pages that do not cover them, lengths beyond the end.
Result<RankCommand> read_command(std::string_view bytes);

// Messages to and from another process, in order. Ends when the other end does.
class RankStream {
 public:
  RankStream() = default;
  explicit RankStream(OwnedFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  // receive() fails where nothing comes for so long; 0: it waits.
  void set_receive_seconds(std::int64_t seconds);
  // Waits for room while the other end lives.
  Status send(std::string_view message);
  // Waits for the next one, which has no more than `most` bytes. Fails with kUnavailable where it
  // does not come, or not by the deadline, and with kUnsupported where it is another version's.
  Result<std::string> receive(std::uint64_t most = std::uint64_t{1} << 32,
                              std::optional<Deadline> deadline = {});

 private:
  OwnedFd socket_;
};

}  // namespace glint
