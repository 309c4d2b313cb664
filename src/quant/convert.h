// Conversion: a checkpoint becomes another one, shard by shard, in one pass over the source.
//
// Everything is written into OUT.partial, which is renamed to OUT when it is complete and on disk.
// A shard is written beside its name, synced, renamed and entered into the manifest: whatever kills
// the process, the same command goes on after the last entry and gives the same bytes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "quant/manifest.h"
#include "quant/recipe.h"

namespace glint {

class ThreadPool;

struct ConversionOptions {
  std::string source, out;  // directories
  Recipe recipe;
  std::string calibration = {};  // a file of glint calibrate; empty: none
  std::int64_t max_shard_bytes = std::int64_t{4} << 30;
};

class Conversion {
 public:
  using BytesDone = std::function<void(std::int64_t bytes)>;

  // Refuses whatever can be known to go wrong, before anything is written: a source that is
  // incomplete, or already quantised; rules that match nothing; an OUT that exists; an OUT.partial
  // of another job; too small a disk.
  static Result<Conversion> prepare(const ConversionOptions& options);
  Conversion(Conversion&&) noexcept;
  ~Conversion();

  // Shards that an earlier run finished, and the bytes that reading them again takes.
  std::size_t num_finished() const;
  std::size_t num_shards() const;
  std::int64_t finished_bytes() const;
  // Reads them; what is not as the manifest says will be made again. Fails on such a shard where an
  // earlier run was killed while its files moved to OUT.
  Status check_finished(const BytesDone& done);

  std::int64_t bytes_to_read() const;   // of the source
  std::int64_t bytes_to_write() const;  // more room on disk than there is taken
  // Makes the rest. On failure finished shards stay; the same job can go on later.
  Status run(ThreadPool& pool, const BytesDone& done);

  // Experts that no token of the calibration reached, which take the range of their layer.
  const std::vector<std::string>& unseen_experts() const;
  // Tensors of the source that its config.json has no place for, which are copied.
  const std::vector<std::string>& unused_tensors() const;
  // Rounding errors and shard sizes of the result; after run().
  const Manifest& manifest() const;

 private:
  struct State;
  explicit Conversion(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace glint
