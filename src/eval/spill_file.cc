#include "eval/spill_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/disk_space.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr const char* kRemedy = "; name a larger disk with --tmp DIR";

// All of `bytes`, at float number `first`, by calls of `move`, which are pwrite or pread.
template <class Bytes, class Move>
bool move_all(std::int64_t first, Bytes bytes, Move move) {
  for (auto at = static_cast<off_t>(first * sizeof(float)); !bytes.empty();) {
    const ssize_t n = move(bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += n;
  }
  return true;
}

}  // namespace

Result<SpillFile> SpillFile::create(const std::string& dir, std::int64_t bytes) {
  if (const Status room = check_free_space(dir + "/", bytes); !room.ok())
    return Error{room.error().code, room.error().message + kRemedy};
  std::string path = dir + "/glint-spill-XXXXXX";
  OwnedFd file(::mkstemp(path.data()));
  if (!file) {
    return invalid(str("cannot create a temporary file in ", dir, ": ", std::strerror(errno),
                       "; name another directory with --tmp DIR"));
  }
  ::unlink(path.c_str());
  SpillFile spill;
  spill.dir_ = dir;
  spill.file_ = std::move(file);
  return spill;
}

Status SpillFile::write(std::int64_t first, std::span<const float> values) const {
  const bool written = move_all(
      first, std::as_bytes(values),
      [&](const std::byte* from, auto... at) { return ::pwrite(file_.get(), from, at...); });
  if (written) return Ok{};
  return exhausted(
      str("cannot write to a temporary file in ", dir_, ": ", std::strerror(errno), kRemedy));
}

Status SpillFile::read(std::int64_t first, std::span<float> values) const {
  const bool read = move_all(first, std::as_writable_bytes(values), [&](std::byte* to, auto... at) {
    return ::pread(file_.get(), to, at...);
  });
  if (read) return Ok{};
  return unavailable(str("cannot read back the temporary file in ", dir_));
}

}  // namespace glint
