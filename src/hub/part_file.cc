#include "hub/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "base/str.h"

namespace glint {
namespace {

constexpr std::int64_t kMagic = 0x3153545241504c47;  // "GLPARTS1"
constexpr std::size_t kHeadWords = 3;                // magic, size, bytes of a part

std::string record_of(const std::string& path) {
  constexpr std::string_view kSuffix = ".incomplete";
  return path.substr(0, path.size() - (path.ends_with(kSuffix) ? kSuffix.size() : 0)) + ".parts";
}

std::size_t parts_of(std::int64_t size, std::int64_t part_bytes) {
  return static_cast<std::size_t>(size / part_bytes + (size % part_bytes != 0));
}

}  // namespace

Error PartFile::failed(const char* doing) const {
  return invalid(str("cannot ", doing, " ", quoted_path(path_), ": ", std::strerror(errno)));
}

Result<PartFile> PartFile::open(const std::string& path, std::int64_t size,
                                std::int64_t part_bytes) {
  PartFile out;
  out.path_ = path;
  out.size_ = size;
  out.part_bytes_ = part_bytes;
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  out.file_ = OwnedFd(::open(path.c_str(), kFlags, 0644));
  if (!out.file_) return out.failed("write");
  out.record_ = OwnedFd(::open(record_of(path).c_str(), kFlags, 0644));
  if (!out.record_) return out.failed("write the parts of");
  if (!out.read_record()) GLINT_TRY_STATUS(out.restart(false));
  return out;
}

std::int64_t PartFile::bytes_in(const std::string& path, std::int64_t size) {
  PartFile file;
  file.size_ = size;
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW;
  file.file_ = OwnedFd(::open(path.c_str(), kFlags));
  file.record_ = OwnedFd(::open(record_of(path).c_str(), kFlags));
  return file.read_record() ? file.bytes_done() : 0;
}

// Takes the parts of a record that is there, and of this file.
bool PartFile::read_record() {
  std::array<std::int64_t, kHeadWords> head = {};
  struct stat file = {}, record = {};
  if (fstat(file_.get(), &file) != 0 || file.st_size != size_ ||
      fstat(record_.get(), &record) != 0 ||
      pread(record_.get(), head.data(), sizeof head, 0) != sizeof head || head[0] != kMagic ||
      head[1] != size_ || head[2] < 1)
    return false;
  const auto bytes = static_cast<std::size_t>(record.st_size) - sizeof head;
  const std::size_t parts = parts_of(size_, head[2]);
  if (bytes != parts * sizeof(std::int64_t)) return false;
  std::vector<std::int64_t> done(parts);
  if (pread(record_.get(), done.data(), bytes, sizeof head) != static_cast<ssize_t>(bytes))
    return false;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::int64_t begin = static_cast<std::int64_t>(i) * head[2];
    if (done[i] < 0 || done[i] > std::min(head[2], size_ - begin)) return false;
  }
  part_bytes_ = head[2];
  done_ = std::move(done);
  return true;
}

Status PartFile::write_record() {
  std::vector<std::int64_t> words = {kMagic, size_, part_bytes_};
  words.insert(words.end(), done_.begin(), done_.end());
  const std::size_t bytes = words.size() * sizeof(std::int64_t);
  if (ftruncate(record_.get(), 0) != 0 ||
      pwrite(record_.get(), words.data(), bytes, 0) != static_cast<ssize_t>(bytes))
    return failed("write the parts of");
  return Ok{};
}

Status PartFile::restart(bool one_part) {
  if (one_part) part_bytes_ = std::max<std::int64_t>(size_, 1);
  done_.assign(parts_of(size_, part_bytes_), 0);
  if (ftruncate(file_.get(), 0) != 0 || ftruncate(file_.get(), size_) != 0) return failed("write");
  return write_record();
}

std::int64_t PartFile::length_of(int part) const {
  return std::min(part_bytes_, size_ - begin_of(part));
}

std::int64_t PartFile::bytes_done() const {
  return std::accumulate(done_.begin(), done_.end(), std::int64_t{0});
}

Status PartFile::append(int part, std::string_view bytes) {
  std::int64_t& done = done_[static_cast<std::size_t>(part)];
  GLINT_CHECK(done + static_cast<std::int64_t>(bytes.size()) <= length_of(part),
              "a part is too long");
  while (!bytes.empty()) {
    const ssize_t n = pwrite(file_.get(), bytes.data(), bytes.size(), begin_of(part) + done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("write");
    if (n == 0) return invalid(str("cannot write ", quoted_path(path_), ": nothing was taken"));
    done += n;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  const auto at = static_cast<off_t>((kHeadWords + static_cast<std::size_t>(part)) * sizeof done);
  if (pwrite(record_.get(), &done, sizeof done, at) != sizeof done)
    return failed("write the parts of");
  return Ok{};
}

Status PartFile::finish(const std::string& target) {
  if (fsync(file_.get()) != 0) return failed("write");
  if (std::rename(path_.c_str(), target.c_str()) != 0)
    return invalid(str("cannot write ", quoted_path(target), ": ", std::strerror(errno)));
  unlink(record_of(path_).c_str());
  return Ok{};
}

}  // namespace glint
