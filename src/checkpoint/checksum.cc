#include "checkpoint/checksum.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "base/str.h"
#include "base/thread_pool.h"

namespace glint {
namespace {

constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15;

// One to one in `hash` for each word: a single one that differs always shows.
std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * kPrime;
  return hash ^ hash >> 32;
}

std::uint64_t hash_of(const StoredTensor& tensor) {
  std::uint64_t hash = fnv1a(str(tensor.name, " ", tensor.describe()));
  std::span<const std::byte> rest = tensor.bytes;
  while (!rest.empty()) {
    std::uint64_t word = 0;
    const std::size_t size = std::min(sizeof(word), rest.size());
    std::memcpy(&word, rest.data(), size);
    hash = mixed(hash, word);
    rest = rest.subspan(size);
  }
  return hash;
}

}  // namespace

std::string checksum_of(const TensorSource& source, ThreadPool& pool) {
  const std::span<const StoredTensor> tensors = source.tensors();
  std::vector<std::uint64_t> hashes(tensors.size());
  pool.run(std::ssize(tensors), [&](std::int64_t i, int) {
    hashes[static_cast<std::size_t>(i)] = hash_of(tensors[static_cast<std::size_t>(i)]);
  });
  // The order is that of files.
  std::ranges::sort(hashes);
  std::uint64_t all = 0;
  for (const std::uint64_t hash : hashes) all = mixed(all, hash);
  return hex_of(all);
}

}  // namespace glint
