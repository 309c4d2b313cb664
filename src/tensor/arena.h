// Arena: the memory of a step's temporaries. Taking is a pointer bump; a Scope gives everything
// taken inside it back.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "tensor/device.h"
#include "tensor/tensor.h"

namespace glint {

// Grows in chunks and never moves what it handed out, so that after the first step of the largest
// size nothing is allocated any more. Not thread-safe. Aborts when the device has no memory left:
// sizes were planned before.
class Arena {
 public:
  explicit Arena(Device& device) : device_(device) {}

  // An uninitialised dense tensor, aligned to 256 bytes, valid until the enclosing Scope ends.
  Tensor take(DType dtype, std::initializer_list<std::int64_t> dims);
  // A tensor whose rows matrix products read side by side: rows (of the first dim) lie the device's
  // row_pitch() apart.
  Tensor take_padded(DType dtype, std::initializer_list<std::int64_t> dims);

  // How far it is taken.
  struct Mark {
    std::size_t chunk = 0, used = 0, taken = 0;
  };
  Mark mark() const { return {chunk_, used_, taken_}; }
  // Back to there; or forward: what lay up to there is taken once more.
  void go_to(const Mark& mark) { chunk_ = mark.chunk, used_ = mark.used, taken_ = mark.taken; }

  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), begin_(arena.mark()) {}
    ~Scope() {
      if (!arena_.retains_) arena_.go_to(begin_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    const Mark begin_;
  };

  // While it lives, scopes inside it give nothing back when they end: what a layer took stays for
  // its backward pass. Its own end gives everything back that was taken since it began.
  class Retain {
   public:
    explicit Retain(Arena& arena) : scope_(arena), arena_(arena), before_(arena.retains_) {
      arena.retains_ = true;
    }
    ~Retain() { arena_.retains_ = before_; }  // and then scope_ ends
    Retain(const Retain&) = delete;
    Retain& operator=(const Retain&) = delete;

   private:
    Scope scope_;
    Arena& arena_;
    bool before_;
  };

  // Makes room for `bytes` in one stretch while no tensor is taken. False: the device has no such
  // memory.
  bool reserve(std::size_t bytes);

  // The stretches of memory that tensors are taken from.
  std::span<const Buffer> chunks() const { return chunks_; }
  std::size_t bytes_held() const;
  // Most bytes that were taken at the same time.
  std::size_t high_water() const { return high_water_; }
  Device& device() const { return device_; }

 private:
  Device& device_;
  std::vector<Buffer> chunks_;
  std::size_t chunk_ = 0;  // the chunk being filled; chunks before it are full
  std::size_t used_ = 0;   // bytes of it
  std::size_t taken_ = 0;  // bytes of living tensors
  std::size_t high_water_ = 0;
  bool retains_ = false;
};

}  // namespace glint
