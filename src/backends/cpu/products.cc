#include "backends/cpu/products.h"

#include <algorithm>
#include <cstring>

namespace glint::cpu {
namespace {

static_assert(static_cast<int>(WeightFormat::kF32) == kCodeF32);
static_assert(static_cast<int>(WeightFormat::kBF16) == kCodeBf16);
static_assert(static_cast<int>(WeightFormat::kFp8Block) == kCodeFp8);
static_assert(static_cast<int>(WeightFormat::kNvfp4) == kCodeNvfp4);

Code code_of(const Weight& weight) { return static_cast<Code>(weight.format); }
std::int64_t panels_of(const Weight& weight) { return (weight.rows + kPanel - 1) / kPanel; }
std::int64_t row_bytes(const Weight& weight) {
  return weight.cols * 4 / per_dword(code_of(weight));
}
std::int64_t scale_groups(const Weight& weight) {
  return padded(kCodeNvfp4, weight.cols) / kNvfp4Group;
}

constexpr std::int64_t kScalesAhead = 512;

// `bytes` at `at` of what ends at `end`, after which `next` is read.
struct ChunkAt {
  const std::byte* at;
  std::int64_t bytes;
  const std::byte* end;
  const std::byte* next;
};

// For a chunk that is read once, line after line.
Ahead ahead_by(std::int64_t distance, const ChunkAt& chunk) {
  if (!chunk.next) return {.at = chunk.at};
  const std::byte* const at = chunk.at + distance;
  return {.at = at < chunk.end ? at : chunk.next + (at - chunk.end),
          .end = chunk.end,
          .next = chunk.next,
          .step = 64};
}

// For a chunk of which `lines` lines are read in all, again and again: memory brings what follows
// it evenly meanwhile. A single reading would be faster than memory, the others leave it idle.
Ahead ahead_evenly(std::int64_t lines, const ChunkAt& chunk) {
  const std::byte* const at =
      chunk.at + chunk.bytes < chunk.end ? chunk.at + chunk.bytes : chunk.next;
  if (!at) return {.at = chunk.at};
  return {.at = at, .step = (chunk.bytes + lines - 1) / lines};
}

// Rows [n0, n0 + kPanel), columns [k0, k0 + k) of a weight in rows, to be packed to `to`.
PackArgs pack_rows(const Weight& weight, std::int64_t n0, std::int64_t k0, std::int64_t k,
                   std::byte* to) {
  const Code code = code_of(weight);
  const std::int64_t stride = row_bytes(weight);
  return {.rows = weight.data.data + n0 * stride + k0 * 4 / per_dword(code),
          .row_bytes = stride,
          .bytes = k * 4 / per_dword(code),
          .num_rows = static_cast<int>(std::min<std::int64_t>(kPanel, weight.rows - n0)),
          .panel_rows = kPanel,
          .panel = to,
          .ahead = 0,
          .next = nullptr,
          .past_caches = false};
}
// The same of its scales in nvfp4.
PackArgs pack_row_scales(const Weight& weight, std::int64_t n0, std::int64_t k0, std::int64_t k,
                         std::byte* to) {
  const std::int64_t groups = weight.cols / kNvfp4Group;
  return {.rows = weight.scale.data + n0 * groups + k0 / kNvfp4Group,
          .row_bytes = groups,
          .bytes = k / kNvfp4Group,
          .num_rows = static_cast<int>(std::min<std::int64_t>(kPanel, weight.rows - n0)),
          .panel_rows = kPanel,
          .panel = to,
          .ahead = 0,
          .next = nullptr,
          .past_caches = false};
}

}  // namespace

std::byte* Growing::at_least(std::int64_t bytes) {
  if (static_cast<std::int64_t>(buffer_.bytes()) < bytes) {
    buffer_ = {};
    buffer_ = make_host_device()->allocate(static_cast<std::size_t>(bytes));
    GLINT_CHECK(buffer_.data(), "no memory for a product's rows");
  }
  return buffer_.data();
}

Products::Products(const Kernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {
  for (int i = 0; i < pool.num_threads(); ++i) scratch_.push_back(std::make_unique<Scratch>());
}

bool Products::in_bf16(DType x, WeightFormat weight) const {
  return kernels_.has_bf16 && x == DType::kBF16 && weight != WeightFormat::kF32;
}

Rows Products::rows_of(const Tensor& x, bool as_bf16, Growing& copy) const {
  const Family& family = as_bf16 ? kernels_.bf16 : kernels_.f32;
  const bool has_rows = x.dim(0) <= family.tile_tokens || x.dim(0) % family.x_rows == 0;
  if ((x.dtype == DType::kBF16) == as_bf16 && x.dim(1) % family.x_align == 0 && has_rows) {
    return {.data = x.data,
            .stride = x.stride[0],
            .count = x.dim(0),
            .readable = x.dim(0),
            .is_bf16 = as_bf16};
  }
  return gather(x, {}, as_bf16, copy);
}

Rows Products::gather(const Tensor& x, std::span<const std::int32_t> rows, bool as_bf16,
                      Growing& copy) const {
  const std::int64_t K = x.dim(1);
  const std::int64_t count = rows.empty() ? x.dim(0) : static_cast<std::int64_t>(rows.size());
  const std::int64_t stride = x_stride(K);
  const int size = as_bf16 ? 2 : 4;
  const std::int64_t align = (as_bf16 ? kernels_.bf16 : kernels_.f32).x_rows;
  const std::int64_t readable = (count + align - 1) / align * align;
  std::byte* to = copy.at_least(readable * stride * size);
  const auto copy_row = [&](std::int64_t r, int) {
    const std::int64_t source = rows.empty() ? r : rows[static_cast<std::size_t>(r)];
    const std::byte* from = x.data + source * x.stride[0] * size_of(x.dtype);
    std::byte* row = to + r * stride * size;
    kernels_.convert(from, x.dtype == DType::kBF16, row, as_bf16, K);
    std::memset(row + K * size, 0, static_cast<std::size_t>((stride - K) * size));
  };
  constexpr std::int64_t kWorthAPhase = 1 << 15;  // elements; a phase costs a microsecond or two
  if (count * K < kWorthAPhase) {
    for (std::int64_t r = 0; r < count; ++r) copy_row(r, 0);
  } else {
    pool_.run(count, copy_row);
  }
  return {.data = to, .stride = stride, .count = count, .readable = readable, .is_bf16 = as_bf16};
}

const Rows& TypedRows::of(const Weight& weight) {
  const bool as_bf16 = products_.in_bf16(x_.dtype, weight.format);
  Rows& made = made_[as_bf16];
  if (made.data) return made;
  Growing& copy = as_bf16 ? copies_.bf16 : copies_.f32;
  return made = rows_.empty() ? products_.rows_of(x_, as_bf16, copy)
                              : products_.gather(x_, rows_, as_bf16, copy);
}

Rows TypedRows::of(const Weight& weight, std::int64_t first, std::int64_t count) {
  Rows part = of(weight);
  part.data =
      static_cast<const std::byte*>(part.data) + first * part.stride * (part.is_bf16 ? 2 : 4);
  part.count = count;
  part.readable -= first;
  return part;
}

void Products::run(std::span<const Product> products) {
  first_.clear();
  std::int64_t panels = 0;
  for (const Product& product : products) {
    first_.push_back(panels);
    if (product.x.count) panels += panels_of(product.weight);
  }
  struct Place {
    const Product& product;
    std::int64_t n0;
  };
  const auto place_of = [&](std::int64_t panel) {
    const auto i = std::upper_bound(first_.begin(), first_.end(), panel) - first_.begin() - 1;
    return Place{products[static_cast<std::size_t>(i)],
                 (panel - first_[static_cast<std::size_t>(i)]) * kPanel};
  };
  pool_.run_foreseen(panels, [&](std::int64_t panel, std::int64_t following, int thread) {
    const auto [product, n0] = place_of(panel);
    PanelAt next;
    if (following < panels) {
      const Place place = place_of(following);
      next = panel_at(place.product.weight, place.n0);
    }
    run_panel(product, n0, scratch(thread), next);
    if (following >= panels) kernels_.leave_tiles(scratch(thread).tiles);
  });
}

void Products::run_panel(const Product& product, std::int64_t n0, Scratch& scratch,
                         const PanelAt& next) const {
  const Tensor& out = product.out;
  const std::int64_t stride = out.stride[0] * size_of(out.dtype);
  const int x_size = product.x.is_bf16 ? 2 : 4;
  for (std::int64_t t0 = 0; t0 < product.x.count; t0 += Scratch::kTokens) {
    Rows x = product.x;
    x.data = static_cast<const std::byte*>(x.data) + t0 * x.stride * x_size;
    x.count = std::min<std::int64_t>(x.count - t0, Scratch::kTokens);
    x.readable = std::min<std::int64_t>(x.readable - t0, Scratch::kTokens);
    multiply_panel(product.weight, n0, x, scratch, scratch.c[0],
                   product.up ? panel_at(product.up, n0) : next);
    if (product.up) multiply_panel(product.up, n0, x, scratch, scratch.c[1], next);
    kernels_.store(
        {.c = scratch.c[0],
         .up = product.up ? scratch.c[1] : nullptr,
         .scale = product.weight.global_scale,
         .up_scale = product.up.global_scale,
         .out = out.data + t0 * stride + n0 * size_of(out.dtype),
         .out_bytes = stride,
         .rows = x.count,
         .size = static_cast<int>(std::min<std::int64_t>(kPanel, product.weight.rows - n0)),
         .is_bf16 = out.dtype == DType::kBF16});
  }
}

PanelAt panel_at(const Weight& weight, std::int64_t n0) {
  if (weight.layout != WeightLayout::kPacked) return {};
  const std::int64_t bytes = panel_bytes(code_of(weight), kPanel, weight.cols);
  PanelAt at = {.codes = weight.data.data + n0 / kPanel * bytes};
  if (weight.format == WeightFormat::kNvfp4) {
    at.scales = weight.data.data + panels_of(weight) * bytes + n0 * scale_groups(weight);
  }
  if (weight.format == WeightFormat::kFp8Block) {
    at.scales = reinterpret_cast<const std::byte*>(weight.scale.row<float>(n0 / kFp8Block));
  }
  return at;
}

void Products::multiply_panel(const Weight& weight, std::int64_t n0, const Rows& x,
                              Scratch& scratch, float* c, const PanelAt& next) const {
  const Family& family = x.is_bf16 ? kernels_.bf16 : kernels_.f32;
  const Code code = code_of(weight);
  const std::int64_t K = weight.cols;
  const bool is_packed = weight.layout == WeightLayout::kPacked;
  const bool decodes = x.count <= family.decode_tokens[code];
  // One pass over all of k where the codes are read once; else chunks that stay in L1.
  const bool reads_once = decodes && x.count <= family.tile_tokens;
  const std::int64_t step = is_packed && reads_once ? K : kChunk;
  // Readings of a chunk by the tiles, if memory can bring the next one meanwhile.
  const std::int64_t readings = reads_once || !family.tile_tokens
                                    ? 0
                                    : (x.count + family.tile_tokens - 1) / family.tile_tokens;
  const std::int64_t distance = family.ahead[x.count > 1][code];
  const PanelAt packed = panel_at(weight, n0);
  if (code == kCodeFp8 && next.scales) __builtin_prefetch(next.scales);
  for (std::int64_t k0 = 0; k0 < K; k0 += step) {
    const std::int64_t k = std::min(step, K - k0);
    const std::int64_t aligned = (k + family.x_align - 1) / family.x_align * family.x_align;
    TileArgs tile = {.w = nullptr,
                     .scale = nullptr,
                     .panel_rows = kPanel,
                     .x = static_cast<const std::byte*>(x.data) + k0 * (x.is_bf16 ? 2 : 4),
                     .x_stride = x.stride,
                     .tokens = static_cast<int>(x.count),
                     .rows = static_cast<int>(x.readable),
                     .k = static_cast<int>(aligned),
                     .c = c,
                     .starts = k0 == 0,
                     .ahead = {},
                     .scale_ahead = {},
                     .tiles = &scratch.tiles};
    if (is_packed) {
      const std::byte* const codes = packed.codes + k0 / per_dword(code) * kPanel * 4;
      tile.w = codes;
      const ChunkAt chunk = {.at = codes,
                             .bytes = (k + per_dword(code) - 1) / per_dword(code) * kPanel * 4,
                             .end = packed.codes + panel_bytes(code, kPanel, K),
                             .next = next.codes};
      const std::int64_t lines = (decodes ? chunk.bytes : k * kPanel * 2) / 64;
      tile.ahead = readings ? ahead_evenly(readings * lines, chunk) : ahead_by(distance, chunk);
    } else {
      PackArgs rows = pack_rows(weight, n0, k0, k, scratch.codes);
      // With few tokens memory is slower than the arithmetic: the next panel's rows are on their
      // way.
      if (x.count <= 16 && n0 + 2 * kPanel <= weight.rows) rows.ahead = kPanel * rows.row_bytes;
      kernels_.pack[code](rows);
      tile.w = scratch.codes;
      tile.ahead.at = scratch.codes;
    }
    if (code == kCodeFp8) tile.scale = weight.scale.row<float>(n0 / kFp8Block) + k0 / kFp8Block;
    if (code == kCodeNvfp4 && is_packed) {
      const std::byte* const scales = packed.scales + k0 / kNvfp4Group * kPanel;
      tile.scale = scales;
      tile.scale_ahead =
          ahead_by(kScalesAhead, {.at = scales,
                                  .bytes = 0,
                                  .end = packed.scales + scale_groups(weight) * kPanel,
                                  .next = next.scales});
    } else if (code == kCodeNvfp4) {
      kernels_.pack_scales(pack_row_scales(weight, n0, k0, k, scratch.scale_codes));
      tile.scale = scratch.scale_codes;
      tile.scale_ahead.at = scratch.scale_codes;
    }
    if (decodes) {
      family.decode_multiply[code](tile);
      continue;
    }
    family.expand[code]({.panel = static_cast<const std::byte*>(tile.w),
                         .scale = tile.scale,
                         .k = static_cast<int>((k + 31) / 32 * 32),
                         .out = scratch.numbers,
                         .scales = scratch.scales,
                         .ahead = readings ? Ahead{} : tile.ahead});
    tile.w = scratch.numbers;
    if (!readings) tile.ahead = {.at = reinterpret_cast<const std::byte*>(scratch.numbers)};
    if (code == kCodeNvfp4) tile.scale = scratch.scales;
    family.multiply[code](tile);
  }
}

namespace {

std::int64_t packed_data_bytes(const Weight& weight) {
  const std::int64_t scales =
      weight.format == WeightFormat::kNvfp4 ? scale_groups(weight) * kPanel : 0;
  return panels_of(weight) * (panel_bytes(code_of(weight), kPanel, weight.cols) + scales);
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
  const std::int64_t bytes = panel_bytes(code_of(from), kPanel, from.cols);
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
  if (from.format == WeightFormat::kFp8Block && stretch.first == 0) {
    std::memcpy(to.scale.data, from.scale.data,
                static_cast<std::size_t>(from.scale.size()) * sizeof(float));
  }
}

}  // namespace

std::int64_t packed_bytes(const Weight& weight) {
  const bool has_floats = weight.format == WeightFormat::kFp8Block;
  return packed_data_bytes(weight) +
         (has_floats ? weight.scale.size() * std::int64_t{sizeof(float)} : 0);
}

Weight packed(const Weight& weight, std::byte* to) {
  GLINT_CHECK(weight.layout == WeightLayout::kRows, "the weight is packed already");
  Weight result = weight;
  result.layout = WeightLayout::kPacked;
  result.data = Tensor(to, DType::kU8, {packed_data_bytes(weight)});
  if (weight.format == WeightFormat::kNvfp4) result.scale = {};
  if (weight.format == WeightFormat::kFp8Block) result.scale.data = to + result.data.size();
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
