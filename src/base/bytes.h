// Values as bytes for another process of this program, one behind the other, and back. Vectors and
// texts lie behind their length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace glint {

// A vector, span or text.
template <class T>
concept ManyValues = std::ranges::contiguous_range<T>;

class ByteWriter {
 public:
  void operator()(const auto&... values) { (put(values), ...); }
  // Values that are no plain memory: `part` writes each.
  template <class T, class Part>
  void each(const std::vector<T>& all, Part&& part) {
    put(static_cast<std::uint64_t>(all.size()));
    for (const T& one : all) part(one);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <class T>
  void put(const T& value) {
    append(&value, 1);
  }
  template <ManyValues T>
  void put(const T& values) {
    put(static_cast<std::uint64_t>(values.size()));
    append(values.data(), values.size());
  }
  template <class T>
  void append(const T* from, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    bytes_.append(reinterpret_cast<const char*>(from), count * sizeof(T));
  }

  std::string bytes_;
};

// Any bytes may come: where they do not have all of a value, it stays empty or as it was, as do
// those that are read after it, and the reader is not whole. No length makes it take more memory
// than there are bytes for.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  void operator()(auto&... values) { (get(values), ...); }
  template <class T, class Part>
  void each(std::vector<T>& all, Part&& part) {
    std::uint64_t count = 0;
    for (get(count); count > 0 && ok_; --count) part(all.emplace_back());
  }
  bool has_more() const { return ok_ && !left_.empty(); }
  // Every value was there, and no more is.
  bool is_whole() const { return ok_ && left_.empty(); }

 private:
  template <class T>
  void get(T& value) {
    copy(&value, 1);
  }
  template <ManyValues T>
  void get(T& values) {
    std::uint64_t count = 0;
    get(count);
    ok_ = ok_ && count <= left_.size() / sizeof(*values.data());
    values.resize(ok_ ? static_cast<std::size_t>(count) : 0);
    copy(values.data(), values.size());
  }
  template <class T>
  void copy(T* to, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    ok_ = ok_ && count <= left_.size() / sizeof(T);
    if (!ok_ || count == 0) return;
    std::memcpy(to, left_.data(), count * sizeof(T));
    left_.remove_prefix(count * sizeof(T));
  }

  std::string_view left_;
  bool ok_ = true;
};

}  // namespace glint
