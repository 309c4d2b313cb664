// Files: memory maps, whole reads, and writes that are never half done.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

// A read-only map of a whole file. The bytes live as long as the object; moving keeps their
// address.
class MappedFile {
 public:
  // Fails with kNotFound if there is no regular file that can be opened, or if git-lfs left a
  // pointer in its place.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  void swap(MappedFile& other) noexcept;

  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The whole file as bytes. Refuses files over `max_bytes` before reading them, and what
// MappedFile::open() refuses.
Result<std::string> read_file(const std::string& path,
                              std::size_t max_bytes = std::size_t{1} << 30);

// For those who write beside a file and rename, before they begin: the file that `path` names,
// links followed, so that it is replaced and not a link. Fails if a file may not take the place of
// what is there (a directory, a device), or if nothing may be written beside it.
Result<std::string> find_replaceable(const std::string& path);

// Writes beside `path` (base/file_beside.h), syncs and renames, so that `path` holds the old or the
// new contents, never a part; where `path` is a link, it stays one.
Status write_file_atomic(const std::string& path, std::string_view contents);

// Gives the memory of whole pages inside `bytes` back to the kernel: they are not needed any more.
// Mapped files read the same afterwards; other memory reads as zeros.
void discard_pages(std::span<const std::byte> bytes);

// Asks the kernel to read the pages of `bytes`, part of a mapped file, before they are used: for a
// few here and there, because it reads them one by one, and they split the reads around them.
void prefetch_pages(std::span<const std::byte> bytes);

// Reads the pages of `bytes`, part of a mapped file that is read from front to back, and waits for
// them: in reads of megabytes, whatever the disk's read-ahead is set to. What cannot be read is
// left out.
void read_pages(std::span<const std::byte> bytes);

// Whether the page of the first of `bytes`, part of a mapped file, is in the page cache.
bool is_cached(std::span<const std::byte> bytes);

// Asks the kernel to drop the pages of `bytes`, part of a mapped file, from the page cache, unless
// others use them: those that were read here and there before the whole file is.
void uncache_pages(std::span<const std::byte> bytes);

bool file_exists(const std::string& path);
// Whether anything has this name, even a link to nothing: opening it then says what is wrong.
bool is_present(const std::string& path);
bool is_directory(const std::string& path);

}  // namespace glint
