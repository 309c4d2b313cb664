#include "hub/content_hash.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/owned_fd.h"
#include "base/str.h"

namespace glint {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 20;

OwnedFd open_file(const std::string& path) {
  return OwnedFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

struct Free {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

Error unreadable(const std::string& path) {
  return invalid(str("cannot read ", quoted_path(path), ": ", std::strerror(errno)));
}

Result<std::string> hash(const std::string& path, const EVP_MD* kind, std::string_view prefix,
                         int fd, const std::function<bool()>& stop) {
  const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  GLINT_CHECK(context && EVP_DigestInit_ex(context.get(), kind, nullptr) == 1, "no such hash");
  EVP_DigestUpdate(context.get(), prefix.data(), prefix.size());
  std::string buffer(kReadBytes, '\0');
  for (;;) {
    if (stop()) return unavailable("interrupted");
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return unreadable(path);
    if (n == 0) break;
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(n));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), bytes.data(), &size);
  std::string out;
  for (unsigned i = 0; i < size; ++i) out += formatted("%02x", bytes[i]);
  return out;
}

}  // namespace

Result<std::string> sha256_of_file(const std::string& path, const std::function<bool()>& stop) {
  const OwnedFd file = open_file(path);
  if (!file) return unreadable(path);
  return hash(path, EVP_sha256(), "", file.get(), stop);
}

Result<std::string> git_oid_of_file(const std::string& path, const std::function<bool()>& stop) {
  const OwnedFd file = open_file(path);
  struct stat info = {};
  if (!file || fstat(file.get(), &info) != 0) return unreadable(path);
  const std::string prefix = "blob " + std::to_string(info.st_size) + std::string(1, '\0');
  return hash(path, EVP_sha1(), prefix, file.get(), stop);
}

}  // namespace glint
