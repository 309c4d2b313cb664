#include "text/tokenizer/tokenizer_vocab.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace glint {
namespace {

template <class Word>
std::uint64_t load(const char* bytes) {
  Word value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// One to eight bytes, without a loop; texts of one size stay different.
std::uint64_t load_short(const char* bytes, std::size_t size) {
  if (size >= 4) {
    return load<std::uint32_t>(bytes) | load<std::uint32_t>(bytes + size - 4) << 32;
  }
  const auto byte = [&](std::size_t i) {
    return std::uint64_t{static_cast<unsigned char>(bytes[i])};
  };
  return size == 0 ? 0 : byte(0) | byte(size / 2) << 8 | byte(size - 1) << 16;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Multiply and fold, eight bytes at a time (the construction of wyhash).
std::uint32_t hash_text(std::string_view text, std::uint64_t seed) {
  constexpr std::uint64_t kA = 0xA0761D6478BD642F, kB = 0xE7037ED1A0B428DB;
  std::uint64_t hash = mix(kA ^ seed, kB) ^ text.size();
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left > 8; left -= 8, at += 8) hash = mix(hash ^ load<std::uint64_t>(at), kB);
  hash = mix(hash ^ load_short(at, left), kB);
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

}  // namespace

void TextTable::reserve(std::size_t num_texts, std::size_t text_bytes) {
  texts_.reserve(text_bytes);
  entries_.reserve(num_texts);
  const std::size_t wanted = std::bit_ceil(2 * num_texts + 2);
  while (slots_.size() < wanted) grow();
}

void TextTable::grow() {
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(std::max<std::size_t>(16, 2 * old.size()), Slot{});
  for (const Slot& slot : old) {
    if (slot.entry < 0) continue;
    std::size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].entry >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
  }
}

bool TextTable::insert(std::string_view text, TokenId id) {
  GLINT_CHECK(texts_.size() + text.size() <= UINT32_MAX, "a table of texts is over 4 GiB");
  if (2 * (entries_.size() + 1) > slots_.size()) grow();
  const std::uint32_t hash = hash_text(text, seed_);
  std::size_t at = hash & (slots_.size() - 1);
  for (; slots_[at].entry >= 0; at = (at + 1) & (slots_.size() - 1)) {
    const Entry& entry = entries_[static_cast<std::size_t>(slots_[at].entry)];
    if (slots_[at].hash == hash && this->text(entry) == text) return false;
  }
  slots_[at] = {hash, static_cast<std::int32_t>(entries_.size())};
  entries_.push_back(
      {static_cast<std::uint32_t>(texts_.size()), static_cast<std::uint32_t>(text.size()), id});
  texts_ += text;
  return true;
}

TokenId TextTable::find(std::string_view text) const {
  if (slots_.empty()) return -1;
  const std::uint32_t hash = hash_text(text, seed_);
  for (std::size_t at = hash & (slots_.size() - 1); slots_[at].entry >= 0;
       at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].hash != hash) continue;
    const Entry& entry = entries_[static_cast<std::size_t>(slots_[at].entry)];
    if (this->text(entry) == text) return entry.id;
  }
  return -1;
}

}  // namespace glint
