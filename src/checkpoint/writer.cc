#include "checkpoint/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/str.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

// The reference implementation reads headers up to 100 MB: a shard ends well before.
constexpr std::int64_t kMaxHeaderBytes = 50'000'000;
// Data begins at a multiple of this, so that mapped tensors whose sizes allow it are aligned.
constexpr std::size_t kDataAlignment = 64;

Error system_error(const std::string& doing, const std::string& path, int code) {
  const ErrorCode kind = code == ENOSPC || code == EDQUOT || code == EMFILE
                             ? ErrorCode::kResourceExhausted
                             : ErrorCode::kInvalidArgument;
  return Error{kind, str(doing, " ", path, ": ", std::strerror(code))};
}

Status sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error("cannot open", path, errno);
  const int failed = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (failed) return system_error("cannot sync", path, failed);
  return Ok{};
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

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

struct CheckpointWriter::State {
  struct Shard {
    std::string name;
    std::size_t begin = 0, end = 0;  // its tensors
    std::int64_t data_bytes = 0;
    int fd = -1;
  };
  struct Place {
    std::size_t shard = 0;
    std::int64_t offset = 0;  // within the file
  };

  ~State() {
    for (const Shard& shard : shards) {
      if (shard.fd >= 0) ::close(shard.fd);
    }
    std::error_code ignored;
    if (!partial_dir.empty()) fs::remove_all(partial_dir, ignored);
  }

  // Before posix_fallocate, which on some file systems fills the disk before it gives up.
  static Status check_space(const std::string& dir, std::span<const Shard> shards);
  void plan_shards(std::int64_t max_shard_bytes);
  std::string header(const Shard& shard) const;
  Status create_shard(std::size_t number);
  std::string index() const;

  std::string dir, partial_dir;
  std::vector<TensorSpec> tensors;
  std::vector<Place> places;  // one a tensor
  std::vector<Shard> shards;
};

void CheckpointWriter::State::plan_shards(std::int64_t max_shard_bytes) {
  std::int64_t header_bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::int64_t bytes = tensors[i].bytes();
    // Name, quotes, keys, and sixty digits of shape and offsets.
    const auto entry_bytes = static_cast<std::int64_t>(tensors[i].name.size()) + 120;
    if (shards.empty() ||
        (i > shards.back().begin && (shards.back().data_bytes + bytes > max_shard_bytes ||
                                     header_bytes + entry_bytes > kMaxHeaderBytes))) {
      shards.push_back({.name = {}, .begin = i});
      header_bytes = 0;
    }
    shards.back().end = i + 1;
    shards.back().data_bytes += bytes;
    header_bytes += entry_bytes;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    char name[64] = "model.safetensors";
    if (shards.size() > 1) {
      std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    }
    shards[i].name = name;
  }
}

Status CheckpointWriter::State::check_space(const std::string& dir, std::span<const Shard> shards) {
  std::error_code error;
  const fs::space_info space = fs::space(parent_of(dir), error);
  if (error) return Ok{};  // create_directory will say what is wrong
  double needed = 0;
  for (const Shard& shard : shards) needed += static_cast<double>(shard.data_bytes);
  if (needed <= static_cast<double>(space.available)) return Ok{};
  return Error{ErrorCode::kResourceExhausted,
               str(dir, " needs ", human_bytes(needed), ", but only ",
                   human_bytes(static_cast<double>(space.available)), " are free there")};
}

std::string CheckpointWriter::State::header(const Shard& shard) const {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::int64_t at = 0;
  for (std::size_t i = shard.begin; i < shard.end; ++i) {
    const TensorSpec& tensor = tensors[i];
    json += ',';
    append_json_string(json, tensor.name);
    json += str(R"(:{"dtype":")", name_of(tensor.type), R"(","shape":[)");
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      json += str(d ? "," : "", tensor.shape[d]);
    }
    json += str(R"(],"data_offsets":[)", at, ",", at + tensor.bytes(), "]}");
    at += tensor.bytes();
  }
  json += '}';
  while ((8 + json.size()) % kDataAlignment) json += ' ';
  return json;
}

