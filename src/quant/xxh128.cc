#include "quant/xxh128.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "base/file.h"

namespace glint {

struct Hasher::State {
  XXH3_state_t xxh3;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh3); }
Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::string Hasher::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->xxh3));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

Result<std::string> hash_file(const std::string& path,
                              const std::function<void(std::int64_t bytes)>& done) {
  constexpr std::size_t kPart = std::size_t{16} << 20;
  GLINT_TRY(const MappedFile file, MappedFile::open(path));
  Hasher hasher;
  for (std::size_t at = 0; at < file.bytes().size(); at += kPart) {
    const auto part = file.bytes().subspan(at, std::min(kPart, file.bytes().size() - at));
    hasher.add(part);
    discard_pages(part);
    if (done) done(std::ssize(part));
  }
  return hasher.hex();
}

}  // namespace glint
