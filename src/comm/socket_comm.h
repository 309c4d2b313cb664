// Ranks of several hosts, whose tensors lie in host memory: each is connected to each of the
// others. Sockets move parts, and every rank adds up for itself.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "base/owned_fd.h"
#include "comm/comm.h"

namespace glint {

// A member of the group, used by one thread. A call that differs from another rank's aborts and
// names both.
class SocketComm final : public Comm {
 public:
  // `on_lost` is called once a generation, by the thread that found that `peer` is gone.
  SocketComm(int rank, int size, std::function<void(int peer)> on_lost);

  // A new generation: stream sockets to the others, by rank; that of this rank is none. Nobody may
  // be in a call.
  void connect(std::vector<OwnedFd> peers);
  // A rank is gone: from now on no call waits, and what calls write is zeros. From any thread.
  void end();

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(const Tensor& partial, const Tensor& out) override;
  void reduce_scatter(const Tensor& partial, const Tensor& out) override;
  void all_gather(const Tensor& mine, const Tensor& all) override;
  void broadcast(const Tensor& x, int root) override;
  void exchange(const ExchangeArgs& args) override;
  void send(const Tensor& x, int to) override;
  void recv(const Tensor& x, int from) override;
  void barrier() override;
  const std::atomic<std::uint32_t>* ended() const override { return &ended_; }

 private:
  // In front of what a rank tells another.
  struct Header {
    std::int32_t kind, dtype;
    std::uint64_t call;  // counts those of the pair, in this direction
    std::uint64_t bytes;
    bool operator==(const Header&) const = default;
  };
  struct Letter;
  struct Peer {
    OwnedFd socket;
    std::uint64_t sent = 0, received = 0;
  };

  // A letter to `peer`, whose `bytes` nobody changes meanwhile, and one from it, into `bytes`.
  Letter to(int peer, int kind, DType dtype, std::span<const std::byte> bytes);
  Letter from(int peer, int kind, DType dtype, std::span<std::byte> bytes);
  // Moves all letters at the same time; false if the group has ended.
  bool move(std::span<Letter> letters);
  bool move_some(Letter& letter);
  // `part(rank)` of bytes of this rank go to each other one, and theirs to `place(rank)`.
  template <class Part, class Place>
  bool swap(int kind, DType dtype, Part part, Place place);

  const int rank_, size_;
  const std::function<void(int)> on_lost_;
  std::vector<Peer> peers_;
  std::atomic<std::uint32_t> ended_ = 1;  // not connected yet
};

}  // namespace glint
