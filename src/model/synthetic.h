// Synthetic models: the checkpoint that a config would have, with made-up weights. They are for
// speed, memory and plumbing: activations stay of order one through all layers, the router spreads
// over the experts and the indexer over the keys, and there are outliers; but nothing was learned.
//
// Values depend on the seed and the tensor's name alone: not on threads, and, before their
// encoding, not on the format (an fp8 model is the quantised bf16 model of the same seed).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/writer.h"
#include "model/release.h"

namespace glint {

class ThreadPool;

// Called from any thread with the bytes just done. False: to go no further, which is a failure.
using BytesDone = std::function<bool(std::int64_t bytes)>;

class SyntheticModel {
 public:
  // Fails if a matrix cannot have the release's format (NVFP4 needs rows of whole groups), or if
  // there are more tensors than any reader would accept.
  static Result<SyntheticModel> plan(const ModelConfig& config, Release release,
                                     std::uint64_t seed);

  const ModelConfig& config() const { return config_; }
  Release release() const { return release_; }
  const std::vector<TensorSpec>& tensors() const { return specs_; }
  std::int64_t bytes() const;

  // Makes every byte once and hands it on, from all threads of `pool`, in no order: bytes [offset,
  // ..) of tensor number `tensor`. Stops at the first failure, which it returns.
  using Write = std::function<Status(std::size_t tensor, std::int64_t offset,
                                     std::span<const std::byte> bytes)>;
  Status generate(ThreadPool& pool, const Write& write, const BytesDone& done) const;

 private:
  // A stored weight: one copy of one tensor of the table.
  struct Unit {
    std::size_t tensor = 0;  // in table_
    int expert = 0;
    std::size_t first_spec = 0;  // its tensors in specs_
  };
  // One thread's share of work: some rows of a unit.
  struct Part {
    std::size_t unit = 0;
    std::int64_t row_begin = 0, row_end = 0;
  };
  class Maker;

  SyntheticModel(const ModelConfig& config, Release release, std::uint64_t seed)
      : config_(config), release_(release), seed_(seed) {}
  void add_unit(std::size_t tensor, int expert);
  WeightFormat format_of(const Unit& unit) const {
    return format_in(release_, table_[unit.tensor], config_);
  }

  ModelConfig config_;
  Release release_;
  std::uint64_t seed_;
  std::vector<ModelTensor> table_;
  std::vector<TensorSpec> specs_;
  std::vector<Unit> units_;
  std::vector<Part> parts_;
};

// The model in memory, as a checkpoint that has no files.
Result<Checkpoint> make_dummy_checkpoint(const SyntheticModel& model, ThreadPool& pool,
                                         const BytesDone& done);

// The model in the new directory `dir`, with config.json (made from `config_json`),
// generation_config.json and, for NVFP4, hf_quant_config.json. No tokenizer.
Status write_synthetic_checkpoint(const SyntheticModel& model, const Json& config_json,
                                  const std::string& dir, ThreadPool& pool, const BytesDone& done);

}  // namespace glint
