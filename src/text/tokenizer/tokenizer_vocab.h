// A vocabulary: texts and their ids, both ways, in three flat arrays. Built for lookups of short
// texts: one probe of a table of (hash, id), then one comparison.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace glint {

class TextTable {
 public:
  // Room for `num_texts` texts of `text_bytes` bytes together.
  void reserve(std::size_t num_texts, std::size_t text_bytes);

  // False if the text is there already; then nothing changes.
  bool insert(std::string_view text, TokenId id);

  // The id of `text`, or -1.
  TokenId find(std::string_view text) const;

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint32_t begin, size;
    TokenId id;
  };
  struct Slot {
    std::uint32_t hash;
    std::int32_t entry = -1;
  };

  void grow();
  std::string_view text(const Entry& entry) const {
    return std::string_view(texts_).substr(entry.begin, entry.size);
  }

  // Drawn anew for each table: clients choose words and must not be able to choose collisions.
  std::uint64_t seed_ = std::random_device{}();
  std::string texts_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace glint
