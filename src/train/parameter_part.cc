#include "train/parameter_part.h"

#include <algorithm>
#include <bit>

#include "model/cut_weight.h"

namespace glint {
namespace {

bool is_cut(const ModelTensor& tensor, const MeshShape& shape) {
  return shape.tp > 1 && !ModelPartition{.shape = shape}.is_whole(tensor);
}

}  // namespace

bool is_dealt_out(const ModelTensor& tensor, const MeshShape& shape) {
  return tensor.role == TensorRole::kRoutedExpert && shape.ep > 1;
}

bool is_divided(const ModelTensor& tensor, const MeshShape& shape) {
  return is_dealt_out(tensor, shape) || is_cut(tensor, shape);
}

bool is_borrowed(const ModelTensor& tensor, const ModelPartition& partition) {
  return tensor.role == TensorRole::kEmbedding && !partition.is_first();
}

bool speaks_for(const ModelTensor& tensor, const ModelPartition& partition) {
  if (is_borrowed(tensor, partition)) return false;
  if (is_dealt_out(tensor, partition.shape)) return true;
  return partition.replica == 0 && (is_cut(tensor, partition.shape) || partition.tp_rank == 0);
}

ParameterBox box_of(const ModelTensor& tensor, const ModelPartition& partition) {
  ParameterBox box = {.copies = tensor.num_copies(),
                      .rows = tensor.is_matrix() ? tensor.rows : 1,
                      .cols = tensor.cols};
  if (is_dealt_out(tensor, partition.shape)) {
    box.copy = partition.experts.first;
    box.copies = partition.experts.count;
  } else if (is_cut(tensor, partition.shape)) {
    const bool by_columns = is_summed(tensor, partition);
    std::int64_t& count = by_columns ? box.cols : box.rows;
    count /= partition.shape.tp;
    (by_columns ? box.col : box.row) = partition.tp_rank * count;
  }
  return box;
}

std::vector<Stretch> stretches_of(const ModelTensor& tensor, const ParameterBox& box) {
  const std::int64_t rows = tensor.is_matrix() ? tensor.rows : 1;
  // Whole rows lie together, and whole copies too.
  const bool joins_rows = box.cols == tensor.cols, joins_copies = joins_rows && box.rows == rows;
  const std::int64_t copies = joins_copies ? 1 : box.copies, lines = joins_rows ? 1 : box.rows;
  const std::int64_t count = box.size() / (copies * lines);
  std::vector<Stretch> all;
  for (std::int64_t c = 0; c < copies; ++c) {
    for (std::int64_t r = 0; r < lines; ++r) {
      const std::int64_t row = (box.copy + c) * rows + box.row + r;
      all.push_back({.in_whole = row * tensor.cols + box.col,
                     .in_part = (c * lines + r) * count,
                     .count = count});
    }
  }
  return all;
}

std::vector<float> take_part(const ModelTensor& tensor, const ParameterBox& box,
                             std::span<const float> whole) {
  std::vector<float> part(static_cast<std::size_t>(box.size()));
  for (const Stretch& s : stretches_of(tensor, box)) {
    std::copy_n(&whole[0] + s.in_whole, s.count, &part[0] + s.in_part);
  }
  return part;
}

void put_part(const ModelTensor& tensor, const ParameterBox& box, std::span<const float> part,
              std::span<float> whole) {
  for (const Stretch& s : stretches_of(tensor, box)) {
    std::copy_n(&part[0] + s.in_part, s.count, &whole[0] + s.in_whole);
  }
}

void join_shares(std::span<float> numbers, std::span<const float> others) {
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(others[i]) != 0) numbers[i] = others[i];
  }
}

}  // namespace glint
