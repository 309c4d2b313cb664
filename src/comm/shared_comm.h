// Ranks of one host, whose tensors lie in host memory: threads of a process, or processes that map
// the same memory. What they tell each other is copied there, in pieces, and every rank adds up for
// itself.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "comm/comm.h"
#include "comm/counting_comm.h"

namespace glint {

// The memory through which a group of ranks talks. As all zeros, it is that of a group that has not
// begun.
class SharedGroup {
 public:
  // Bytes of a group's memory, whole pages; what nothing was written to takes none.
  static std::size_t bytes_for(int size);
  // Over bytes_for(size) of file `fd` from `begin` on, which all ranks map; without a file, over
  // memory of this process, for ranks that are its threads.
  static Result<SharedGroup> map(int size, int fd, std::size_t begin = 0);

  int size() const { return size_; }
  // A rank's, for CountingComm: all who have the memory see it.
  CommCounters& counters(int rank) const;

  // A rank is gone: from now on no call of the group waits, and what calls write is zeros.
  void end() const;
  bool ended() const;
  // A group that has not begun, with the counts of the one before, over another file. Nobody of
  // this process may be in a call; processes of before keep the memory of before.
  Status begin_again(int fd, std::size_t begin = 0) const;

 private:
  friend class SharedComm;
  struct Header;
  struct Rank;
  struct Mailbox;
  SharedGroup(std::shared_ptr<std::byte> memory, int size)
      : memory_(std::move(memory)), size_(size) {}
  Header& header() const;
  Rank& rank(int r) const;
  std::byte* piece(std::uint32_t turn, int rank) const;
  Mailbox& mailbox(int to, int from) const;

  std::shared_ptr<std::byte> memory_;
  int size_;
};

// A member of the group, used by one thread. A call that differs from the others' aborts and names
// both.
std::unique_ptr<Comm> make_shared_comm(const SharedGroup& group, int rank);

// A group of `size` ranks as threads of this process. It lives as long as its last member.
std::vector<std::unique_ptr<Comm>> make_thread_comms(int size);

}  // namespace glint
