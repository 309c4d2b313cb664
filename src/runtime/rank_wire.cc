#include "runtime/rank_wire.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

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

template <class T>
concept Flat = std::is_trivially_copyable_v<T>;

class Writer {
 public:
  template <Flat T>
  void operator()(const T& value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <Flat T>
  void operator()(const std::vector<T>& values) {
    (*this)(static_cast<std::uint64_t>(values.size()));
    out_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<std::uint64_t>(text.size()));
    out_ += text;
  }
  template <class Each>
  void each(const std::vector<StepRows>& all, Each part) {
    (*this)(static_cast<std::uint64_t>(all.size()));
    for (const StepRows& rows : all) part(rows);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  template <Flat T>
  void operator()(T& value) {
    copy(&value, 1);
  }
  template <Flat T>
  void operator()(std::vector<T>& values) {
    values.resize(count(sizeof(T)));
    copy(values.data(), values.size());
  }
  void operator()(std::string& text) {
    text.resize(count(1));
    copy(text.data(), text.size());
  }
  template <class Each>
  void each(std::vector<StepRows>& all, Each part) {
    all.resize(count(kLeastRows));
    for (StepRows& rows : all) part(rows);
  }
  bool at_end() const { return ok_ && in_.empty(); }

 private:
  // Bytes of a part without rows: no count of parts asks for more memory than there are bytes.
  static constexpr std::size_t kLeastRows = 5 * sizeof(std::uint64_t);

  // How many values follow; 0 where fewer bytes do.
  std::size_t count(std::size_t size) {
    std::uint64_t n = 0;
    (*this)(n);
    if (n <= in_.size() / size) return static_cast<std::size_t>(n);
    ok_ = false;
    return 0;
  }
  template <class T>
  void copy(T* to, std::size_t n) {
    if (!ok_ || n == 0) return;
    ok_ = n * sizeof(T) <= in_.size();
    if (!ok_) return;
    std::memcpy(to, in_.data(), n * sizeof(T));
    in_.remove_prefix(n * sizeof(T));
  }

  std::string_view in_;
  bool ok_ = true;
};

// The parts of a pass, as they lie behind each other.
template <class Visit, class Pass>
void visit(Visit& v, Pass& pass) {
  v(pass.kind);
  v.each(pass.shards, [&](auto& rows) {
    v(rows.step);
    v(rows.slices);
    v(rows.tokens);
    v(rows.pages);
    v(rows.all_tokens);
  });
  v(pass.routed);
  v(pass.graph);
  v(pass.graph_drafts);
  v(pass.graph_sizes);
  v(pass.max_seq_len);
  v(pass.shard);
  v(pass.selection);
  v(pass.hidden_rows);
  v(pass.hidden);
  v(pass.num_pages);
  v(pass.memory);
  v(pass.path);
  v(pass.slots);
  v(pass.layer);
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

std::string write_pass(const RankPass& pass) {
  Writer writer;
  visit(writer, pass);
  return writer.take();
}

Result<RankPass> read_pass(std::string_view bytes) {
  RankPass pass;
  Reader reader(bytes);
  visit(reader, pass);
  if (!reader.at_end()) return invalid("a pass of ranks has another length than its parts");
  if (static_cast<int>(pass.kind) >= RankPass::kNumKinds) {
    return invalid(
        str("a pass of ranks is of kind ", static_cast<int>(pass.kind), ", which there is not"));
  }
  if (!std::all_of(pass.shards.begin(), pass.shards.end(), is_whole))
    return invalid("a pass of ranks has slices outside of its rows");
  return pass;
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
