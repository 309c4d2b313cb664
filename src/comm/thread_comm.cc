#include "comm/thread_comm.h"

#include <algorithm>
#include <barrier>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "base/str.h"
#include "comm/host_rows.h"

namespace glint {
namespace {

// A tensor on its way between two ranks.
class Letter {
 public:
  void put(const Tensor& x) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !full_; });
    x_ = x;
    full_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !full_; });  // read: x may change again
  }
  void take(const Tensor& to) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return full_; });
    GLINT_CHECK(x_.dtype == to.dtype && x_.size() == to.size(),
                "sent was " + x_.describe() + ", expected " + to.describe());
    std::memcpy(to.data, x_.data, to.bytes().size());
    full_ = false;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Tensor x_;
  bool full_ = false;
};

// A rank's side of the present call.
struct Call {
  const char* name = "";
  Tensor in = {}, out = {};
  Tensor rows = {};  // exchange only
};

struct Group {
  explicit Group(int size)
      : size(size),
        calls(static_cast<std::size_t>(size)),
        letters(static_cast<std::size_t>(size * size)),
        meeting(size) {}

  const int size;
  std::vector<Call> calls;
  std::vector<Letter> letters;  // [to][from]
  std::barrier<> meeting;
};

class ThreadComm final : public Comm {
 public:
  ThreadComm(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size; }

  // Each rank adds its share of the elements, for all.
  void all_reduce(const Tensor& partial, const Tensor& out) override {
    call({"all_reduce", partial, out}, Shapes::kEqual, [&] {
      const std::int64_t n = out.size(), begin = n * rank_ / size(), end = n * (rank_ + 1) / size();
      const std::vector<Tensor> parts = inputs();
      add_parts(parts, out, begin, end);
      const int element = size_of(out.dtype);
      for (const Call& other : group_->calls) {
        if (other.out.data == out.data || begin == end) continue;
        std::memcpy(other.out.data + begin * element, out.data + begin * element,
                    static_cast<std::size_t>((end - begin) * element));
      }
    });
  }
  void reduce_scatter(const Tensor& partial, const Tensor& out) override {
    call({"reduce_scatter", partial, out}, Shapes::kEqual, [&] {
      GLINT_CHECK(partial.dim(0) == size() * out.dim(0), "reduce_scatter: the rows do not divide");
      std::vector<Tensor> parts;
      for (const Tensor& part : inputs()) {
        parts.push_back(part.slice(0, rank_ * out.dim(0), out.dim(0)));
      }
      add_parts(parts, out, 0, out.size());
    });
  }
  void all_gather(const Tensor& mine, const Tensor& all) override {
    call({"all_gather", mine, all}, Shapes::kEqual, [&] {
      GLINT_CHECK(all.dim(0) == size() * mine.dim(0), "all_gather: too few rows for all");
      for (int r = 0; r < size(); ++r) {
        if (mine.size() == 0) break;
        std::memcpy(all.slice(0, r * mine.dim(0), mine.dim(0)).data, group_->calls[r].in.data,
                    mine.bytes().size());
      }
    });
  }
  void broadcast(const Tensor& x, int root) override {
    call({"broadcast", x}, Shapes::kEqual, [&] {
      if (rank_ == root || x.size() == 0) return;
      std::memcpy(x.data, group_->calls[root].in.data, x.bytes().size());
    });
  }
  void exchange(const ExchangeArgs& args) override {
    call({"exchange", args.x, args.out, args.rows}, Shapes::kRows,
         [&] { args.backwards ? bring_back(args) : deal_out(args); });
  }
  void send(const Tensor& x, int to) override { letter(to, rank_).put(x); }
  void recv(const Tensor& x, int from) override { letter(rank_, from).take(x); }
  void barrier() override {
    call({"barrier"}, Shapes::kEqual, [] {});
  }

 private:
  // Ranks' inputs have equal shapes, or may differ in the number of rows.
  enum class Shapes { kEqual, kRows };

  // Runs `work` between the moment when everybody has come and that when everybody is done.
  template <class Work>
  void call(const Call& mine, Shapes shapes, Work work) {
    group_->calls[static_cast<std::size_t>(rank_)] = mine;
    group_->meeting.arrive_and_wait();
    const Call& first = group_->calls[0];
    const auto row = [](const Tensor& x) { return x.rank > 1 ? x.dim(1) : 1; };
    GLINT_CHECK(std::strcmp(first.name, mine.name) == 0 && first.in.dtype == mine.in.dtype &&
                    (shapes == Shapes::kEqual ? first.in.shape == mine.in.shape
                                              : row(first.in) == row(mine.in)),
                str("rank 0 calls ", first.name, " of ", first.in.describe(), ", rank ", rank_,
                    " calls ", mine.name, " of ", mine.in.describe()));
    work();
    group_->meeting.arrive_and_wait();
  }

  std::vector<Tensor> inputs() const {
    std::vector<Tensor> parts;
    for (const Call& call : group_->calls) parts.push_back(call.in);
    return parts;
  }
  Letter& letter(int to, int from) const { return group_->letters[to * size() + from]; }

  void deal_out(const ExchangeArgs& args) const {
    std::int64_t at = 0;
    for (int s = 0; s < size(); ++s) {
      const std::int32_t* const offsets = args.offsets.row<std::int32_t>(s);
      const std::int64_t begin = offsets[args.first[rank_]];
      const std::int64_t count = offsets[args.first[rank_ + 1]] - begin;
      GLINT_CHECK(at + count <= args.out.dim(0), "exchange: more rows than `out` has");
      copy_rows(group_->calls[s].in, group_->calls[s].rows, begin, args.out, at, count);
      at += count;
    }
  }
  // Rank r has what it got from this rank behind what it got from the ranks before.
  void bring_back(const ExchangeArgs& args) const {
    const std::int32_t* const mine = args.offsets.row<std::int32_t>(rank_);
    for (int r = 0; r < size(); ++r) {
      std::int64_t behind = 0;
      for (int s = 0; s < rank_; ++s) {
        const std::int32_t* const offsets = args.offsets.row<std::int32_t>(s);
        behind += offsets[args.first[r + 1]] - offsets[args.first[r]];
      }
      const std::int64_t begin = mine[args.first[r]], count = mine[args.first[r + 1]] - begin;
      GLINT_CHECK(begin + count <= args.out.dim(0), "exchange: more rows than `out` has");
      copy_rows(group_->calls[r].in, group_->calls[r].rows, behind, args.out, begin, count);
    }
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Comm>> make_thread_comms(int size) {
  GLINT_CHECK(size >= 1, "a group has at least one rank");
  const auto group = std::make_shared<Group>(size);
  std::vector<std::unique_ptr<Comm>> comms;
  for (int r = 0; r < size; ++r) comms.push_back(std::make_unique<ThreadComm>(group, r));
  return comms;
}

}  // namespace glint
