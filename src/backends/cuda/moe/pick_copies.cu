// pick_copies: a thread for each choice.
#include "backends/cuda/moe/moe.h"

namespace glint::cuda {
namespace {

constexpr int kBlock = 128;

struct Choices {
  const std::int32_t *ids, *positions, *first, *copies;
  std::int32_t* slots;
  std::int64_t count;
  int k;
};

__global__ void __launch_bounds__(kBlock) pick_copies_kernel(const Choices c) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i >= c.count) return;
  const std::int32_t id = c.ids[i];
  if (id < 0) {
    c.slots[i] = id;
    return;
  }
  const std::int64_t row = i / c.k;
  const std::uint32_t mixed = static_cast<std::uint32_t>(c.positions[row]) * 0x9E3779B1u +
                              static_cast<std::uint32_t>(row) * 0x85EBCA77u;
  const std::int32_t first = c.first[id];
  const auto copies = static_cast<std::uint32_t>(c.first[id + 1] - first);
  c.slots[i] = c.copies[first + static_cast<std::int32_t>((mixed >> 16) % copies)];
}

}  // namespace

void launch_pick_copies(const PickCopiesArgs& args, const Gpu& gpu) {
  const Choices choices = {.ids = args.ids.ptr<std::int32_t>(),
                           .positions = args.positions.ptr<std::int32_t>(),
                           .first = args.first.ptr<std::int32_t>(),
                           .copies = args.copies.ptr<std::int32_t>(),
                           .slots = args.slots.ptr<std::int32_t>(),
                           .count = args.ids.size(),
                           .k = static_cast<int>(args.ids.dim(1))};
  if (choices.count == 0) return;
  const std::int64_t blocks = (choices.count + kBlock - 1) / kBlock;
  pick_copies_kernel<<<static_cast<unsigned>(blocks), kBlock, 0, gpu.stream>>>(choices);
}

}  // namespace glint::cuda
