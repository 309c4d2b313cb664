#include "backends/cpu/packing.h"

#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"

namespace glint::cpu {
namespace {

static_assert(static_cast<int>(WeightFormat::kF32) == kCodeF32);
static_assert(static_cast<int>(WeightFormat::kBF16) == kCodeBf16);
static_assert(static_cast<int>(WeightFormat::kFp8Block) == kCodeFp8);
static_assert(static_cast<int>(WeightFormat::kNvfp4) == kCodeNvfp4);

std::int64_t row_bytes(const Weight& weight) {
  return weight.cols * 4 / per_dword(code_of(weight));
}
std::int64_t scale_groups(const Weight& weight) {
  return padded(kCodeNvfp4, weight.cols) / kNvfp4Group;
}

}  // namespace

PackArgs pack_rows(const Weight& weight, std::int64_t n0, std::int64_t k0, std::int64_t k,
                   std::byte* to) {
  const Code code = code_of(weight);
  const std::int64_t stride = row_bytes(weight);
  return {.rows = weight.data.data + n0 * stride + k0 * 4 / per_dword(code),
          .row_bytes = stride,
          .bytes = k * 4 / per_dword(code),
          .num_rows = static_cast<int>(std::min<std::int64_t>(kPanel, weight.rows - n0)),
          .panel_rows = kPanel,
          .panel = to};
}

PackArgs pack_row_scales(const Weight& weight, std::int64_t n0, std::int64_t k0, std::int64_t k,
                         std::byte* to) {
  const std::int64_t groups = weight.cols / kNvfp4Group;
  return {.rows = weight.scale.data + n0 * groups + k0 / kNvfp4Group,
          .row_bytes = groups,
          .bytes = k / kNvfp4Group,
          .num_rows = static_cast<int>(std::min<std::int64_t>(kPanel, weight.rows - n0)),
          .panel_rows = kPanel,
          .panel = to};
}

PartAt place_of(const PanelPart& part) {
  const auto& [weight, n0, begin, end] = part;
  PartAt at;
  if (weight.format == WeightFormat::kFp8Block) {  // in either layout
    at.scales = reinterpret_cast<const std::byte*>(weight.scale.row<float>(n0 / weight.block_rows) +
                                                   begin / weight.block_cols);
  }
  if (weight.layout != WeightLayout::kPacked) return at;
  const Code code = code_of(weight);
  const std::int64_t bytes = panel_bytes(code, weight.cols);
  at.codes = weight.data.data + n0 / kPanel * bytes + begin / per_dword(code) * kPanel * 4;
  at.bytes = panel_bytes(code, std::min<std::int64_t>(end - begin, kChunk));
  if (weight.format == WeightFormat::kNvfp4) {
    at.scales = weight.data.data + panels_of(weight) * bytes + n0 * scale_groups(weight) +
                begin / kNvfp4Group * kPanel;
  }
  return at;
}

namespace {

std::int64_t packed_data_bytes(const Weight& weight) {
  const std::int64_t scales =
      weight.format == WeightFormat::kNvfp4 ? scale_groups(weight) * kPanel : 0;
  return panels_of(weight) * (panel_bytes(code_of(weight), weight.cols) + scales);
}

// Neighbouring panels of one weight.
struct Stretch {
  const PackedPair* pair;
  std::int64_t first, end;
};

// Has the kernel map these pages of a file: what is not mapped cannot be prefetched.
void touch(const std::byte* data, std::int64_t bytes) {
  constexpr std::int64_t kPage = 4096;
  for (std::int64_t i = 0; i < bytes; i += kPage) {
    (void)*static_cast<const volatile std::byte*>(data + i);
  }
}

void pack_panels(const Kernels& kernels, const Stretch& stretch) {
  const auto& [from, to] = *stretch.pair;
  const std::int64_t bytes = panel_bytes(code_of(from), from.cols);
  const std::int64_t scale_bytes = scale_groups(from) * kPanel;
  std::byte* const scales = to.data.data + panels_of(from) * bytes;
  const std::int64_t source_bytes = row_bytes(from) * kPanel;
  for (std::int64_t p = stretch.first; p < stretch.end; ++p) {
    PackArgs rows = pack_rows(from, p * kPanel, 0, from.cols, to.data.data + p * bytes);
    rows.past_caches = true;
    if ((p + 2) * kPanel <= from.rows) {
      rows.next = from.data.data + (p + 1) * source_bytes;
      touch(rows.next, source_bytes);
    }
    kernels.pack[code_of(from)](rows);
    if (from.format != WeightFormat::kNvfp4) continue;
    kernels.pack_scales(pack_row_scales(from, p * kPanel, 0, from.cols, scales + p * scale_bytes));
  }
  if (stretch.first > 0) return;
  for (const auto& [part, copy] :
       {std::pair(from.scale, to.scale), std::pair(from.global_scale, to.global_scale)}) {
    if (copy) std::memcpy(copy.data, part.data, part.bytes().size());
  }
}

}  // namespace

std::int64_t packed_bytes(const Weight& weight) {
  const bool has_floats = weight.format == WeightFormat::kFp8Block;
  const std::int64_t floats = (has_floats ? weight.scale.size() : 0) + weight.global_scale.size();
  return packed_data_bytes(weight) + floats * std::int64_t{sizeof(float)};
}

Weight packed(const Weight& weight, std::byte* to) {
  GLINT_CHECK(weight.layout == WeightLayout::kRows, "the weight is packed already");
  Weight result = weight;
  result.layout = WeightLayout::kPacked;
  result.data = Tensor(to, DType::kU8, {packed_data_bytes(weight)});
  if (weight.format == WeightFormat::kNvfp4) result.scale = {};
  if (weight.format == WeightFormat::kFp8Block) result.scale.data = to + result.data.size();
  if (weight.global_scale) result.global_scale.data = to + result.data.size();
  return result;
}

void pack(const Kernels& kernels, ThreadPool& pool, std::span<const PackedPair> pairs) {
  // A task writes some megabytes in one stretch: new memory is then zeroed by the thread that fills
  // it, while it is in that thread's cache.
  constexpr std::int64_t kTaskBytes = std::int64_t{4} << 20;
  std::vector<Stretch> stretches;
  std::vector<std::size_t> tasks = {0};  // the first stretch of each
  std::int64_t filled = 0;
  for (const PackedPair& pair : pairs) {
    const std::int64_t panels = panels_of(pair.from);
    const std::int64_t bytes = packed_bytes(pair.from) / panels + 1;
    for (std::int64_t p = 0; p < panels;) {
      const std::int64_t count =
          std::clamp<std::int64_t>((kTaskBytes - filled) / bytes, 1, panels - p);
      stretches.push_back({&pair, p, p + count});
      p += count, filled += count * bytes;
      if (filled < kTaskBytes - bytes) continue;
      tasks.push_back(stretches.size());
      filled = 0;
    }
  }
  if (tasks.back() != stretches.size()) tasks.push_back(stretches.size());
  pool.run_dynamic(static_cast<std::int64_t>(tasks.size()) - 1, [&](std::int64_t task, int) {
    const auto i = static_cast<std::size_t>(task);
    for (std::size_t s = tasks[i]; s < tasks[i + 1]; ++s) pack_panels(kernels, stretches[s]);
  });
}

}  // namespace glint::cpu
