#include "tensor/staging.h"

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "base/thread_pool.h"

namespace glint {

Staging::Staging(Device& device, ThreadPool& threads, std::size_t buffer_bytes)
    : device_(device), threads_(threads) {
  for (Half& half : halves_) half.memory = device.allocate_pinned(buffer_bytes);
}

Staging::~Staging() { device_.wait(device_.record()); }

void Staging::copy(void* to, const void* from, std::size_t bytes) {
  const std::size_t size = halves_[1].memory.bytes();
  if (size == 0) return device_.copy_in(to, from, bytes);
  constexpr std::size_t kAlign = 256;
  auto* target = static_cast<std::byte*>(to);
  auto* source = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    if (used_ >= size) {
      halves_[half_].sent = device_.record();
      half_ = 1 - half_, used_ = 0;
      device_.wait(halves_[half_].sent);
    }
    const std::size_t count = std::min(bytes, size - used_);
    std::byte* const pinned = halves_[half_].memory.data() + used_;
    fill(pinned, source, count);
    device_.copy(target, pinned, count);
    used_ += round_up(count, kAlign);
    target += count, source += count, bytes -= count;
  }
}

void Staging::fill(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  const auto pieces = static_cast<std::int64_t>(ceil_div(bytes, kPiece));
  if (pieces <= 1) {
    std::memcpy(to, from, bytes);
    return;
  }
  threads_.run_dynamic(pieces, [&](std::int64_t piece, int) {
    const std::size_t begin = static_cast<std::size_t>(piece) * kPiece;
    std::memcpy(to + begin, from + begin, std::min(kPiece, bytes - begin));
  });
}

}  // namespace glint
