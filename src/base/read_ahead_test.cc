#include "base/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace glint {
namespace {

using Bytes = ReadAhead::Bytes;

constexpr std::size_t kPiece = ReadAhead::kPiece, kGap = ReadAhead::kGap;

// Addresses, whose bytes nobody touches.
class Memory {
 public:
  explicit Memory(std::size_t size) : bytes_(new std::byte[size]) {}
  Bytes at(std::size_t offset, std::size_t size) const { return {bytes_.get() + offset, size}; }
  std::size_t offset_of(Bytes bytes) const {
    return static_cast<std::size_t>(bytes.data() - bytes_.get());
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

// How often each unit of 1 KiB was read.
class Reads {
 public:
  Reads(const Memory& memory, std::size_t size) : memory_(memory), counts_(size / kUnit) {}
  void add(Bytes bytes) {
    const std::size_t first = memory_.offset_of(bytes) / kUnit;
    for (std::size_t i = 0; i < bytes.size() / kUnit; ++i) ++counts_[first + i];
  }
  int count(std::size_t offset) const { return counts_[offset / kUnit]; }

  static constexpr std::size_t kUnit = 1024;

 private:
  const Memory& memory_;
  std::vector<int> counts_;
};

constexpr std::size_t kMemory = 8 * kPiece;

// Neighbours, a small gap, a large one, parts that are longer than a piece, and an empty one.
std::vector<Bytes> some_parts(const Memory& memory) {
  constexpr std::size_t kLong = 2 * kPiece + 3 * Reads::kUnit;
  std::vector<Bytes> parts = {memory.at(0, 5 * Reads::kUnit)};
  std::size_t at = 5 * Reads::kUnit;
  parts.push_back(memory.at(at, kLong)), at += kLong + kGap;
  parts.push_back(memory.at(at, Reads::kUnit)), at += Reads::kUnit + kGap + Reads::kUnit;
  parts.push_back(memory.at(at, kLong)), at += kLong;
  parts.push_back(memory.at(at, 0)), at += kPiece;
  parts.push_back(memory.at(at, kPiece));
  return parts;
}

std::size_t size_of(const std::vector<Bytes>& parts) {
  std::size_t size = 0;
  for (const Bytes& part : parts) size += part.size();
  return size;
}

TEST(ReadAhead, every_part_is_read_once_and_little_else) {
  const Memory memory(kMemory);
  const std::vector<Bytes> parts = some_parts(memory);
  Reads reads(memory, kMemory), wanted(memory, kMemory);
  for (const Bytes& part : parts) wanted.add(part);
  const std::size_t with_small_gap = size_of(parts) + kGap;
  std::atomic<std::size_t> total = 0;
  std::size_t begin = 0;
  {
    ReadAhead reader(parts, kMemory, [&](Bytes bytes) {
      EXPECT_LE(bytes.size(), kPiece);
      EXPECT_GE(memory.offset_of(bytes), begin);  // from front to back
      begin = memory.offset_of(bytes) + bytes.size();
      reads.add(bytes);
      total += bytes.size();
    });
    while (total < with_small_gap) std::this_thread::yield();
  }
  for (std::size_t at = 0; at < kMemory; at += Reads::kUnit) {
    ASSERT_LE(reads.count(at), 1) << at;
    ASSERT_GE(reads.count(at), wanted.count(at)) << at;
  }
  EXPECT_EQ(total, with_small_gap);
}

TEST(ReadAhead, what_is_read_and_not_used_stays_within_the_window) {
  const Memory memory(kMemory);
  const std::vector<Bytes> parts = {memory.at(0, 5 * kPiece), memory.at(6 * kPiece, 2 * kPiece)};
  constexpr std::size_t kWindow = 2 * kPiece + kPiece / 2, kStep = kPiece / 4;
  std::atomic<std::size_t> read = 0, used = 0;
  ReadAhead reader(parts, kWindow, [&](Bytes bytes) {
    EXPECT_LE(read + bytes.size(), used + kWindow);
    read += bytes.size();
  });
  const std::size_t total = size_of(parts);
  while (used < total) {
    // It goes as far as it may, and waits there.
    const std::size_t may = std::min(total, (used + kWindow) / kPiece * kPiece);
    while (read < may) std::this_thread::yield();
    EXPECT_EQ(read, may);
    used += kStep;
    reader.used(kStep);
  }
  EXPECT_EQ(read, total);
}

TEST(ReadAhead, what_was_used_before_its_turn_is_left_out) {
  const Memory memory(kMemory);
  const std::vector<Bytes> parts = {memory.at(0, 6 * kPiece)};
  std::atomic<int> pieces = 0;
  std::atomic<bool> may_go_on = false;
  std::vector<std::size_t> begins;
  {
    ReadAhead reader(parts, kMemory, [&](Bytes bytes) {
      begins.push_back(memory.offset_of(bytes) / kPiece);
      ++pieces;
      while (!may_go_on) std::this_thread::yield();
    });
    while (pieces < 1) std::this_thread::yield();
    reader.used(5 * kPiece);
    may_go_on = true;
    while (pieces < 2) std::this_thread::yield();
  }
  EXPECT_EQ(begins, (std::vector<std::size_t>{0, 5}));
}

TEST(ReadAhead, it_can_end_while_it_waits) {
  const Memory memory(kMemory);
  const std::vector<Bytes> parts = {memory.at(0, kMemory)};
  std::atomic<int> pieces = 0;
  {
    ReadAhead reader(parts, 0, [&](Bytes) { ++pieces; });  // a window of a piece
    while (pieces < 1) std::this_thread::yield();
  }
  EXPECT_EQ(pieces, 1);
  const ReadAhead none({}, kPiece, [&](Bytes) { ++pieces; });
  EXPECT_EQ(pieces, 1);
}

}  // namespace
}  // namespace glint
