#include "eval/spill_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/disk_space.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr const char* kRemedy = "; name a larger disk with --tmp DIR";

}  // namespace

Result<SpillFile> SpillFile::create(const std::string& dir, std::int64_t bytes) {
  if (const Status room = check_free_space(dir + "/", bytes); !room.ok())
    return Error{room.error().code, room.error().message + kRemedy};
  std::string path = dir + "/glint-spill-XXXXXX";
  const int fd = ::mkstemp(path.data());
  if (fd < 0) {
    return invalid(str("cannot create a temporary file in ", dir, ": ", std::strerror(errno)));
  }
  ::unlink(path.c_str());
  SpillFile spill;
  spill.dir_ = dir;
  spill.file_.reset(::fdopen(fd, "w+b"));
  GLINT_CHECK(spill.file_, "a descriptor of ours opens as a stream");
  return spill;
}

Status SpillFile::checked(bool written) const {
  if (written) return Ok{};
  return exhausted(
      str("cannot write to a temporary file in ", dir_, ": ", std::strerror(errno), kRemedy));
}

Status SpillFile::write(std::span<const float> values) {
  const std::size_t count = values.size();
  return checked(std::fwrite(values.data(), sizeof(float), count, file_.get()) == count);
}

Status SpillFile::rewind() {
  GLINT_TRY_STATUS(checked(std::fflush(file_.get()) == 0));
  std::rewind(file_.get());
  return Ok{};
}

Status SpillFile::read(std::span<float> values) {
  if (std::fread(values.data(), sizeof(float), values.size(), file_.get()) != values.size()) {
    return unavailable(str("cannot read back the temporary file in ", dir_));
  }
  return Ok{};
}

}  // namespace glint
