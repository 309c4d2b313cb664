// CheckpointWriter: a directory of safetensors shards that appears under its name when it is
// complete and on disk, or not at all.
//
// The tensors are known from the start, so headers, offsets and the index are too, and bytes may
// arrive in any order and from any thread. Nothing is buffered: memory is the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/shard.h"

namespace glint {

class CheckpointWriter {
 public:
  // `dir` must be empty or not exist; its parent must. Reserves the space of all tensors in
  // `dir`.partial, so a disk that is too small is known now. A tensor that is larger than
  // `max_shard_bytes` has a shard of its own.
  static Result<CheckpointWriter> create(const std::string& dir, std::vector<TensorSpec> tensors,
                                         std::int64_t max_shard_bytes = std::int64_t{4} << 30);
  CheckpointWriter(CheckpointWriter&&) noexcept;
  ~CheckpointWriter();  // removes what finish() has not renamed

  // Bytes [offset, offset + bytes.size()) of tensor number `tensor`. From any thread.
  Status write(std::size_t tensor, std::int64_t offset, std::span<const std::byte> bytes) const;

  // Another file of the directory (config.json, ...).
  Status add_file(std::string_view name, std::string_view contents) const;

  // Writes the index, syncs all and gives it its name. What was never written is zero.
  Status finish();

 private:
  struct State;
  explicit CheckpointWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace glint
