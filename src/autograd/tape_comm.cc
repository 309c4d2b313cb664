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
    const Tensor dall = shadow_->of(all);
    std::vector<float> sum(static_cast<std::size_t>(mine.size()));
    const Tensor whole(reinterpret_cast<std::byte*>(sum.data()), DType::kF32,
                       {mine.dim(0), mine.dim(1)});
    comm.reduce_scatter(dall, whole);
    fill_zero(device(), dall.data, dall.bytes().size());  // `mine` may lie in `all`
    if (sum.empty()) return;
    gradients_->add_back({.op = {.x = mine, .y = mine}, .dx = whole, .dy = shadow_->add_to(mine)});
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
    const Tensor dout = shadow_->of(args.out), dx = shadow_->add_to(args.x);
    const std::int64_t width = dx.dim(1);
    std::vector<float> dsent(static_cast<std::size_t>(count * width));
    comm.exchange(
        {.x = dout,
         .offsets = args.offsets,
         .first = first,
         .out = Tensor(reinterpret_cast<std::byte*>(dsent.data()), DType::kF32, {count, width}),
         .backwards = !args.backwards});
    fill_zero(device(), dout.data, dout.bytes().size());
    for (std::int64_t i = 0; i < count; ++i) {
      float* const to = dx.row<float>(args.rows.ptr<std::int32_t>()[i]);
      for (std::int64_t d = 0; d < width; ++d)
        to[d] += dsent[static_cast<std::size_t>(i * width + d)];
    }
  });
}

}  // namespace glint
