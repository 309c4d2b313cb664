#include "train/row_order.h"

#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace glint {

RowOrder::RowOrder(std::size_t num_rows, std::uint64_t seed, bool shuffle)
    : seed_(seed), shuffle_(shuffle), order_(num_rows) {
  GLINT_CHECK(num_rows > 0, "no rows");
  order_epoch();
}

void RowOrder::order_epoch() {
  std::iota(order_.begin(), order_.end(), 0u);
  if (!shuffle_) return;
  Random random(seed_, epoch_);
  for (std::size_t i = order_.size(); i > 1; --i) {
    std::swap(order_[i - 1], order_[random.below(static_cast<std::uint32_t>(i))]);
  }
}

std::size_t RowOrder::row_at(std::uint64_t position) {
  if (const std::uint64_t epoch = position / order_.size(); epoch != epoch_) {
    epoch_ = epoch;
    order_epoch();
  }
  return order_[position % order_.size()];
}

}  // namespace glint
