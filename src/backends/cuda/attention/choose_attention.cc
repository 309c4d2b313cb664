#include "backends/cuda/attention/choose_attention.h"

#include "base/ceil_div.h"

namespace glint::cuda {
namespace mla512 {

Kernel choose_kernel(const Shape& shape, const Arch& arch, int num_sms) {
  constexpr std::int64_t kFewTokens = 16, kManyTokens = 128;
  const auto fits = [&](int stages, int parts) {
    return shared_bytes(shape.fp8, stages, parts) <= arch.shared_bytes;
  };
  // Without clusters a thread block has all keys, and the other kernel would not end its sums where
  // this one does.
  if ((shape.tokens >= kManyTokens || !arch.clusters) && shape.k <= kMostKeys) {
    return {.way = Way::kOneBlock};
  }
  const std::int64_t clusters = shape.tokens * ceil_div(shape.heads, std::int64_t{kHeads});
  const bool has_parts = arch.clusters && shape.k <= kMostKeys;
  // A cluster's keys come through one corner of the device, and few clusters leave the others idle.
  if (has_parts && clusters <= (shape.fp8 ? 4 : 2)) return {.way = Way::kFewTokens};
  // Two thread blocks share a multiprocessor. Somewhat more tokens than there is room for clusters
  // of eight take smaller ones.
  if (has_parts && clusters > clusters_at_once(num_sms, kMostParts, 2)) {
    if (clusters <= num_sms * 2 / 5 && fits(2, 2)) return {.stages = 2, .parts = 2};
    if (clusters <= num_sms / 2 && fits(4, 4)) return {.stages = 4, .parts = 4};
  }
  // Few that do not fill a multiprocessor have more keys under way, as far as its shared memory
  // goes.
  const int most_stages = shape.fp8 ? 7 : 5;
  if (shape.tokens <= kFewTokens && fits(most_stages, 1)) return {.stages = most_stages};
  return {.stages = shape.fp8 && fits(3, 1) ? 3 : 2};
}

}  // namespace mla512

namespace top_keys {

Kernel choose_kernel(std::int64_t tokens, std::int64_t keys, const Arch& arch, int num_sms) {
  // Keys of a thread block, where tokens are few, and where they have enough blocks for all
  // multiprocessors, which need not meet then.
  constexpr std::int64_t kKeysOfFew = 4096, kKeysOfMany = 24576;
  const std::int64_t room = keys_of_block(arch);
  const std::int64_t wanted = std::min(tokens < num_sms ? kKeysOfFew : kKeysOfMany, room);
  int blocks = 1;
  while (blocks < most_blocks(arch) && keys > wanted * blocks) blocks *= 2;
  const std::int64_t each = ceil_div(keys, std::int64_t{blocks});
  return {.blocks = blocks, .capacity = each <= room ? each : 0};
}

}  // namespace top_keys
}  // namespace glint::cuda
