// Writing safetensors shards: which tensors go into which file, a file's head, and the file itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "checkpoint/tensor_source.h"

namespace glint {

struct TensorSpec {
  std::string name;
  StoredType type = StoredType::kBF16;
  std::vector<std::int64_t> shape = {};

  std::int64_t bytes() const;

  bool operator==(const TensorSpec&) const = default;
};

struct Shard {
  std::string name;                // "model-00003-of-00142.safetensors"
  std::size_t begin = 0, end = 0;  // its tensors
  std::int64_t data_bytes = 0;
};

// Cuts `tensors` into files of at most `max_bytes` of data, in order; a tensor that is larger has a
// file of its own. Cuts only before tensors that begin a unit: `units` are the numbers of the first
// tensors, ascending, from 0; empty: every tensor is one.
std::vector<Shard> plan_shards(std::span<const TensorSpec> tensors, std::int64_t max_bytes,
                               std::span<const std::size_t> units = {});

// The first bytes of a file of these tensors: the length, and the JSON padded with blanks so that
// data begins at a multiple of 64.
std::string shard_head(std::span<const TensorSpec> tensors);

// The contents of model.safetensors.index.json; total_size counts bytes of data.
std::string shard_index(std::span<const TensorSpec> tensors, std::span<const Shard> shards);

inline constexpr const char* kShardIndexName = "model.safetensors.index.json";

// One such file while it is written: its space is reserved at once, its bytes arrive in any order
// and from any thread. What was never written is zero. Without finish() the file stays as it is.
class ShardFile {
 public:
  // Replaces what stands under `path`.
  static Result<ShardFile> create(const std::string& path, std::string_view head,
                                  std::int64_t data_bytes);

  // `offset` counts from the beginning of the data.
  Status write(std::int64_t offset, std::span<const std::byte> bytes) const;
  // Lets the kernel begin to write what it holds, so that finish() has less to wait for.
  void start_writeback() const;
  // Syncs and closes.
  Status finish();

  const std::string& path() const { return path_; }

 private:
  ShardFile(std::string path, OwnedFd fd, std::int64_t data_begin)
      : path_(std::move(path)), fd_(std::move(fd)), data_begin_(data_begin) {}

  std::string path_;
  OwnedFd fd_;
  std::int64_t data_begin_ = 0;
};

}  // namespace glint
