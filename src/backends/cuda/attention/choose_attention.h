// Which kernels select keys and attend to them, as pure functions of shapes and devices. On a
// device every choice gives a row the same bits: it is about time, and about shared memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cuda/arch.h"

namespace glint::cuda {

namespace mla512 {

// Sizes of sparse_mla_512.cuh: of the model; of a thread block; and the order of sums.
inline constexpr int kLatent = 512, kRope = 64, kWidth = kLatent + kRope;
inline constexpr int kHeads = 8, kKeys = 32;
inline constexpr int kSegment = 256, kMostParts = 8;
inline constexpr int kMostKeys = kMostParts * kSegment;
constexpr int most_parts(const Arch& arch) { return arch.clusters ? kMostParts : 1; }

// Warps of the scores: 16 keys and a quarter of the width each.
inline constexpr int kQuarters = 4;
inline constexpr int kRow = kWidth + 8;  // bf16 of a row in shared memory: padded against conflicts
inline constexpr int kFp8Row = 656;      // bytes in the cache

struct Shape {
  std::int64_t tokens = 0, heads = 0, k = 0;
  bool fp8 = false;
};

enum class Way : std::uint8_t {
  kCluster,    // a cluster for each token and kHeads heads
  kOneBlock,   // a thread block for each
  kFewTokens,  // scores by many thread blocks, then sums by a cluster for each slice
};
struct Kernel {
  Way way = Way::kCluster;
  int stages = 2, parts = 1;  // of a thread block of kCluster
  bool operator==(const Kernel&) const = default;
};

// At least the shared memory of a cluster's thread block.
constexpr std::int64_t shared_bytes(bool fp8, int stages, int parts) {
  const std::int64_t keys = std::int64_t{kKeys} * (fp8 ? kFp8Row : kRow * 2);
  const std::int64_t decoded = fp8 ? kKeys * kRow * 2 : 128;
  const std::int64_t scores = kQuarters * kKeys * (kHeads + 1) * 4 + kHeads * (kKeys + 8) * 2;
  const std::int64_t sums = std::int64_t{parts - 1} * kHeads * kLatent * 4;
  const std::int64_t others = kHeads * (4 * kMostParts + 2) * 4 + 256;  // all parts, and gaps
  return stages * (keys + 8) + decoded + scores + sums + parts * (kSegment + 2 * kHeads) * 4 +
         others;
}

Kernel choose_kernel(const Shape& shape, const Arch& arch, int num_sms);

}  // namespace mla512

namespace top_keys {

// The most thread blocks of a cluster, and the keys of one whose values are in its shared memory.
constexpr int most_blocks(const Arch& arch) { return arch.clusters ? 8 : 1; }
inline constexpr std::int64_t kOthers = 8 << 10;  // bytes: counts, and pages of keys
constexpr std::int64_t keys_of_block(const Arch& arch) {
  return std::min<std::int64_t>(48 << 10, (arch.shared_bytes - kOthers) / 4);
}

struct Kernel {
  int blocks = 1;             // of a token's cluster
  std::int64_t capacity = 0;  // keys of one; 0: it reads them again from where their scores are
  bool operator==(const Kernel&) const = default;
};

// For tokens that see at most `keys` keys.
Kernel choose_kernel(std::int64_t tokens, std::int64_t keys, const Arch& arch, int num_sms);

}  // namespace top_keys

}  // namespace glint::cuda
