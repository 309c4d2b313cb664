#include "comm/socket_comm.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/str.h"
#include "comm/counting_comm.h"
#include "comm/host_rows.h"

namespace glint {
namespace {

// Sums over so many elements, of all ranks together, are made by every rank: that saves a message.
constexpr std::int64_t kSumAlone = std::int64_t{1} << 14;
constexpr int kBarrier = -1;
constexpr int kLookMilliseconds = 50;  // whether the group has ended

using Bytes = std::span<std::byte>;

int number_of(CommKind kind) { return static_cast<int>(kind); }

Bytes bytes_of(const Tensor& x) {
  return {x.data, static_cast<std::size_t>(x.size() * size_of(x.dtype))};
}

// The i-th of `count` stretches of [0, n), as even as they can be.
std::int64_t cut(std::int64_t n, int i, int count) { return n * i / count; }

// A call by its header, which may be anybody's bytes; `waits`: that a rank waits for.
std::string describe(const auto& header, bool waits) {
  const int kind = header.kind;
  const auto& names = CommCounters::kNames;
  const bool is_known = kind >= 0 && kind < std::ssize(names);
  const std::string name = kind == kBarrier                              ? "barrier"
                           : waits && kind == number_of(CommKind::kSend) ? "recv"
                           : is_known ? names[static_cast<std::size_t>(kind)]
                                      : str("kind ", kind);
  const bool has_dtype = header.dtype >= 0 && header.dtype <= static_cast<int>(DType::kI32);
  return str(name, " of ", header.bytes, " bytes of ",
             has_dtype ? name_of(static_cast<DType>(header.dtype)) : str("type ", header.dtype),
             " as call ", header.call);
}

}  // namespace

// `moved` bytes of the header and of the bytes behind it have been sent, or have come.
struct SocketComm::Letter {
  int peer = 0;
  bool is_sent = false;
  Header header = {}, expected = {};
  Bytes bytes = {};
  std::size_t moved = 0;

