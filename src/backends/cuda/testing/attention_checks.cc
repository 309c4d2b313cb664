#include <vector>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/testing/device_checks.h"
#include "backends/cuda/testing/device_values.h"

namespace glint::cuda {
namespace {

// Tokens at the start of a prompt, whose keys are one list, together and each alone.
std::string attention_of_a_token_does_not_depend_on_its_batch(Ops& ops) {
  constexpr std::int64_t kTokens = 300, kHeads = 8, kLatent = 512, kRope = 64, kKeys = 600,
                         kSlots = 10 * kPageSize;
  Device& device = ops.device();
  const Values latent(device, kTokens, kHeads * kLatent, 15),
      rope(device, kTokens, kHeads * kRope, 16);
  const Values cache(device, kSlots, kLatent + kRope, 17);
  const Values all(device, kTokens, kHeads * kLatent, 0), some(device, 60, kHeads * kLatent, 0);
  std::vector<std::int32_t> slots;
  for (std::int32_t t = 0; t < kTokens; ++t) {
    for (std::int32_t j = 0; j < kKeys; ++j) slots.push_back(j <= 2 * t ? kSlots - 1 - j : -1);
  }
  const Buffer buffer = device.allocate(slots.size() * sizeof(slots[0]));
  device.copy_in(buffer.data(), slots.data(), slots.size() * sizeof(slots[0]));
  const Tensor indices(buffer.data(), DType::kI32, {kTokens, kKeys});
  const auto attend = [&](std::int64_t first, std::int64_t count, const Tensor& out) {
    ops.sparse_mla({.q_latent = latent.tensor().slice(0, first, count).heads(kHeads),
                    .q_rope = rope.tensor().slice(0, first, count).heads(kHeads),
                    .kv = {.data = cache.tensor().data,
                           .format = LatentFormat::kBF16,
                           .num_slots = cache.tensor().dim(0),
                           .latent_dim = kLatent,
                           .rope_dim = kRope},
                    .indices = indices.slice(0, first, count),
                    .softmax_scale = 0.0625f,
                    .out = out.heads(kHeads)});
  };
  attend(0, kTokens, all.tensor());
  // Alone, and among as many as clusters of four and two thread blocks are for.
  for (const std::int64_t count : {1, 32, 60}) {
    for (const std::int64_t first : {0, 1, 31, 32, 120, 200, 240}) {
      const Tensor found = some.tensor().slice(0, 0, count);
      attend(first, count, found);
      const auto difference = compare_bits(device, str(count, " from token ", first).c_str(), found,
                                           all.tensor().slice(0, first, count));
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

// Tokens of two sequences, which see more keys than are selected, together and each alone.
std::string selection_of_a_token_does_not_depend_on_its_batch(Ops& ops) {
  constexpr std::int64_t kTokens = 403, kHeads = 32, kDim = 128, kKeys = 64, kPages = 48;
  Device& device = ops.device();
  const Values q(device, kTokens, kHeads * kDim, 21);
  const Values<float> weights(device, kTokens, kHeads, 22);
  std::vector<std::int32_t> positions, seqs, pages;
  for (std::int32_t t = 0; t < kTokens; ++t) {
    const bool second = t >= 250;
    seqs.push_back(second), positions.push_back(second ? 2400 + t : 3 * t);
  }
  for (std::int32_t i = 0; i < 2 * kPages; ++i) pages.push_back(2 * kPages - 1 - i);
  const auto put = [&](const std::vector<std::int32_t>& from) {
    Buffer buffer = device.allocate(from.size() * 4);
    device.copy_in(buffer.data(), from.data(), from.size() * 4);
    return buffer;
  };
  const Buffer positions_at = put(positions), seqs_at = put(seqs), pages_at = put(pages);
  const Buffer all_at = device.allocate(kTokens * kKeys * 4), one_at = device.allocate(kKeys * 4);
  for (const IndexFormat format : {IndexFormat::kBF16, IndexFormat::kFp8}) {
    IndexCache cache = {.format = format, .num_slots = 2 * kPages * kPageSize, .dim = kDim};
    const CodedWeight keys(device, WeightFormat::kBF16, 2 * kPages * kPageSize, kDim + 64);
    cache.data = keys.weight().data.data;
    const auto select = [&](std::int64_t first, std::int64_t count, std::byte* out) {
      BatchView batch = {};
      batch.positions = Tensor(positions_at.data() + first * 4, DType::kI32, {count});
      batch.seqs = Tensor(seqs_at.data() + first * 4, DType::kI32, {count});
      batch.page_table = Tensor(pages_at.data(), DType::kI32, {2, kPages});
      ops.select_keys({.q = q.tensor().slice(0, first, count).heads(kHeads),
                       .weights = weights.tensor().slice(0, first, count),
                       .batch = batch,
                       .cache = cache,
                       .out = Tensor(out, DType::kI32, {count, kKeys})});
    };
    select(0, kTokens, all_at.data());
    for (const std::int64_t token : {0, 21, 22, 100, 247, 249, 250, 251, 399, 402}) {
      select(token, 1, one_at.data());
      const auto difference =
          compare_bits(device, str("token ", token, ", keys in ", name_of(format)).c_str(),
                       Tensor(all_at.data() + token * kKeys * 4, DType::kI32, {1, kKeys}),
                       Tensor(one_at.data(), DType::kI32, {1, kKeys}));
      if (!difference.empty()) return difference;
    }
  }
  return "";
}

// As on a device whose thread blocks meet no others, and hold fewer keys than these.
std::string keys_that_a_thread_block_cannot_hold_are_selected_alike(Ops& ops) {
  constexpr std::int64_t kTokens = 5, kHeads = 32, kDim = 128, kKeys = 2048, kPages = 400;
  auto& device = static_cast<CudaDevice&>(ops.device());
  const Values q(device, kTokens, kHeads * kDim, 80);
  const Values<float> weights(device, kTokens, kHeads, 81);
  std::vector<std::int32_t> numbers;  // positions, seqs, pages
  for (std::int32_t t = 0; t < kTokens; ++t) numbers.push_back(kPages * kPageSize - 1 - 5000 * t);
  numbers.resize(2 * kTokens);
  for (std::int32_t i = 0; i < kPages; ++i) numbers.push_back(kPages - 1 - i);
  const Buffer numbers_at = device.allocate(numbers.size() * 4),
               scores = device.allocate(kScoreBytes);
  device.copy_in(numbers_at.data(), numbers.data(), numbers.size() * 4);
  const CodedWeight keys(device, WeightFormat::kBF16, kPages * kPageSize, kDim);
  const Buffer found = device.allocate(2 * kTokens * kKeys * 4);
  const auto select = [&](const Arch& arch, std::int64_t row) {
    const Tensor out(found.data() + row * kKeys * 4, DType::kI32, {kTokens, kKeys});
    BatchView batch = {};
    batch.positions = Tensor(numbers_at.data(), DType::kI32, {kTokens});
    batch.seqs = Tensor(numbers_at.data() + kTokens * 4, DType::kI32, {kTokens});
    batch.page_table = Tensor(numbers_at.data() + 2 * kTokens * 4, DType::kI32, {1, kPages});
    const SelectKeysArgs args = {.q = q.tensor().heads(kHeads),
                                 .weights = weights.tensor(),
                                 .batch = batch,
                                 .cache = {.data = keys.weight().data.data,
                                           .format = IndexFormat::kBF16,
                                           .num_slots = kPages * kPageSize,
                                           .dim = kDim},
                                 .out = out};
    device.run("select_keys", [&](Gpu gpu) {
      gpu.arch = arch;
      launch_top_keys(args, reinterpret_cast<float*>(scores.data()), gpu);
    });
    return out;
  };
  const Tensor held = select(device.gpu().arch, 0), read_again = select(arch_of(86), kTokens);
  return compare_bits(device, "keys that are read again", read_again, held);
}

}  // namespace

std::vector<DeviceCheck> attention_checks() {
  return {{"attention_of_a_token_does_not_depend_on_its_batch",
           attention_of_a_token_does_not_depend_on_its_batch},
          {"selection_of_a_token_does_not_depend_on_its_batch",
           selection_of_a_token_does_not_depend_on_its_batch},
          {"keys_that_a_thread_block_cannot_hold_are_selected_alike",
           keys_that_a_thread_block_cannot_hold_are_selected_alike}};
}

}  // namespace glint::cuda
