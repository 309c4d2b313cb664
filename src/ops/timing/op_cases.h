// The products, the attention and the small ops of one layer of GLM-5 as one of `ranks` ranks
// computes them for a batch of decoding sequences: for timing, on any backend.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace glint {

// The tokens of a batch, and the share of a rank.
struct OpSizes {
  int ranks = 8;                // that share heads, experts' widths and the vocabulary
  std::int64_t batch = 1;       // sequences, a token of each
  std::int64_t context = 2304;  // tokens of each in the cache
};

struct OpCase {
  std::string name;  // "experts gate, fp8"
  OpCost cost = {};
  int sets = 1;                           // of inputs, so many that together they exceed a cache
  std::function<void(int set)> run = {};  // empty: an operand is larger than the memory for it
};

// Device memory that cases read and write: random numbers, and room for results. Cases take what
// they need anew, so that those of two batches share it.
class OpMemory {
 public:
  // Fails when the device has no room for it.
  static Result<OpMemory> make(Device& device);

  Device& device() const { return *device_; }
  const std::byte* codes() const { return codes_.data(); }    // finite as e4m3, bf16 and f32
  const std::byte* scales() const { return scales_.data(); }  // positive as e4m3 and as f32
  std::byte* results() const { return results_.data(); }

  static constexpr std::int64_t kCodes = std::int64_t{3} << 30, kScales = 64 << 20,
                                kResults = 512 << 20;

 private:
  Device* device_ = nullptr;
  Buffer codes_, scales_, results_;
};

// The cases of weights in `format`; `memory` and `ops` must outlive them. `keep` holds the integers
// that they read.
std::vector<OpCase> op_cases(Ops& ops, const OpMemory& memory, const OpSizes& sizes,
                             WeightFormat format, std::vector<Buffer>& keep);

// Median seconds of a call, one after another: as a graph where the device repeats one.
double seconds_of(Device& device, const OpCase& op);

// Bytes a second that the device copies, read and written.
double copy_speed(const OpMemory& memory);

}  // namespace glint
