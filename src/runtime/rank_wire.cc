#include "runtime/rank_wire.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>

#include "base/bytes.h"
#include "base/str.h"
#include "ops/kv_layout.h"

namespace glint {
namespace {

// In front of a message: little-endian, as every machine that glint runs on.
struct Frame {
  std::uint32_t magic = kMagic;
  std::uint32_t version = kRankWireVersion;
  std::uint64_t bytes = 0;
  static constexpr std::uint32_t kMagic = 0x4b4e5247;  // "GRNK"
};
static_assert(sizeof(Frame) == kRankFrameBytes);

// The parts of a command, as they lie behind each other.
template <class Visit, class Command>
void visit(Visit& v, Command& command) {
  v(command.kind);
  v.each(command.replicas,
         [&](auto& rows) { v(rows.step, rows.slices, rows.tokens, rows.pages, rows.all_tokens); });
  v(command.routed, command.graph, command.graph_drafts, command.graph_sizes, command.max_seq_len,
    command.replica, command.selection, command.hidden_rows, command.hidden, command.num_pages,
    command.memory, command.path, command.slots, command.layer);
}

bool is_whole(const StepRows& rows) {
  std::int64_t tokens = 0, pages = 0;
  for (const RowSlice& s : rows.slices) {
    const std::int64_t end = std::int64_t{s.first} + s.count;
    const bool fits = s.first >= 0 && s.count >= 0 && s.logit_rows >= 0 &&
                      s.logit_rows <= s.count && s.num_pages >= 0 && s.token_begin == tokens &&
                      s.page_begin == pages && std::int64_t{s.num_pages} * kPageSize >= end;
    if (!fits) return false;
    tokens += s.count;
    pages += s.num_pages;
  }
  const bool exist =
      std::all_of(rows.pages.begin(), rows.pages.end(), [](PageId p) { return p >= 0; });
  return exist && tokens == std::ssize(rows.tokens) && pages == std::ssize(rows.pages);
}

Error gone() { return unavailable("the other end of a rank's stream is gone"); }

// All of `size` bytes by calls of `move`, which are send or recv.
template <class Move>
bool move_all(std::size_t size, Move move) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t n = move(at, size - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

std::string write_command(const RankCommand& command) {
  ByteWriter writer;
  visit(writer, command);
  return writer.take();
}

Result<RankCommand> read_command(std::string_view bytes) {
  RankCommand command;
  ByteReader reader(bytes);
  visit(reader, command);
  if (!reader.is_whole()) return invalid("a command to ranks has another length than its parts");
  if (static_cast<int>(command.kind) >= RankCommand::kNumKinds) {
    return invalid(str("a command to ranks is of kind ", static_cast<int>(command.kind),
                       ", which there is not"));
  }
  if (!std::all_of(command.replicas.begin(), command.replicas.end(), is_whole))
    return invalid("a command to ranks has slices outside of its rows");
  return command;
}

Status RankStream::send(std::string_view message) {
  const Frame frame = {.bytes = message.size()};
  const auto put = [this](const void* from, std::size_t size) {
    return move_all(size, [&](std::size_t at, std::size_t n) {
      return ::send(fd(), static_cast<const char*>(from) + at, n, MSG_NOSIGNAL);
    });
  };
  if (!put(&frame, sizeof frame) || !put(message.data(), message.size())) return gone();
  return Ok{};
}

void RankStream::set_receive_seconds(std::int64_t seconds) {
  const timeval most = {.tv_sec = seconds, .tv_usec = 0};
  ::setsockopt(fd(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
}

Result<std::string> RankStream::receive(std::uint64_t most, std::optional<Deadline> deadline) {
  const auto get = [&](void* to, std::size_t size) {
    return move_all(size, [&](std::size_t at, std::size_t n) -> ssize_t {
      pollfd bytes = {.fd = fd(), .events = POLLIN, .revents = 0};
      if (deadline && ::poll(&bytes, 1, milliseconds_until(*deadline)) == 0) return 0;
      return ::recv(fd(), static_cast<char*>(to) + at, n, 0);
    });
  };
  Frame frame;
  if (!get(&frame, sizeof frame)) return gone();
  if (frame.magic != Frame::kMagic) return invalid("the other end of a stream is no rank of glint");
  if (frame.version != kRankWireVersion) {
    return unsupported(str("a rank speaks version ", frame.version,
                           " of the ranks' language, and this program version ", kRankWireVersion,
                           "; start all ranks with the same program"));
  }
  if (frame.bytes > most) return invalid(str("a rank's message has ", frame.bytes, " bytes"));
  std::string message(static_cast<std::size_t>(frame.bytes), '\0');
  if (!get(message.data(), message.size())) return gone();
  return message;
}

}  // namespace glint
