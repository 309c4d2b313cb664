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
std::int64_t scale_groups(const Weight& weight) { return padded(weight.cols) / kNvfp4Group; }

// Far enough ahead that memory answers in time, near enough that the lines are still in L1.
constexpr std::int64_t kAhead = 2048;

// Rows [n0, n0 + kPanel), columns [k0, k0 + k) of a weight in rows, as a panel at `to`.
void pack_rows(const Kernels& kernels, const Weight& weight, std::int64_t n0, std::int64_t k0,
               std::int64_t k, bool prefetch, std::byte* to) {
  const Code code = code_of(weight);
  const std::int64_t stride = row_bytes(weight);
  const auto num_rows = static_cast<int>(std::min<std::int64_t>(kPanel, weight.rows - n0));
  // The next panel is in cache when its turn comes.
  const bool next_is_whole = n0 + 2 * kPanel <= weight.rows;
  kernels.pack[code]({.rows = weight.data.data + n0 * stride + k0 * 4 / per_dword(code),
                      .row_bytes = stride,
                      .bytes = k * 4 / per_dword(code),
                      .num_rows = num_rows,
                      .panel_rows = kPanel,
                      .panel = to,
                      .ahead = prefetch && next_is_whole ? kPanel * stride : 0});
}
void pack_row_scales(const Kernels& kernels, const Weight& weight, std::int64_t n0, std::int64_t k0,
                     std::int64_t k, std::byte* to) {
  const std::int64_t groups = weight.cols / kNvfp4Group;
  kernels.pack_scales(
      {.rows = weight.scale.data + n0 * groups + k0 / kNvfp4Group,
       .row_bytes = groups,
       .bytes = k / kNvfp4Group,
       .num_rows = static_cast<int>(std::min<std::int64_t>(kPanel, weight.rows - n0)),
       .panel_rows = kPanel,
       .panel = to,
       .ahead = 0});
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
  if ((x.dtype == DType::kBF16) == as_bf16 && x.dim(1) % family.x_align == 0) {
    return {.data = x.data, .stride = x.stride[0], .count = x.dim(0), .is_bf16 = as_bf16};
  }
  return gather(x, {}, as_bf16, copy);
}

Rows Products::gather(const Tensor& x, std::span<const std::int32_t> rows, bool as_bf16,
                      Growing& copy) const {
  const std::int64_t K = x.dim(1);
  const std::int64_t count = rows.empty() ? x.dim(0) : static_cast<std::int64_t>(rows.size());
  // Not a multiple of 4096 bytes: rows of a tile must not share the sets of the cache.
  const std::int64_t stride = padded(K) + 32;
  const int size = as_bf16 ? 2 : 4;
  std::byte* to = copy.at_least(count * stride * size);
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
  return {.data = to, .stride = stride, .count = count, .is_bf16 = as_bf16};
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
  return part;
}

void Products::run(std::span<const Product> products) {
  first_.clear();
  std::int64_t panels = 0;
  for (const Product& product : products) {
    first_.push_back(panels);
    if (product.x.count) panels += panels_of(product.weight);
  }
  pool_.run_dynamic(panels, [&](std::int64_t panel, int thread) {
    const auto i = std::upper_bound(first_.begin(), first_.end(), panel) - first_.begin() - 1;
    run_panel(products[static_cast<std::size_t>(i)],
              (panel - first_[static_cast<std::size_t>(i)]) * kPanel, scratch(thread));
  });
}

void Products::run_panel(const Product& product, std::int64_t n0, Scratch& scratch) const {
  const Tensor& out = product.out;
  const std::int64_t stride = out.stride[0] * size_of(out.dtype);
  const int x_size = product.x.is_bf16 ? 2 : 4;
  for (std::int64_t t0 = 0; t0 < product.x.count; t0 += Scratch::kTokens) {
    Rows x = product.x;
    x.data = static_cast<const std::byte*>(x.data) + t0 * x.stride * x_size;
    x.count = std::min<std::int64_t>(x.count - t0, Scratch::kTokens);
    multiply_panel(product.weight, n0, x, scratch, scratch.c[0]);
    if (product.up) multiply_panel(product.up, n0, x, scratch, scratch.c[1]);
    for (std::int64_t t = 0; t < x.count; ++t) {
      kernels_.store(
          {.c = scratch.c[0] + t * kPanel,
           .up = product.up ? scratch.c[1] + t * kPanel : nullptr,
           .scale = product.weight.global_scale,
           .up_scale = product.up.global_scale,
           .out = out.data + (t0 + t) * stride + n0 * size_of(out.dtype),
           .size = static_cast<int>(std::min<std::int64_t>(kPanel, product.weight.rows - n0)),
           .is_bf16 = out.dtype == DType::kBF16});
    }
  }
}

