#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/ceil_div.h"
#include "base/file_beside.h"
#include "base/owned_fd.h"
#include "base/str.h"
#include "base/system_error.h"

namespace glint {
namespace {

// For a file that is read: `code` says what its lack means.
Error read_error(ErrorCode code, const std::string& doing, const std::string& path) {
  return Error{code, system_error(doing, path, errno).message};
}

// "No such file" would not be true of a link that is there.
Error open_error(const std::string& path) {
  const int why = errno;
  std::array<char, 4096> target;
  const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (why == ENOENT && size > 0) {
    return not_found(str("cannot open ", path, ": it is a link to ",
                         std::string_view(target.data(), static_cast<std::size_t>(size)),
                         ", which is not there"));
  }
  errno = why;
  return read_error(ErrorCode::kNotFound, "cannot open", path);
}

const char* kind_of(const struct stat& info) {
  return S_ISDIR(info.st_mode) ? "a directory" : "not a regular file";
}

Result<std::size_t> regular_size(int fd, const std::string& path) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return read_error(ErrorCode::kNotFound, "cannot stat", path);
  if (!S_ISREG(info.st_mode)) {
    return not_found(str(path, " is ", kind_of(info), "; a file is expected"));
  }
  return static_cast<std::size_t>(info.st_size);
}

// `contents`: what `path` begins with.
Status refuse_lfs_pointer(const std::string& path, std::string_view contents) {
  if (!contents.starts_with("version https://git-lfs.github.com/spec/")) return Ok{};
  return not_found(path + " is a git-lfs pointer, not the file: run \"git lfs pull\" beside it");
}

// For all pages that `bytes` touch.
void advise(std::span<const std::byte> bytes, int advice) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = begin / page * page;
  ::madvise(reinterpret_cast<void*>(first), begin + bytes.size() - first, advice);
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not hang; it has no meaning for regular files.
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return open_error(path);
  GLINT_TRY(const std::size_t size, regular_size(file.get(), path));
  MappedFile mapped;
  mapped.path_ = path;
  mapped.size_ = size;
  if (size == 0) return mapped;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) {
    mapped.size_ = 0;
    return read_error(ErrorCode::kResourceExhausted, "cannot map", path);
  }
  mapped.data_ = static_cast<const std::byte*>(data);
  GLINT_TRY_STATUS(
      refuse_lfs_pointer(path, {static_cast<const char*>(data), std::min<std::size_t>(size, 64)}));
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::swap(MappedFile& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return open_error(path);
  GLINT_TRY(const std::size_t size, regular_size(file.get(), path));
  if (size > max_bytes) {
    return invalid(str(path, " holds ", size, " bytes, more than the ", max_bytes, " allowed"));
  }
  // The kernel's own files (/proc) say that they are empty, and are not.
  std::string contents(size > 0 ? size : std::min<std::size_t>(max_bytes, 4096), '\0');
  std::size_t have = 0;
  while (have < contents.size()) {
    const ssize_t n = ::read(file.get(), contents.data() + have, contents.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("cannot read", path, errno);
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
    if (size == 0 && have == contents.size()) contents.resize(std::min(max_bytes, 2 * have));
  }
  if (size == 0 && have > 0 && have == max_bytes)
    return invalid(str(path, " holds at least the ", max_bytes, " bytes allowed"));
  contents.resize(have);
  GLINT_TRY_STATUS(refuse_lfs_pointer(path, contents));
  return contents;
}

Result<std::string> find_replaceable(const std::string& path) {
  struct stat info = {};
  if (path.empty()) return invalid("the file to write has no name");
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return invalid(str("cannot write ", path, ": it is ", kind_of(info)));
  std::string file = path;
  if (is_present(path) || errno == ENAMETOOLONG) {
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                           &std::free);
    if (!real) return system_error("cannot write", path, errno);
    file = real.get();
  }
  const std::size_t slash = file.rfind('/');
  const std::string folder = slash == file.npos ? "." : file.substr(0, slash + 1);
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return file;
  return system_error("cannot write", path, errno);
}

Status write_file_atomic(const std::string& name, std::string_view contents) {
  GLINT_TRY(const std::string path, find_replaceable(name));
  GLINT_TRY(const FileBeside created, create_beside(path));
  const std::string& beside = created.path;
  const auto fail = [&](const std::string& doing, const std::string& what) {
    const Error error = system_error(doing, what, errno);
    ::unlink(beside.c_str());
    return error;
  };
  while (!contents.empty()) {
    const ssize_t n = ::write(created.file.get(), contents.data(), contents.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail("cannot write", beside);
    contents.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::fsync(created.file.get()) != 0) return fail("cannot sync", beside);
  if (::rename(beside.c_str(), path.c_str()) != 0) return fail("cannot rename to", path);
  return Ok{};
}

void discard_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = round_up(begin, page), last = (begin + bytes.size()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

void prefetch_pages(std::span<const std::byte> bytes) { advise(bytes, MADV_WILLNEED); }

void read_pages(std::span<const std::byte> bytes) {
  // Where file systems cache in huge pages, they are mapped as such too.
  advise(bytes, MADV_HUGEPAGE);
  advise(bytes, MADV_POPULATE_READ);
}

bool is_cached(std::span<const std::byte> bytes) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  unsigned char is_resident = 0;
  ::mincore(reinterpret_cast<void*>(first), page, &is_resident);
  return is_resident & 1;
}

void uncache_pages(std::span<const std::byte> bytes) { advise(bytes, MADV_PAGEOUT); }

bool file_exists(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_present(const std::string& path) {
  struct stat info = {};
  // Nothing has a name that is too long.
  return ::lstat(path.c_str(), &info) == 0 ||
         (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG);
}

bool is_directory(const std::string& path) {
  struct stat info = {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace glint
