#include "base/read_ahead.h"

#include <algorithm>
#include <utility>

namespace glint {

ReadAhead::ReadAhead(std::span<const Bytes> parts, std::size_t window,
                     std::function<void(Bytes)> read)
    : pieces_(pieces_of(parts)),
      window_(std::max(window, kPiece)),
      read_(std::move(read)),
      thread_([this] { work(); }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ReadAhead::used(std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    used_ += bytes;
  }
  changed_.notify_one();
}

std::vector<ReadAhead::Piece> ReadAhead::pieces_of(std::span<const Bytes> parts) {
  std::vector<Piece> pieces;
  const std::byte* end = nullptr;  // of the part before
  std::size_t at = 0;
  for (const Bytes& part : parts) {
    // A gap up to kGap is read too: a page that is left out makes two reads of one.
    const std::byte* next = part.data();
    if (end && end <= next && static_cast<std::size_t>(next - end) <= kGap) next = end;
    end = part.data() + part.size();
    while (next != end) {
      const bool goes_on = !pieces.empty() && pieces.back().bytes.size() < kPiece &&
                           pieces.back().bytes.data() + pieces.back().bytes.size() == next;
      if (!goes_on) pieces.push_back({.bytes = {next, 0}, .end = at});
      Piece& piece = pieces.back();
      const auto size = std::min(static_cast<std::size_t>(end - next), kPiece - piece.bytes.size());
      piece.bytes = {piece.bytes.data(), piece.bytes.size() + size};
      next += size;
      if (next > part.data()) piece.end = at + static_cast<std::size_t>(next - part.data());
    }
    at += part.size();
  }
  return pieces;
}

void ReadAhead::work() {
  for (const Piece& piece : pieces_) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || piece.end <= used_ + window_; });
      if (stop_) return;
      if (piece.end <= used_) continue;
    }
    read_(piece.bytes);
  }
}

}  // namespace glint
