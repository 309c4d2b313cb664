// The order in which a run sees the rows of its data: a function of the seed alone, so that a run
// that is taken up finds the same rows.
#pragma once

#include <cstdint>
#include <vector>

namespace glint {

// The row that comes as number `position` since the start of a training: each epoch goes through
// all of `num_rows`, in an order of its own if they are shuffled.
class RowOrder {
 public:
  RowOrder(std::size_t num_rows, std::uint64_t seed, bool shuffle);
  std::size_t row_at(std::uint64_t position);

 private:
  const std::uint64_t seed_;
  const bool shuffle_;
  std::uint64_t epoch_ = 0;
  std::vector<std::uint32_t> order_;  // of that epoch

  void order_epoch();
};

}  // namespace glint
