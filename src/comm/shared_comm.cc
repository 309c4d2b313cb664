#include "comm/shared_comm.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <ctime>

#include "base/str.h"
#include "comm/host_rows.h"

namespace glint {
namespace {

using Word = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 4, "a futex is 32 bits");

// Bytes that a rank tells in one turn; long calls have several.
constexpr std::int64_t kPiece = std::int64_t{1} << 20;
constexpr std::int64_t kLetter = std::int64_t{1} << 16;
// Sums over so many elements, of all ranks together, are made by every rank: that saves a meeting.
constexpr std::int64_t kSumAlone = std::int64_t{1} << 16;

// Waits until `word` is not `value` any more, or the group has ended.
void wait_while(Word& word, std::uint32_t value, const Word& ended) {
  for (int spin = 0; spin < 1000; ++spin) {
    if (word.load(std::memory_order_acquire) != value) return;
    __builtin_ia32_pause();
  }
  constexpr timespec kLook = {.tv_sec = 0, .tv_nsec = 50'000'000};  // whether the group has ended
  while (word.load(std::memory_order_acquire) == value && ended.load() == 0) {
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &kLook, nullptr, 0);
  }
}

void set(Word& word, std::uint32_t value) {
  word.store(value, std::memory_order_release);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

std::int64_t bytes_in(const Tensor& x) { return x.size() * size_of(x.dtype); }

// A rank's side of a call. Of the tensor only its type and shape mean something to others.
struct Call {
  int kind = -1;  // CommKind; -1: the barrier
  Tensor in = {};
};

std::string describe(const Call& call) {
  return call.kind < 0 ? "barrier"
                       : str(CommCounters::kNames[static_cast<std::size_t>(call.kind)], " of ",
                             call.in.describe());
}

// Ranks' inputs of an exchange may differ in the number of rows.
bool belong_together(const Call& a, const Call& b) {
  const auto row = [](const Tensor& x) { return x.rank > 1 ? x.dim(1) : 1; };
  return a.kind == b.kind && a.in.dtype == b.in.dtype &&
         (a.kind == static_cast<int>(CommKind::kExchange) ? row(a.in) == row(b.in)
                                                          : a.in.shape == b.in.shape);
}

constexpr std::size_t whole_pages(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

struct SharedGroup::Header {
  alignas(64) Word arrived;
  alignas(64) Word meetings;
  alignas(64) Word ended;
};
// Calls and pieces are there twice, for even and odd turns: who has met the others in one turn
// knows that they have left the turn before.
struct SharedGroup::Rank {
  alignas(64) CommCounters counters;
  alignas(64) std::uint32_t turn;  // the rank's own
  std::array<Call, 2> calls;
};
struct SharedGroup::Mailbox {
  alignas(64) Word full;
  Tensor x;
  alignas(64) std::array<std::byte, kLetter> letter;
};

// Header, ranks, pieces of even turns, those of odd turns, mailboxes.
std::size_t SharedGroup::bytes_for(int size) {
  const auto n = static_cast<std::size_t>(size);
  return whole_pages(sizeof(Header) + n * sizeof(Rank)) + 2 * n * kPiece +
         whole_pages(n * n * sizeof(Mailbox));
}

namespace {

// At `place`, in place of what is there, or anywhere.
Result<std::byte*> map_memory(int size, int fd, std::size_t begin, std::byte* place) {
  const int sharing = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* const memory =
      ::mmap(place, SharedGroup::bytes_for(size), PROT_READ | PROT_WRITE,
             sharing | MAP_NORESERVE | (place ? MAP_FIXED : 0), fd, static_cast<off_t>(begin));
  if (memory != MAP_FAILED) return static_cast<std::byte*>(memory);
  return exhausted(str("no memory for a group of ", size, " ranks: ", std::strerror(errno)));
}

}  // namespace

Result<SharedGroup> SharedGroup::map(int size, int fd, std::size_t begin) {
  GLINT_TRY(std::byte* const memory, map_memory(size, fd, begin, nullptr));
  const auto unmap = [size](std::byte* at) { ::munmap(at, bytes_for(size)); };
  return SharedGroup(std::shared_ptr<std::byte>(memory, unmap), size);
}

SharedGroup::Header& SharedGroup::header() const {
  return *reinterpret_cast<Header*>(memory_.get());
}
SharedGroup::Rank& SharedGroup::rank(int r) const {
  return reinterpret_cast<Rank*>(memory_.get() + sizeof(Header))[r];
}
std::byte* SharedGroup::piece(std::uint32_t turn, int rank) const {
  const auto n = static_cast<std::size_t>(size_);
  return memory_.get() + whole_pages(sizeof(Header) + n * sizeof(Rank)) +
         (turn % 2 * n + static_cast<std::size_t>(rank)) * kPiece;
}
SharedGroup::Mailbox& SharedGroup::mailbox(int to, int from) const {
  return reinterpret_cast<Mailbox*>(piece(1, size_))[to * size_ + from];
}
CommCounters& SharedGroup::counters(int r) const { return rank(r).counters; }
bool SharedGroup::ended() const { return header().ended.load() != 0; }
void SharedGroup::end() const { header().ended = 1; }
Status SharedGroup::begin_again(int fd, std::size_t begin) const {
  std::vector<CommCounters::Totals> before;
  for (int r = 0; r < size_; ++r) before.push_back(counters(r).totals());
  GLINT_TRY_STATUS(map_memory(size_, fd, begin, memory_.get()));
  for (int r = 0; r < size_; ++r) {
    counters(r).add_between({}, before[static_cast<std::size_t>(r)]);
  }
  return Ok{};
}

class SharedComm final : public Comm {
 public:
  SharedComm(const SharedGroup& group, int rank)
      : group_(group), rank_(rank), turn_(group_.rank(rank).turn) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  const Word* ended() const override { return &group_.header().ended; }

  void all_reduce(const Tensor& partial, const Tensor& out) override {
    const Call call = {static_cast<int>(CommKind::kAllReduce), partial};
    const bool whole = in_turns(out.size(), kPiece / kFloat, [&](std::int64_t at, std::int64_t n) {
      copy_bytes(mine(), partial.data + at * kFloat, n * kFloat);
      if (!meet(call)) return false;
      const std::vector<Tensor> parts = pieces(n);
      const Tensor to(out.data + at * size_of(out.dtype), out.dtype, {n});
      if (n * size() <= kSumAlone) {
        add_parts(parts, to, 0, n);
        return true;
      }
      // Each adds its share for all, in the place of the first rank's part.
      add_parts(parts, parts[0], n * rank_ / size(), n * (rank_ + 1) / size());
      if (!meet_again()) return false;
      add_parts(std::span(parts).first(1), to, 0, n);
      return true;
    });
    if (!whole) clear(out);
  }
  void reduce_scatter(const Tensor& partial, const Tensor& out) override {
    GLINT_CHECK(partial.dim(0) == size() * out.dim(0), "reduce_scatter: the rows do not divide");
    const Call call = {static_cast<int>(CommKind::kReduceScatter), partial};
    const std::int64_t all = out.size(), most = kPiece / kFloat / size();
    const bool whole = in_turns(all, most, [&](std::int64_t at, std::int64_t n) {
      for (int r = 0; r < size(); ++r) {
        copy_bytes(mine() + r * n * kFloat, partial.data + (r * all + at) * kFloat, n * kFloat);
      }
      if (!meet(call)) return false;
      std::vector<Tensor> parts;
      for (const Tensor& one : pieces(n * size())) parts.push_back(one.slice(0, rank_ * n, n));
      add_parts(parts, Tensor(out.data + at * size_of(out.dtype), out.dtype, {n}), 0, n);
      return true;
    });
    if (!whole) clear(out);
  }
  void all_gather(const Tensor& x, const Tensor& all) override {
    GLINT_CHECK(all.dim(0) == size() * x.dim(0), "all_gather: too few rows for all");
    const Call call = {static_cast<int>(CommKind::kAllGather), x};
    const std::int64_t each = bytes_in(x);
    const bool whole = in_turns(each, kPiece, [&](std::int64_t at, std::int64_t n) {
      copy_bytes(mine(), x.data + at, n);
      if (!meet(call)) return false;
      for (int r = 0; r < size(); ++r) copy_bytes(all.data + r * each + at, piece(r), n);
      return true;
    });
    if (!whole) clear(all);
  }
  void broadcast(const Tensor& x, int root) override {
    const Call call = {static_cast<int>(CommKind::kBroadcast), x};
    const bool whole = in_turns(bytes_in(x), kPiece, [&](std::int64_t at, std::int64_t n) {
      if (rank_ == root) copy_bytes(mine(), x.data + at, n);
      if (!meet(call)) return false;
      if (rank_ != root) copy_bytes(x.data + at, piece(root), n);
      return true;
    });
    if (!whole && rank_ != root) clear(x);
  }
  void exchange(const ExchangeArgs& args) override {
    const Call call = {static_cast<int>(CommKind::kExchange), args.x};
    const std::int64_t width = args.x.rank > 1 ? args.x.dim(1) : 1;
    const std::int64_t row = width * size_of(args.x.dtype), window = kPiece / row;
    GLINT_CHECK(window > 0, "exchange: a row is larger than what a rank tells at once");
    const std::vector<SentRows> wanted = rows_sent_to(args, rank_, size());
    std::int64_t most = 0;
    for (int r = 0; r < size(); ++r) most = std::max(most, rows_of(args, r));
    const bool whole = in_turns(most, window, [&](std::int64_t at, std::int64_t n) {
      const std::int64_t own = std::clamp(rows_of(args, rank_) - at, std::int64_t{0}, n);
      copy_rows(args.x, args.rows, at, Tensor(mine(), args.x.dtype, {n, width}), own);
      if (!meet(call)) return false;
      for (const SentRows& s : wanted) {
        const std::int64_t begin = std::max(s.begin, at);
        const std::int64_t count = std::min(s.begin + s.count, at + n) - begin;
        if (count <= 0) continue;
        copy_bytes(args.out.data + (s.at + begin - s.begin) * row,
                   piece(s.other) + (begin - at) * row, count * row);
      }
      return true;
    });
    if (!whole) clear(args.out);
  }
  void send(const Tensor& x, int to) override {
    SharedGroup::Mailbox& box = group_.mailbox(to, rank_);
    letters(x, [&](std::int64_t at, std::int64_t n) {
      wait_while(box.full, 1, group_.header().ended);
      if (group_.ended()) return;
      box.x = x;
      copy_bytes(box.letter.data(), x.data + at, n);
      set(box.full, 1);
    });
  }
  void recv(const Tensor& x, int from) override {
    SharedGroup::Mailbox& box = group_.mailbox(rank_, from);
    letters(x, [&](std::int64_t at, std::int64_t n) {
      wait_while(box.full, 0, group_.header().ended);
      if (group_.ended()) return clear(x);
      GLINT_CHECK(box.x.dtype == x.dtype && box.x.size() == x.size(),
                  "sent was " + box.x.describe() + ", expected " + x.describe());
      copy_bytes(x.data + at, box.letter.data(), n);
      set(box.full, 0);
    });
  }
  void barrier() override {
    in_turns(0, 1, [&](std::int64_t, std::int64_t) { return meet({}); });
  }

 private:
  static constexpr std::int64_t kFloat = sizeof(float);

  // turn(at, n) for stretches of at most `most` of `all`, at least one; false as soon as one is.
  template <class Turn>
  bool in_turns(std::int64_t all, std::int64_t most, Turn turn) {
    std::int64_t at = 0;
    do {
      if (!turn(at, std::min(most, all - at))) return false;
      ++turn_;
      at += most;
    } while (at < all);
    return true;
  }
  template <class Letter>
  void letters(const Tensor& x, Letter letter) {
    std::int64_t at = 0;
    do {
      letter(at, std::min(kLetter, bytes_in(x) - at));
      at += kLetter;
    } while (at < bytes_in(x));
  }

  // Tells the others the call, and waits for them; false if the group has ended.
  bool meet(const Call& call) {
    group_.rank(rank_).calls[turn_ % 2] = call;
    if (!meet_again()) return false;
    const Call& first = group_.rank(0).calls[turn_ % 2];
    GLINT_CHECK(belong_together(first, call),
                str("rank 0 calls ", describe(first), ", rank ", rank_, " calls ", describe(call)));
    return true;
  }
  bool meet_again() {
    SharedGroup::Header& h = group_.header();
    const std::uint32_t meeting = h.meetings.load(std::memory_order_acquire);
    if (h.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == static_cast<unsigned>(size())) {
      h.arrived.store(0, std::memory_order_relaxed);
      set(h.meetings, meeting + 1);
    } else {
      wait_while(h.meetings, meeting, h.ended);
    }
    return !group_.ended();
  }

  std::byte* piece(int rank) const { return group_.piece(turn_, rank); }
  std::byte* mine() const { return piece(rank_); }
  // Every rank's, as `n` floats.
  std::vector<Tensor> pieces(std::int64_t n) const {
    std::vector<Tensor> parts;
    for (int r = 0; r < size(); ++r) parts.push_back(Tensor(piece(r), DType::kF32, {n}));
    return parts;
  }

  // The number of rows that rank `r` sends.
  std::int64_t rows_of(const ExchangeArgs& args, int r) const {
    if (!args.backwards) return begin_of(args, r, size());
    std::int64_t rows = 0;
    for (int s = 0; s < size(); ++s) rows += dealt(args, s, r);
    return rows;
  }

  const SharedGroup group_;
  const int rank_;
  std::uint32_t& turn_;  // counts pieces of calls
};

std::unique_ptr<Comm> make_shared_comm(const SharedGroup& group, int rank) {
  return std::make_unique<SharedComm>(group, rank);
}

std::vector<std::unique_ptr<Comm>> make_thread_comms(int size) {
  GLINT_CHECK(size >= 1, "a group has at least one rank");
  std::vector<std::unique_ptr<Comm>> comms;
  if (size == 1) {
    comms.push_back(std::make_unique<SelfComm>());
    return comms;
  }
  const Result<SharedGroup> group = SharedGroup::map(size, -1);
  GLINT_CHECK(group.ok(), group.error().message);
  for (int r = 0; r < size; ++r) comms.push_back(make_shared_comm(group.value(), r));
  return comms;
}

}  // namespace glint
