// XXH3 with 128 bits, as xxh128sum prints it: against accidents, not against people.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  std::string hex() const;  // 32 digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Hash of a file's contents, read once and not kept in memory. `done` gets the bytes just read.
Result<std::string> hash_file(const std::string& path,
                              const std::function<void(std::int64_t bytes)>& done = {});

}  // namespace glint
