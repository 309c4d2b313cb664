#include "autograd/tape_comm.h"

#include "comm/host_rows.h"
#include "tensor/transfer.h"

namespace glint {

// Steps back write nothing down, so that they always run: all ranks take part, also one that
// nothing flows into.

void TapeOps::all_reduce(Comm& comm, const Tensor& partial, const Tensor& out) {
  if (!recording()) return comm.all_reduce(partial, out);
  about_to_update(out);
  comm.all_reduce(partial, out);
  add_step({}, [=, this, &comm] {
    const Tensor dout = shadow_->add_to(out);
    comm.all_reduce(dout, dout);
    if (partial.data == out.data) return;
    const Tensor dpartial = shadow_->add_to(partial);
    gradients_->add_back({.op = {.x = out, .y = partial}, .dx = dout, .dy = dpartial});
    fill_zero(device(), dout.data, dout.bytes().size());
  });
}

void TapeOps::all_gather(Comm& comm, const Tensor& mine, const Tensor& all) {
  const bool is_index = all.dtype == DType::kI32;
  if (!recording() || is_index) return comm.all_gather(mine, all);
  about_to_update(all);
  comm.all_gather(mine, all);
  add_step({}, [=, this, &comm] {
    const Arena::Scope scope(scratch_);
    const Tensor dall = shadow_->of(all);
    const Tensor dmine = scratch_.take(DType::kF32, {mine.dim(0), mine.dim(1)});
    comm.reduce_scatter(dall, dmine);
    fill_zero(device(), dall.data, dall.bytes().size());  // `mine` may lie in `all`
    if (mine.size() == 0) return;
    gradients_->add_back({.op = {.x = mine, .y = mine}, .dx = dmine, .dy = shadow_->add_to(mine)});
  });
}

void TapeOps::exchange(Comm& comm, const ExchangeArgs& args) {
  if (recording()) about_to_update(args.out);
  comm.exchange(args);
  const bool is_index = args.x.dtype == DType::kI32;
  if (!recording() || is_index) return;
  GLINT_CHECK(args.rows && args.out.is_dense(), "a recorded exchange is of chosen rows");
  std::vector<std::int32_t> offsets = download<std::int32_t>(args.offsets, device());
  ExchangeArgs told = args;  // by what a plan may read
  told.offsets.data = reinterpret_cast<std::byte*>(offsets.data());
  std::int64_t count = begin_of(told, comm.rank(), comm.size());
  if (args.backwards) {
    count = 0;
    for (int r = 0; r < comm.size(); ++r) count += dealt(told, r, comm.rank());
  }
  const std::vector<std::int32_t> first(args.first.begin(), args.first.end());
  add_step({}, [=, this, &comm] {
    const Arena::Scope scope(scratch_);
    const Tensor dout = shadow_->of(args.out), dx = shadow_->add_to(args.x);
    const Tensor dsent = scratch_.take(DType::kF32, {count, dx.dim(1)});
    comm.exchange({.x = dout,
                   .offsets = args.offsets,
                   .first = first,
                   .out = dsent,
                   .backwards = !args.backwards});
    fill_zero(device(), dout.data, dout.bytes().size());
    if (count == 0) return;
    // Shapes and types are all that is looked at of the forward pass.
    const auto dense = [&](std::int64_t rows) {
      return Tensor(args.x.data, args.x.dtype, {rows, dx.dim(1)});
    };
    gradients_->gather_rows_back(
        {.op = {.x = dense(dx.dim(0)), .rows = args.rows.slice(0, 0, count), .out = dense(count)},
         .dout = dsent,
         .dx = dx});
  });
}

}  // namespace glint
