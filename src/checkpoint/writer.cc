#include "checkpoint/writer.h"

#include <cerrno>
#include <filesystem>

#include "base/directory.h"
#include "base/disk_space.h"
#include "base/file.h"
#include "base/str.h"
#include "base/system_error.h"

namespace glint {
namespace {

namespace fs = std::filesystem;

}  // namespace

struct CheckpointWriter::State {
  struct Place {
    std::size_t shard = 0;
    std::int64_t offset = 0;  // within the data
  };

  ~State() {
    files.clear();
    std::error_code ignored;
    if (!partial_dir.empty()) fs::remove_all(partial_dir, ignored);
  }

  Status create_files();

  std::string dir, partial_dir;
  std::vector<TensorSpec> tensors;
  std::vector<Place> places;  // one a tensor
  std::vector<Shard> shards;
  std::vector<ShardFile> files;
};

Status CheckpointWriter::State::create_files() {
  for (const Shard& shard : shards) {
    const std::span<const TensorSpec> part =
        std::span(tensors).subspan(shard.begin, shard.end - shard.begin);
    GLINT_TRY(ShardFile file, ShardFile::create(partial_dir + "/" + shard.name, shard_head(part),
                                                shard.data_bytes));
    std::int64_t at = 0;
    for (const TensorSpec& tensor : part) {
      places.push_back({.shard = files.size(), .offset = at});
      at += tensor.bytes();
    }
    files.push_back(std::move(file));
  }
  return Ok{};
}

Result<CheckpointWriter> CheckpointWriter::create(const std::string& dir,
                                                  std::vector<TensorSpec> tensors,
                                                  std::int64_t max_shard_bytes) {
  GLINT_CHECK(!tensors.empty(), "a checkpoint has tensors");
  const std::string name = absolute_name(dir);
  auto state = std::make_unique<State>();
  state->dir = name;
  state->tensors = std::move(tensors);
  state->shards = plan_shards(state->tensors, max_shard_bytes);
  const std::string partial = name + ".partial";
  std::error_code error;
  if (fs::exists(fs::symlink_status(partial, error))) {
    return invalid(str(quoted_path(partial),
                       " exists: it is being written, or was left by a writer that "
                       "was killed; remove it to begin again"));
  }
  std::int64_t bytes = 0;
  for (const Shard& shard : state->shards) bytes += shard.data_bytes;
  // Before the files reserve it, which on some file systems fills the disk before it fails.
  GLINT_TRY_STATUS(check_free_space(name, bytes));
  GLINT_TRY_STATUS(check_directory_name(name));
  if (!fs::create_directory(partial, error))
    return system_error("cannot create", partial, error ? error.value() : EEXIST);
  state->partial_dir = partial;
  GLINT_TRY_STATUS(state->create_files());
  return CheckpointWriter(std::move(state));
}

CheckpointWriter::CheckpointWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
CheckpointWriter::CheckpointWriter(CheckpointWriter&&) noexcept = default;
CheckpointWriter::~CheckpointWriter() = default;

Status CheckpointWriter::write(std::size_t tensor, std::int64_t offset,
                               std::span<const std::byte> bytes) const {
  const auto size = static_cast<std::int64_t>(bytes.size());
  GLINT_CHECK(tensor < state_->tensors.size() && offset >= 0 &&
                  offset + size <= state_->tensors[tensor].bytes(),
              "write outside of a tensor");
  const State::Place& place = state_->places[tensor];
  return state_->files[place.shard].write(place.offset + offset, bytes);
}

Status CheckpointWriter::add_file(std::string_view name, std::string_view contents) const {
  return write_file_atomic(str(state_->partial_dir, "/", name), contents);
}

Status CheckpointWriter::finish() {
  if (state_->shards.size() > 1) {
    GLINT_TRY_STATUS(add_file(kShardIndexName, shard_index(state_->tensors, state_->shards)));
  }
  for (ShardFile& file : state_->files) GLINT_TRY_STATUS(file.finish());
  GLINT_TRY_STATUS(sync_directory(state_->partial_dir));
  GLINT_TRY_STATUS(rename_directory(state_->partial_dir, state_->dir, {.last = "config.json"}));
  state_->partial_dir.clear();
  return Ok{};
}

}  // namespace glint
