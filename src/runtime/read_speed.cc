#include "runtime/read_speed.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/seconds.h"
#include "base/str.h"
#include "base/thread_pool.h"

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

}  // namespace

Result<double> read_speed(std::span<const std::string> files, int threads) {
  constexpr std::int64_t kPart = std::int64_t{64} << 20, kBuffer = std::int64_t{1} << 20;
  std::vector<Part> parts;
  std::int64_t total = 0;
  for (const std::string& file : files) {
    std::error_code error;
    const auto size = static_cast<std::int64_t>(std::filesystem::file_size(file, error));
    if (error) return Error{ErrorCode::kNotFound, str("cannot read ", file, ": ", error.message())};
    for (std::int64_t at = 0; at < size; at += kPart) {
      parts.push_back({&file, at, std::min(kPart, size - at)});
    }
    total += size;
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
