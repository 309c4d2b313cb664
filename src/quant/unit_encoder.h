// UnitEncoder: makes the bytes of one unit of an OutputPlan, on all threads.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "model/place_weights.h"
#include "quant/encode.h"
#include "quant/output_plan.h"

namespace glint {

class ThreadPool;

// Rounding error of the weights of one role.
struct ErrorSum {
  double squared_error = 0;
  double squared_weights = 0;
  std::int64_t weights = 0;

  void add(const ErrorSum& other);
  double relative() const { return squared_weights == 0 ? 0 : squared_error / squared_weights; }
};
using ErrorSums = std::map<TensorRole, ErrorSum>;

class UnitEncoder {
 public:
  // Takes bytes [offset, ...) of tensor number `spec` of the plan; from any thread.
  using Write = std::function<Status(std::size_t spec, std::int64_t offset,
                                     std::span<const std::byte> bytes)>;

  // Sources that are kept are not mapped files: their pages have nowhere to come from again.
  UnitEncoder(const Recipe& recipe, Checkpoint& checkpoint, ThreadPool& pool,
              Sources sources = Sources::kDiscard);

  // Hands every byte of the unit's tensors to `write` once, and adds to `errors`. Fails on a value
  // that is NaN, infinite or too large for its error to be measured, naming its tensor and index.
  // The bytes do not depend on the number of threads, nor do the sums. Gives the pages of the
  // source back when it is done with them.
  Status encode(const Unit& unit, const Write& write, ErrorSums& errors);

 private:
  struct Part {
    std::size_t weight = 0;
    std::int64_t row_begin = 0, row_end = 0;
  };
  struct Scratch {
    std::vector<float> values, scales;
    std::vector<std::uint8_t> codes, group_scales;
    std::vector<BF16> words;
  };

  Status copy(const Unit& unit, const Write& write);
  Status open_weights(const Unit& unit);
  void plan_parts(std::int64_t rows_multiple);
  Status run_parts(const std::function<Status(std::size_t part, Scratch& scratch)>& fn);
  Status find_ranges(const Unit& unit);
  Status encode_nvfp4(const Unit& unit, const Write& write);
  Status encode_fp8(const Unit& unit, const Write& write);
  Status dequantize(const Unit& unit, const Write& write);
  Error refused_value(const Unit& unit, std::size_t part) const;
  // Fills `values` with the rows of the part, as f32.
  void read(const Part& part, std::vector<float>& values) const;

  const Recipe& recipe_;
  Checkpoint& checkpoint_;
  ThreadPool& pool_;
  const EncodeIsa isa_;
  const Sources sources_;
  std::vector<Weight> weights_;  // of the unit
  std::vector<Part> parts_;
  std::vector<float> amax_;       // of each part
  std::vector<ErrorSum> sums_;    // of each part
  std::vector<Scratch> scratch_;  // of each thread
};

}  // namespace glint
