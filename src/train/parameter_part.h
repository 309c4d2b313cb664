// The part of a trained tensor that a rank has, where ranks divide it: a box of its copies, rows
// and columns; and who else has the same.
#pragma once

#include <span>
#include <vector>

#include "model/model_partition.h"

namespace glint {

// Whether each rank of a stage has other experts of it.
bool is_dealt_out(const ModelTensor& tensor, const MeshShape& shape);
// Whether ranks of a stage have different parts of it, these or others.
bool is_divided(const ModelTensor& tensor, const MeshShape& shape);
// Whether it is the first stage's, and `partition` has it as well: the embedding, for the draft
// layer or as the head.
bool is_borrowed(const ModelTensor& tensor, const ModelPartition& partition);
// Whether the rank of `partition` speaks for all ranks that have the same part of the tensor.
bool speaks_for(const ModelTensor& tensor, const ModelPartition& partition);

// Which copies (experts), rows and columns, in the order of the checkpoint. A vector is one row.
struct ParameterBox {
  std::int64_t copy = 0, copies = 0, row = 0, rows = 0, col = 0, cols = 0;

  std::int64_t size() const { return copies * rows * cols; }
  bool operator==(const ParameterBox&) const = default;
};
ParameterBox box_of(const ModelTensor& tensor, const ModelPartition& partition);

// Numbers that lie one after another in the whole and in the part.
struct Stretch {
  std::int64_t in_whole = 0, in_part = 0, count = 0;
};
std::vector<Stretch> stretches_of(const ModelTensor& tensor, const ParameterBox& box);

// The numbers of the part, from those of the whole; and back.
std::vector<float> take_part(const ModelTensor& tensor, const ParameterBox& box,
                             std::span<const float> whole);
void put_part(const ModelTensor& tensor, const ParameterBox& box, std::span<const float> part,
              std::span<float> whole);
// numbers[i] becomes others[i] where that has a bit, as of shares, where one of both is 0.
void join_shares(std::span<float> numbers, std::span<const float> others);

}  // namespace glint
