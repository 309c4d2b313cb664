// ReadAhead: a thread that reads mapped files in the order in which they will be used, so that the
// disk is busy while the users compute. A part that a user reaches first is read by its page
// faults.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/file.h"

namespace glint {

class ReadAhead {
 public:
  using Bytes = std::span<const std::byte>;
  static constexpr std::size_t kPiece = std::size_t{8} << 20;  // read at a time
  static constexpr std::size_t kGap = std::size_t{64} << 10;   // read along, between two parts

  // `parts` in the order of their use, which should be that of their addresses; they must outlive
  // the object. Never more than `window` bytes of them have been read and not been used.
  ReadAhead(std::span<const Bytes> parts, std::size_t window,
            std::function<void(Bytes)> read = read_pages);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The next `bytes` of the parts have been used; what of them was not read yet never will be.
  void used(std::size_t bytes);

 private:
  struct Piece {
    Bytes bytes;
    std::size_t end = 0;  // how much of the parts has been used when all of it has
  };
  static std::vector<Piece> pieces_of(std::span<const Bytes> parts);
  void work();

  const std::vector<Piece> pieces_;
  const std::size_t window_;
  const std::function<void(Bytes)> read_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t used_ = 0;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace glint