// Creates the file with its header and its full length, and notes where its tensors lie.
Status CheckpointWriter::State::create_shard(std::size_t number) {
  Shard& shard = shards[number];
  const std::string path = partial_dir + "/" + shard.name;
  shard.fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (shard.fd < 0) return system_error("cannot create", path, errno);
  const std::string json = header(shard);
  const std::uint64_t length = json.size();
  const auto data_begin = static_cast<std::int64_t>(8 + json.size());
  if (const int code = ::posix_fallocate(shard.fd, 0, data_begin + shard.data_bytes)) {
    return system_error(
        "cannot reserve " + human_bytes(static_cast<double>(shard.data_bytes)) + " for", path,
        code);
  }
  GLINT_TRY_STATUS(write_at(shard.fd, path, 0, std::as_bytes(std::span(&length, 1))));
  GLINT_TRY_STATUS(write_at(shard.fd, path, 8, std::as_bytes(std::span(json))));
  std::int64_t at = data_begin;
  for (std::size_t i = shard.begin; i < shard.end; ++i) {
    places.push_back({.shard = number, .offset = at});
    at += tensors[i].bytes();
  }
  return Ok{};
}

std::string CheckpointWriter::State::index() const {
  std::int64_t total = 0;
  std::string map;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    total += tensors[i].bytes();
    map += i ? ",\n    " : "\n    ";
    append_json_string(map, tensors[i].name);
    map += str(": \"", shards[places[i].shard].name, "\"");
  }
  return str("{\n  \"metadata\": {\"total_size\": ", total, "},\n  \"weight_map\": {", map,
             "\n  }\n}\n");
}

Result<CheckpointWriter> CheckpointWriter::create(const std::string& dir,
                                                  std::vector<TensorSpec> tensors,
                                                  const Options& options) {
  GLINT_CHECK(!tensors.empty(), "a checkpoint has tensors");
  std::string name = dir;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  std::error_code error;
  if (fs::symlink_status(name, error).type() != fs::file_type::not_found) {
    return invalid(str(name, " exists; expected a directory that is yet to be made"));
  }
  auto state = std::make_unique<State>();
  state->dir = name;
  state->tensors = std::move(tensors);
  state->plan_shards(options.max_shard_bytes);
  GLINT_TRY_STATUS(State::check_space(name, state->shards));
  const std::string partial = name + ".partial";
  if (!fs::create_directory(partial, error)) {
    if (!error) {
      return invalid(str(quoted(partial),
                         " exists: it is being written, or was left by a writer that "
                         "was killed; remove it to begin again"));
    }
    return system_error("cannot create", partial, error.value());
  }
  state->partial_dir = partial;
  for (std::size_t i = 0; i < state->shards.size(); ++i) GLINT_TRY_STATUS(state->create_shard(i));
  return CheckpointWriter(std::move(state));
}

CheckpointWriter::CheckpointWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;
CheckpointWriter::~CheckpointWriter() = default;

std::span<const TensorSpec> CheckpointWriter::tensors() const { return state_->tensors; }

Status CheckpointWriter::write(std::size_t tensor, std::int64_t offset,
                               std::span<const std::byte> bytes) const {
  const auto size = static_cast<std::int64_t>(bytes.size());
  GLINT_CHECK(tensor < state_->tensors.size() && offset >= 0 &&
                  offset + size <= state_->tensors[tensor].bytes(),
              "write outside of a tensor");
  const State::Place& place = state_->places[tensor];
  const State::Shard& shard = state_->shards[place.shard];
  return write_at(shard.fd, state_->partial_dir + "/" + shard.name, place.offset + offset, bytes);
}

Status CheckpointWriter::add_file(std::string_view name, std::string_view contents) const {
  return write_file_atomic(str(state_->partial_dir, "/", name), contents);
}

Status CheckpointWriter::finish() {
  if (state_->shards.size() > 1) {
    GLINT_TRY_STATUS(add_file("model.safetensors.index.json", state_->index()));
  }
  for (State::Shard& shard : state_->shards) {
    const bool synced = ::fsync(shard.fd) == 0;
    const int code = errno;
    ::close(std::exchange(shard.fd, -1));
    if (!synced) return system_error("cannot sync", state_->partial_dir + "/" + shard.name, code);
  }
  GLINT_TRY_STATUS(sync_directory(state_->partial_dir));
  if (std::rename(state_->partial_dir.c_str(), state_->dir.c_str()) != 0) {
    return system_error("cannot rename to", state_->dir, errno);
  }
  state_->partial_dir.clear();
  return sync_directory(parent_of(state_->dir));
}

}  // namespace glint