void Products::multiply_panel(const Weight& weight, std::int64_t n0, const Rows& x,
                              Scratch& scratch, float* c) const {
  const Family& family = x.is_bf16 ? kernels_.bf16 : kernels_.f32;
  const Code code = code_of(weight);
  const std::int64_t K = weight.cols;
  const bool is_packed = weight.layout == WeightLayout::kPacked;
  const bool decodes = x.count <= family.decode_tokens[code];
  // One pass over all of k where the codes are read once; else chunks that stay in L1.
  const std::int64_t step = is_packed && decodes && x.count <= 6 ? padded(K) : kChunk;
  const std::byte* packed = weight.data.data + n0 / kPanel * panel_bytes(code, kPanel, K);
  const std::byte* packed_scales = weight.data.data +
                                   panels_of(weight) * panel_bytes(code, kPanel, K) +
                                   n0 * scale_groups(weight);
  std::memset(c, 0, static_cast<std::size_t>(x.count) * kPanel * sizeof(float));
  for (std::int64_t k0 = 0; k0 < K; k0 += step) {
    const std::int64_t k = std::min(step, K - k0);
    const std::int64_t aligned = (k + family.x_align - 1) / family.x_align * family.x_align;
    TileArgs tile = {.w = packed + k0 / per_dword(code) * kPanel * 4,
                     .scale = nullptr,
                     .panel_rows = kPanel,
                     .x = static_cast<const std::byte*>(x.data) + k0 * (x.is_bf16 ? 2 : 4),
                     .x_stride = x.stride,
                     .tokens = static_cast<int>(x.count),
                     .k = static_cast<int>(aligned),
                     .c = c,
                     .ahead = kAhead};
    if (!is_packed) {
      pack_rows(kernels_, weight, n0, k0, k, x.count <= 16, scratch.codes);
      tile.w = scratch.codes, tile.ahead = 0;
    }
    if (code == kCodeFp8) tile.scale = weight.scale.row<float>(n0 / kFp8Block) + k0 / kFp8Block;
    if (code == kCodeNvfp4) {
      tile.scale = packed_scales + k0 / kNvfp4Group * kPanel;
      if (!is_packed) {
        pack_row_scales(kernels_, weight, n0, k0, k, scratch.scale_codes);
        tile.scale = scratch.scale_codes;
      }
    }
    if (decodes) {
      family.decode_multiply[code](tile);
      continue;
    }
    family.expand[code]({.panel = static_cast<const std::byte*>(tile.w),
                         .scale = tile.scale,
                         .panel_rows = kPanel,
                         .k = static_cast<int>((k + 31) / 32 * 32),
                         .out = scratch.numbers,
                         .scales = scratch.scales});
    tile.w = scratch.numbers, tile.ahead = 0;
    if (code == kCodeNvfp4) tile.scale = scratch.scales;
    family.multiply[code](tile);
  }
}

std::int64_t packed_bytes(const Weight& weight) {
  const std::int64_t scales =
      weight.format == WeightFormat::kNvfp4 ? scale_groups(weight) * kPanel : 0;
  return panels_of(weight) * (panel_bytes(code_of(weight), kPanel, weight.cols) + scales);
}

Weight pack(const Kernels& kernels, ThreadPool& pool, const Weight& weight, std::byte* to) {
  GLINT_CHECK(weight.layout == WeightLayout::kRows, "the weight is packed already");
  const std::int64_t bytes = panel_bytes(code_of(weight), kPanel, weight.cols);
  std::byte* scales = to + panels_of(weight) * bytes;
  const std::int64_t scale_bytes = scale_groups(weight) * kPanel;
  pool.run(panels_of(weight), [&](std::int64_t p, int) {
    pack_rows(kernels, weight, p * kPanel, 0, weight.cols, true, to + p * bytes);
    if (weight.format == WeightFormat::kNvfp4) {
      pack_row_scales(kernels, weight, p * kPanel, 0, weight.cols, scales + p * scale_bytes);
    }
  });
  Weight packed = weight;
  packed.layout = WeightLayout::kPacked;
  packed.data = Tensor(to, DType::kU8, {packed_bytes(weight)});
  if (weight.format == WeightFormat::kNvfp4) packed.scale = {};
  return packed;
}

}  // namespace glint::cpu
