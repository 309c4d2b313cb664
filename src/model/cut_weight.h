// Parts of a matrix that a rank holds. Every number of a part is exactly that of the whole: a cut
// may lie inside an FP8 block or an NVFP4 group, whose scale then both sides have.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/model_partition.h"
#include "tensor/device.h"
#include "tensor/weight.h"

namespace glint {

class ThreadPool;

// Where parts that are no views of the whole are written, and on which threads.
struct CutMemory {
  ThreadPool& pool;
  std::vector<Buffer>& owned;
};

// Rows (outputs) [begin, begin + count): a view, where the format allows it.
//
// The part has the format that it has on any number of ranks, so that a row's product has the same
// bits on all of them: `unit` divides every place where a rank may cut. FP8 keeps its codes if it
// is a multiple of 32, else all of it becomes f32, even if nothing is cut off.
struct RowCut {
  std::int64_t begin = 0, count = 0, unit = 1;
};
Result<Weight> cut_rows(const Weight& whole, const RowCut& cut, const CutMemory& memory);

// Slice `index` of `count` equal ones of the columns (inputs), as a copy; FP8 keeps its codes if a
// slice is a multiple of 32 columns, NVFP4 if it is one of 16; else it becomes f32.
Result<Weight> cut_columns(const Weight& whole, int index, int count, const CutMemory& memory);

// The part of `whole`, which is `tensor`, that a rank has: all rows of its share, or, where it
// holds partial sums (is_summed), the columns of its slice number `slice`.
Result<Weight> part_of(const Weight& whole, const ModelTensor& tensor,
                       const ModelPartition& partition, int slice, const CutMemory& memory);

// Whether ranks have columns of it, and partial sums of all its outputs.
bool is_summed(const ModelTensor& tensor, const ModelPartition& partition);

}  // namespace glint
