#include "train/optimizer_part.h"

#include <algorithm>

namespace glint {
namespace {

Tensor as_tensor(std::span<float> values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::kF32, {std::ssize(values)}};
}

// The same bits as whole numbers, which every group can move.
Tensor as_tensor(std::span<double> values) {
  return {reinterpret_cast<std::byte*>(values.data()), DType::kI32, {std::ssize(values) * 2}};
}

}  // namespace

OptimizerPart::OptimizerPart(Parameters& parameters, Comm& comm)
    : parameters_(parameters), comm_(comm) {
  const std::int64_t share = parameters.share(), count = parameters.count();
  GLINT_CHECK(share * comm.size() == std::ssize(parameters.padded()), "shares of another group");
  first_ = std::min(comm.rank() * share, count);
  size_ = std::min(share, count - first_);
  for (auto& values : values_) values.resize(static_cast<std::size_t>(size_));
}

// Its whole share, with the zeros that may be behind the last number.
std::span<float> OptimizerPart::own(std::span<float> all) const {
  const auto share = static_cast<std::size_t>(parameters_.share());
  return all.subspan(static_cast<std::size_t>(comm_.rank()) * share, share);
}

double OptimizerPart::reduce(ThreadPool& pool) {
  parameters_.fetch();
  const std::span<float> all = parameters_.padded(), mine = own(all);
  comm_.reduce_scatter(as_tensor(all), as_tensor(mine));
  std::vector<double> squares = squares_of(mine, pool);
  std::vector<double> of_all(squares.size() * static_cast<std::size_t>(comm_.size()));
  comm_.all_gather(as_tensor(squares), as_tensor(of_all));
  return norm_of_squares(of_all);
}

void OptimizerPart::update(const AdamWStep& how, ThreadPool& pool) {
  const std::span<float> all = parameters_.padded();
  for (const Parameter& p : parameters_.all()) {
    const std::int64_t begin = std::max(p.offset, first_);
    const std::int64_t count = std::min(p.offset + p.count(), first_ + size_) - begin;
    if (count <= 0) continue;
    const auto part = [&](Value value) {
      return std::span(values_[static_cast<std::size_t>(value)])
          .subspan(static_cast<std::size_t>(begin - first_), static_cast<std::size_t>(count));
    };
    AdamWStep step = how;
    if (!p.tensor.is_matrix()) step.weight_decay = 0;
    adamw(step, all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
          part(Value::kMaster), part(Value::kExpAvg), part(Value::kExpAvgSq), pool);
  }
  const std::span<float> mine = own(all);
  std::ranges::copy(values_[0], mine.begin());
  comm_.all_gather(as_tensor(mine), as_tensor(all));
}

void OptimizerPart::take(Value value, std::span<const float> all) {
  const auto from = all.subspan(static_cast<std::size_t>(first_), static_cast<std::size_t>(size_));
  std::ranges::copy(from, values_[static_cast<std::size_t>(value)].begin());
}

void OptimizerPart::give(Value value, std::int64_t first, std::span<float> values) const {
  const std::int64_t begin = std::max(first, first_);
  const std::int64_t end = std::min(first + std::ssize(values), first_ + size_);
  if (begin >= end) return;
  const float* const from = &values_[static_cast<std::size_t>(value)][0] + (begin - first_);
  std::copy(from, from + (end - begin), &values[0] + (begin - first));
}

}  // namespace glint