  bool done() const { return moved == sizeof header + bytes.size(); }
};

SocketComm::SocketComm(int rank, int size, std::function<void(int)> on_lost)
    : rank_(rank), size_(size), on_lost_(std::move(on_lost)) {}

void SocketComm::connect(std::vector<OwnedFd> peers) {
  peers_.clear();
  for (OwnedFd& socket : peers) peers_.push_back({.socket = std::move(socket)});
  GLINT_CHECK(std::ssize(peers_) == size_, "a socket for each rank of the group");
  ended_ = 0;
}

void SocketComm::end() { ended_ = 1; }

SocketComm::Letter SocketComm::to(int peer, int kind, DType dtype,
                                  std::span<const std::byte> bytes) {
  const Header header = {kind, static_cast<std::int32_t>(dtype),
                         peers_[static_cast<std::size_t>(peer)].sent++, bytes.size()};
  return {.peer = peer,
          .is_sent = true,
          .header = header,
          .bytes = {const_cast<std::byte*>(bytes.data()), bytes.size()}};  // only read
}

SocketComm::Letter SocketComm::from(int peer, int kind, DType dtype, Bytes bytes) {
  const Header header = {kind, static_cast<std::int32_t>(dtype),
                         peers_[static_cast<std::size_t>(peer)].received++, bytes.size()};
  return {.peer = peer, .expected = header, .bytes = bytes};
}

// False where the peer is gone.
bool SocketComm::move_some(Letter& l) {
  iovec parts[2] = {{&l.header, sizeof l.header}, {l.bytes.data(), l.bytes.size()}};
  for (std::size_t skip = l.moved; iovec & part : parts) {
    const std::size_t n = std::min(skip, part.iov_len);
    part = {static_cast<std::byte*>(part.iov_base) + n, part.iov_len - n};
    skip -= n;
  }
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const int socket = peers_[static_cast<std::size_t>(l.peer)].socket.get();
  const ssize_t n = l.is_sent ? ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : ::recvmsg(socket, &message, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  l.moved += static_cast<std::size_t>(n);
  const bool told = !l.is_sent && l.moved >= sizeof l.header;
  GLINT_CHECK(!told || l.header == l.expected,
              str("rank ", rank_, " calls ", describe(l.expected, true), ", rank ", l.peer,
                  " calls ", describe(l.header, false)));
  return n > 0;
}

bool SocketComm::move(std::span<Letter> letters) {
  std::vector<pollfd> polled(letters.size());
  while (!ended_) {
    bool all = true;
    for (std::size_t i = 0; i < letters.size(); ++i) {
      Letter& letter = letters[i];
      if (!letter.done() && !move_some(letter)) {
        if (!ended_.exchange(1)) on_lost_(letter.peer);
        return false;
      }
      const auto& peer = peers_[static_cast<std::size_t>(letter.peer)];
      polled[i] = {.fd = letter.done() ? -1 : peer.socket.get(),
                   .events = static_cast<short>(letter.is_sent ? POLLOUT : POLLIN),
                   .revents = 0};
      all = all && letter.done();
    }
    if (all) return true;
    ::poll(polled.data(), polled.size(), kLookMilliseconds);
  }
  return false;
}

template <class Part, class Place>
bool SocketComm::swap(int kind, DType dtype, Part part, Place place) {
  if (ended_) return false;
  std::vector<Letter> letters;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    letters.push_back(to(r, kind, dtype, part(r)));
    letters.push_back(from(r, kind, dtype, place(r)));
  }
  return move(letters);
}

void SocketComm::all_reduce(const Tensor& partial, const Tensor& out) {
  const int kind = number_of(CommKind::kAllReduce);
  const std::int64_t n = partial.size();
  // Rank r adds `count(r)` elements of all parts, from `first(r)` on.
  const bool alone = n * size_ <= kSumAlone;
  const auto first = [&](int r) { return alone ? 0 : cut(n, r, size_); };
  const auto count = [&](int r) { return alone ? n : first(r + 1) - first(r); };
  const auto stretch = [](const Tensor& x, std::int64_t at, std::int64_t elements) {
    return Tensor(x.data + at * size_of(x.dtype), x.dtype, {elements});
  };
  std::vector<float> theirs(static_cast<std::size_t>(count(rank_) * size_));
  std::vector<Tensor> parts;
  for (int r = 0; r < size_; ++r) {
    parts.push_back(r == rank_
                        ? stretch(partial, first(r), count(r))
                        : Tensor(theirs.data() + count(rank_) * r, DType::kF32, {count(rank_)}));
  }
  if (!swap(
          kind, partial.dtype,
          [&](int r) { return bytes_of(stretch(partial, first(r), count(r))); },
          [&](int r) { return bytes_of(parts[static_cast<std::size_t>(r)]); }))
    return clear(out);
  if (alone) return add_parts(parts, stretch(out, 0, n), 0, n);
  // Sums are rounded where they are made, and all ranks get the same.
  const auto sum = [&](int r) { return stretch(out, first(r), count(r)); };
  add_parts(parts, sum(rank_), 0, count(rank_));
  const auto mine = [&](int) { return bytes_of(sum(rank_)); };
  if (!swap(kind, out.dtype, mine, [&](int r) { return bytes_of(sum(r)); })) clear(out);
}

void SocketComm::reduce_scatter(const Tensor& partial, const Tensor& out) {
  GLINT_CHECK(partial.dim(0) == size_ * out.dim(0), "reduce_scatter: the rows do not divide");
  const std::int64_t n = out.size();
  std::vector<float> theirs(static_cast<std::size_t>(n * size_));
  std::vector<Tensor> parts;
  const auto share = [&](int r) {
    return Tensor(partial.data + r * n * size_of(DType::kF32), DType::kF32, {n});
  };
  for (int r = 0; r < size_; ++r) {
    parts.push_back(r == rank_ ? share(r) : Tensor(theirs.data() + n * r, DType::kF32, {n}));
  }
  if (!swap(
          number_of(CommKind::kReduceScatter), partial.dtype,
          [&](int r) { return bytes_of(share(r)); },
          [&](int r) { return bytes_of(parts[static_cast<std::size_t>(r)]); }))
    return clear(out);
  add_parts(parts, Tensor(out.data, out.dtype, {n}), 0, n);
}

void SocketComm::all_gather(const Tensor& mine, const Tensor& all) {
  GLINT_CHECK(all.dim(0) == size_ * mine.dim(0), "all_gather: too few rows for all");
  const std::size_t each = bytes_of(mine).size();
  const auto place = [&](int r) {
    return bytes_of(all).subspan(static_cast<std::size_t>(r) * each, each);
  };
  if (mine.data != place(rank_).data()) std::copy_n(mine.data, each, place(rank_).data());
  if (!swap(
          number_of(CommKind::kAllGather), mine.dtype, [&](int) { return bytes_of(mine); }, place))
    clear(all);
}

void SocketComm::broadcast(const Tensor& x, int root) {
  const int kind = number_of(CommKind::kBroadcast);
  std::vector<Letter> letters;
  for (int r = 0; r < size_ && !ended_; ++r) {
    if (r == rank_) continue;
    if (rank_ == root) letters.push_back(to(r, kind, x.dtype, bytes_of(x)));
    if (r == root) letters.push_back(from(r, kind, x.dtype, bytes_of(x)));
  }
  if (!move(letters) && rank_ != root) clear(x);
}

void SocketComm::exchange(const ExchangeArgs& args) {
  const std::int64_t width = args.x.rank > 1 ? args.x.dim(1) : 1;
  const auto row = static_cast<std::size_t>(width * size_of(args.x.dtype));
  // The rows that go to each rank.
  std::vector<std::vector<std::byte>> sent(static_cast<std::size_t>(size_));
  std::int64_t behind = 0;  // backwards: rows that the ranks before gave
  for (int r = 0; r < size_; ++r) {
    const std::int64_t begin = args.backwards ? behind : begin_of(args, rank_, r);
    const std::int64_t count = args.backwards ? dealt(args, r, rank_) : dealt(args, rank_, r);
    behind += count;
    std::vector<std::byte>& rows = sent[static_cast<std::size_t>(r)];
    rows.resize(static_cast<std::size_t>(count) * row);
    copy_rows(args.x, args.rows, begin, Tensor(rows.data(), args.x.dtype, {count, width}), count);
  }
  const std::vector<SentRows> wanted = rows_sent_to(args, rank_, size_);
  const auto place = [&](int r) {
    const SentRows& s = wanted[static_cast<std::size_t>(r)];
    return Bytes(args.out.data + static_cast<std::size_t>(s.at) * row,
                 static_cast<std::size_t>(s.count) * row);
  };
  const auto part = [&](int r) { return Bytes(sent[static_cast<std::size_t>(r)]); };
  std::copy_n(part(rank_).data(), part(rank_).size(), place(rank_).data());
  if (!swap(number_of(CommKind::kExchange), args.x.dtype, part, place)) clear(args.out);
}

void SocketComm::send(const Tensor& x, int peer) {
  if (ended_) return;
  Letter letter = to(peer, number_of(CommKind::kSend), x.dtype, bytes_of(x));
  (void)move({&letter, 1});  // whoever waits for it hears that the group has ended
}

void SocketComm::recv(const Tensor& x, int peer) {
  if (ended_) return clear(x);
  Letter letter = from(peer, number_of(CommKind::kSend), x.dtype, bytes_of(x));
  if (!move({&letter, 1})) clear(x);
}

void SocketComm::barrier() {
  const auto nothing = [](int) { return Bytes(); };
  (void)swap(kBarrier, DType::kF32, nothing, nothing);
}

}  // namespace glint
