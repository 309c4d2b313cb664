#include "checkpoint/shard.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/disk_space.h"
#include "base/json.h"
#include "base/str.h"
#include "base/system_error.h"

namespace glint {
namespace {

// The reference implementation reads headers up to 100 MB: a shard ends well before.
constexpr std::int64_t kMaxHeaderBytes = 50'000'000;
// Data begins at a multiple of this, so that mapped tensors whose sizes allow it are aligned.
constexpr std::size_t kDataAlignment = 64;

Status write_at(int fd, const std::string& path, std::int64_t offset,
                std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error("cannot write", path, errno);
    offset += n;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return Ok{};
}

}  // namespace

std::int64_t TensorSpec::bytes() const {
  std::int64_t bits = bits_of(type);
  for (const std::int64_t dim : shape) bits *= dim;
  GLINT_CHECK(bits % 8 == 0, name + " does not end on a whole byte");
  return bits / 8;
}

std::vector<Shard> plan_shards(std::span<const TensorSpec> tensors, std::int64_t max_bytes,
                               std::span<const std::size_t> units) {
  std::vector<Shard> shards;
  std::int64_t header_bytes = 0;
  const std::size_t num_units = units.empty() ? tensors.size() : units.size();
  for (std::size_t unit = 0; unit < num_units; ++unit) {
    const std::size_t begin = units.empty() ? unit : units[unit];
    const std::size_t end = units.empty()          ? unit + 1
                            : unit + 1 < num_units ? units[unit + 1]
                                                   : tensors.size();
    std::int64_t bytes = 0, entry_bytes = 0;
    for (const TensorSpec& tensor : tensors.subspan(begin, end - begin)) {
      bytes += tensor.bytes();
      // Name, quotes, keys, and sixty digits of shape and offsets.
      entry_bytes += static_cast<std::int64_t>(tensor.name.size()) + 120;
    }
    if (shards.empty() || shards.back().data_bytes + bytes > max_bytes ||
        header_bytes + entry_bytes > kMaxHeaderBytes) {
      shards.push_back({.name = {}, .begin = begin});
      header_bytes = 0;
    }
    shards.back().end = end;
    shards.back().data_bytes += bytes;
    header_bytes += entry_bytes;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : formatted("model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
  }
  return shards;
}

std::string shard_head(std::span<const TensorSpec> tensors) {
  std::string head(8, '\0');
  head += R"({"__metadata__":{"format":"pt"})";
  std::int64_t at = 0;
  for (const TensorSpec& tensor : tensors) {
    head += ',';
    append_json_string(head, tensor.name);
    head += str(R"(:{"dtype":")", name_of(tensor.type), R"(","shape":[)");
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      head += str(d ? "," : "", tensor.shape[d]);
    }
    head += str(R"(],"data_offsets":[)", at, ",", at + tensor.bytes(), "]}");
    at += tensor.bytes();
  }
  head += '}';
  while (head.size() % kDataAlignment) head += ' ';
  const std::uint64_t length = head.size() - 8;
  std::memcpy(head.data(), &length, 8);
  return head;
}

std::string shard_index(std::span<const TensorSpec> tensors, std::span<const Shard> shards) {
  std::int64_t total = 0;
  std::string map;
  for (const Shard& shard : shards) {
    for (const TensorSpec& tensor : tensors.subspan(shard.begin, shard.end - shard.begin)) {
      total += tensor.bytes();
      map += map.empty() ? "\n    " : ",\n    ";
      append_json_string(map, tensor.name);
      map += str(": \"", shard.name, "\"");
    }
  }
  return str("{\n  \"metadata\": {\"total_size\": ", total, "},\n  \"weight_map\": {", map,
             "\n  }\n}\n");
}

Result<ShardFile> ShardFile::create(const std::string& path, std::string_view head,
                                    std::int64_t data_bytes) {
  OwnedFd opened(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!opened) return system_error("cannot create", path, errno);
  ShardFile file(path, std::move(opened), static_cast<std::int64_t>(head.size()));
  const int fd = file.fd_.get();
  GLINT_TRY_STATUS(reserve_space(fd, path, file.data_begin_ + data_bytes));
  GLINT_TRY_STATUS(write_at(fd, path, 0, std::as_bytes(std::span(head))));
  return file;
}

Status ShardFile::write(std::int64_t offset, std::span<const std::byte> bytes) const {
  return write_at(fd_.get(), path_, data_begin_ + offset, bytes);
}

void ShardFile::start_writeback() const {
  ::sync_file_range(fd_.get(), 0, 0, SYNC_FILE_RANGE_WRITE);  // a hint: failing costs time only
}

Status ShardFile::finish() {
  const OwnedFd file = std::move(fd_);
  if (::fsync(file.get()) != 0) return system_error("cannot sync", path_, errno);
  return Ok{};
}

}  // namespace glint
