#include "runtime/read_speed.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/file.h"
#include "base/owned_fd.h"
#include "base/seconds.h"
#include "base/str.h"
#include "base/thread_pool.h"
#include "tensor/device.h"

namespace glint {
namespace {

struct Part {
  const std::string* file;
  std::int64_t begin, bytes;
};

// Whether all of it could be read, `buffer` by `buffer`.
bool read_part(const Part& part, std::vector<char>& buffer) {
  std::ifstream in;
  in.rdbuf()->pubsetbuf(nullptr, 0);
  in.open(*part.file, std::ios::binary);
  in.seekg(part.begin);
  for (std::int64_t left = part.bytes; left > 0 && in;) {
    const auto size = std::min(left, static_cast<std::int64_t>(buffer.size()));
    in.read(buffer.data(), size);
    left -= size;
  }
  return static_cast<bool>(in);
}

// Takes `file` out of the page cache, but for pages that are mapped or not written yet.
void drop_from_cache(const std::string& file) {
  const OwnedFd opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (opened) ::posix_fadvise(opened.get(), 0, 0, POSIX_FADV_DONTNEED);
}

}  // namespace

double cached_share(std::span<const std::string> files) {
  constexpr std::size_t kSamples = 256;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t of_each = kSamples / std::max<std::size_t>(files.size(), 1) + 1;
  std::size_t cached = 0, sampled = 0;
  for (const std::string& path : files) {
    Result<MappedFile> file = MappedFile::open(path);
    if (!file.ok()) continue;
    const std::size_t pages = file.value().bytes().size() / page;
    for (std::size_t i = 0; i < of_each && pages > 0; ++i, ++sampled) {
      cached += is_cached(file.value().bytes().subspan(pages * i / of_each * page, page));
    }
  }
  return sampled ? static_cast<double>(cached) / static_cast<double>(sampled) : 0;
}

double new_memory_speed(ThreadPool& pool) {
  constexpr std::int64_t kParts = 128, kPart = std::int64_t{4} << 20;
  const Buffer buffer = make_host_device()->allocate(kParts * kPart);
  if (!buffer.data()) return 0;
  const auto start = std::chrono::steady_clock::now();
  pool.run_dynamic(
      kParts, [&](std::int64_t part, int) { std::memset(buffer.data() + part * kPart, 1, kPart); });
  return static_cast<double>(kParts * kPart) / seconds_since(start) * 1e-9;
}

Result<double> read_speed(std::span<const std::string> files, int threads, ReadFrom from) {
  constexpr std::int64_t kPart = std::int64_t{64} << 20, kBuffer = std::int64_t{1} << 20;
  std::vector<Part> parts;
  std::int64_t total = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(file, error));
    if (error) return not_found(str("cannot read ", file, ": ", error.message()));
    for (std::int64_t at = 0; at < size; at += kPart) {
      parts.push_back({&file, at, std::min(kPart, size - at)});
    }
    total += size;
    if (from == ReadFrom::kDisk) drop_from_cache(file);
  }
  ThreadPool pool(threads);
  std::vector<std::vector<char>> buffers(static_cast<std::size_t>(threads),
                                         std::vector<char>(kBuffer));
  std::atomic<bool> ok = true;
  const auto start = std::chrono::steady_clock::now();
  pool.run_dynamic(static_cast<std::int64_t>(parts.size()), [&](std::int64_t part, int thread) {
    if (!read_part(parts[static_cast<std::size_t>(part)],
                   buffers[static_cast<std::size_t>(thread)])) {
      ok = false;
    }
  });
  const double seconds = seconds_since(start);
  if (!ok) return invalid("the checkpoint's files could not be read to their end");
  return static_cast<double>(total) / seconds * 1e-9;
}

}  // namespace glint
