#include "backends/cpu/products.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/ceil_div.h"
#include "base/thread_pool.h"
#include "tensor/huge_page.h"

namespace glint::cpu {
namespace {

constexpr std::int64_t kScalesAhead = 512;
constexpr std::int64_t kL2Bytes = std::int64_t{1} << 20;  // or more

// For bytes [at, end) that are read once, line after line, before `next`: `distance` bytes ahead.
Ahead ahead_by(std::int64_t distance, const std::byte* at, const std::byte* end,
               const std::byte* next) {
  if (!next) return {.at = at};
  const std::byte* const ahead = at + distance;
  return {.at = ahead < end ? ahead : next + (ahead - end), .end = end, .next = next, .step = 64};
}

// For a chunk of which `lines` lines are read in all, again and again: memory brings `next` evenly
// meanwhile. A single reading would be faster than memory, the others leave it idle.
Ahead ahead_evenly(std::int64_t lines, const std::byte* at, const PartAt& next) {
  if (!next.codes) return {.at = at};
  return {.at = next.codes, .step = ceil_div(next.bytes, lines)};
}

}  // namespace

std::byte* Growing::at_least(std::int64_t bytes) {
  GLINT_CHECK(reserve(bytes), "no memory for a product's rows");
  return buffer_.data();
}

bool Growing::reserve(std::int64_t bytes) {
  if (this->bytes() >= bytes) return true;
  buffer_ = {};
  buffer_ = make_host_device()->allocate(static_cast<std::size_t>(bytes));
  return buffer_.data() != nullptr;
}

std::int64_t Growing::held_for(std::int64_t bytes) {
  return bytes < kHugePage ? bytes : aligned_up(bytes, kHugePage);
}

Products::Products(const Kernels& kernels, ThreadPool& pool) : kernels_(kernels), pool_(pool) {
  for (int i = 0; i < pool.num_threads(); ++i) scratch_.push_back(std::make_unique<Scratch>());
}

bool Products::in_bf16(DType x, WeightFormat weight) const {
  return kernels_.has_bf16 && x == DType::kBF16 && weight != WeightFormat::kF32;
}

bool Products::in_bf16(const Product& product) const {
  const Source& source = product.source;
  return source.count ? in_bf16(source.x.dtype, product.weight.format) : product.x.is_bf16;
}

std::int64_t Products::copy_bytes(std::int64_t count, std::int64_t K, bool as_bf16) const {
  return aligned_up(count, family(as_bf16).x_rows) * x_stride(K) * (as_bf16 ? 2 : 4);
}

std::int64_t Products::copy_bytes(const Tensor& x, bool as_bf16) const {
  const Family& family = this->family(as_bf16);
  const bool has_rows = x.dim(0) <= family.tile_tokens || x.dim(0) % family.x_rows == 0;
  const bool fits = (x.dtype == DType::kBF16) == as_bf16 && x.dim(1) % family.x_align == 0;
  return fits && has_rows ? 0 : copy_bytes(x.dim(0), x.dim(1), as_bf16);
}

std::int64_t Products::scratch_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& scratch : scratch_) {
    bytes += static_cast<std::int64_t>(sizeof(Scratch)) + scratch->copy.bytes();
  }
  return bytes;
}

Rows Products::rows_of(const Tensor& x, bool as_bf16, Growing& copy) const {
  if (copy_bytes(x, as_bf16) == 0) {
    return {.data = x.data,
            .stride = x.stride[0],
            .count = x.dim(0),
            .readable = x.dim(0),
            .is_bf16 = as_bf16};
  }
  return copied({.x = x, .count = x.dim(0)}, as_bf16, copy, true);
}

Rows Products::copied(const Source& source, bool as_bf16, Growing& to, bool on_all_threads) const {
  const Tensor& x = source.x;
  const std::int64_t count = source.count, K = x.dim(1), stride = x_stride(K);
  const std::int64_t readable = aligned_up(count, family(as_bf16).x_rows);
  const int size = as_bf16 ? 2 : 4;
  std::byte* const first = to.at_least(copy_bytes(count, K, as_bf16));
  const auto copy_row = [&](std::int64_t r, int) {
    const std::int64_t place = source.places ? source.places[r] : r;
    const std::byte* from = x.data + place * x.stride[0] * size_of(x.dtype);
    std::byte* row = first + r * stride * size;
    kernels_.convert(from, x.dtype == DType::kBF16, row, as_bf16, K);
    std::memset(row + K * size, 0, static_cast<std::size_t>((stride - K) * size));
  };
  constexpr std::int64_t kWorthAPhase = 1 << 15;  // elements; a phase costs a microsecond or two
  if (on_all_threads && count * K >= kWorthAPhase) {
    pool_.run(count, copy_row);
  } else {
    for (std::int64_t r = 0; r < count; ++r) copy_row(r, 0);
  }
  return {
      .data = first, .stride = stride, .count = count, .readable = readable, .is_bf16 = as_bf16};
}

const Rows& TypedRows::of(const Weight& weight) {
  const bool as_bf16 = products_.in_bf16(x_.dtype, weight.format);
  Rows& made = made_[as_bf16];
  if (made.data) return made;
  Growing& copy = as_bf16 ? copies_.bf16 : copies_.f32;
  return made = products_.rows_of(x_, as_bf16, copy);
}

Rows TypedRows::of(const Weight& weight, std::int64_t first, std::int64_t count) {
  Rows part = of(weight);
  part.data =
      static_cast<const std::byte*>(part.data) + first * part.stride * (part.is_bf16 ? 2 : 4);
  part.count = count;
  part.readable -= first;
  return part;
}

PanelPart PanelTask::part(std::int64_t i, std::int64_t k) const {
  const bool is_up = i >= panels;
  return {.weight = is_up ? product->up : product->weight,
          .n0 = n0 + (is_up ? i - panels : i) * kPanel,
          .begin = k,
          .end = std::min(k + step(), product->weight.cols)};
}

// Where x is too long for the L2 cache, the chunks of several panels take turns: its columns are
// then read from there by all of them. Else each panel is read on and on, as memory likes it.
bool Products::in_turns(const Product& product) const {
  const bool is_bf16 = in_bf16(product);
  const std::int64_t count = product.count(), K = product.weight.cols;
  const int tile_tokens = family(is_bf16).tile_tokens;
  return tile_tokens && count > tile_tokens && count * K * (is_bf16 ? 2 : 4) > kL2Bytes;
}

void Products::run(std::span<const Product> products) {
  std::int64_t panels = 0, out_bytes = 0;
  first_.clear();
  for (const Product& product : products) {
    first_.push_back(panels);
    if (product.count()) panels += panels_of(product.weight);
    out_bytes += product.out.size() * size_of(product.out.dtype);
  }
  // The first panels of a range, of one product.
  const auto task_of = [&](ThreadPool::Range range) -> std::optional<PanelTask> {
    if (range.empty()) return std::nullopt;
    const auto i = std::upper_bound(first_.begin(), first_.end(), range.begin) - first_.begin() - 1;
    const Product& product = products[static_cast<std::size_t>(i)];
    const std::int64_t first = range.begin - first_[static_cast<std::size_t>(i)];
    const std::int64_t most = Scratch::kPanels / (product.up ? 2 : 1);
    const std::int64_t all = std::min(panels_of(product.weight) - first, range.end - range.begin);
    const std::int64_t tasks = ceil_div(all, most);
    return PanelTask{.product = &product,
                     .n0 = first * kPanel,
                     .panels = ceil_div(all, tasks),
                     .in_turns = in_turns(product),
                     .past_caches = out_bytes > kL2Bytes};
  };
  pool_.run_ranges(panels, [&](ThreadPool::Range range, ThreadPool::Range next, int thread) {
    for (std::optional<PanelTask> task = task_of(range); !range.empty();) {
      range.begin += task->panels;
      const std::optional<PanelTask> following = task_of(range.empty() ? next : range);
      run_task(*task, following ? &*following : nullptr, scratch(thread));
      task = following;
    }
    if (!next.empty()) return;
    kernels_.leave(scratch(thread).tiles);
    scratch(thread).copied_for = nullptr;
  });
}

namespace {

// Brings the first chunks of a task, except the very first, into the L2 cache bit by bit while
// memory is idle.
class Beginning {
 public:
  Beginning(const PanelTask* task, std::int64_t bits)
      : task_(task && task->in_turns ? task : nullptr),
        parts_(task_ ? std::min(task_->parts(), kParts) : 0),
        lines_(bits ? ceil_div((parts_ - 1) * kChunk, bits) : 0) {}

  void bring_a_bit() {
    for (std::int64_t i = 0; i < lines_; ++i, at_ += 64) {
      if (at_ == end_ && !next_part()) return;
      __builtin_prefetch(at_, 0, 2);
    }
  }

 private:
  static constexpr std::int64_t kParts = 5;

  bool next_part() {
    if (++part_ >= parts_) return false;
    const PartAt at = place_of(task_->part(part_, 0));
    at_ = at.codes;
    end_ = at.codes + at.bytes;
    return at_ != end_;
  }

  const PanelTask* task_;
  std::int64_t parts_, lines_, part_ = 0;
  const std::byte *at_ = nullptr, *end_ = nullptr;
};

}  // namespace

void Products::run_task(const PanelTask& task, const PanelTask* next, Scratch& scratch) const {
  const Product& product = *task.product;
  const Tensor& out = product.out;
  const std::int64_t stride = out.stride[0] * size_of(out.dtype), K = product.weight.cols;
  // Read early: they lie behind the last panel, and memory brings them meanwhile.
  const float global_scale = global_scale_of(product.weight);
  const float up_scale = global_scale_of(product.up);
  if (product.source.count && scratch.copied_for != &product) {
    scratch.copied = copied(product.source, in_bf16(product), scratch.copy, false);
    scratch.copied_for = &product;
  }
  const Rows& all = product.source.count ? scratch.copied : product.x;
  for (std::int64_t t0 = 0; t0 < all.count; t0 += Scratch::kTokens) {
    Rows x = all;
    x.data = static_cast<const std::byte*>(x.data) + t0 * x.stride * (x.is_bf16 ? 2 : 4);
    x.count = std::min<std::int64_t>(x.count - t0, Scratch::kTokens);
    x.readable = std::min<std::int64_t>(x.readable - t0, Scratch::kTokens);
    const PanelTask* const then = t0 + Scratch::kTokens < all.count ? &task : next;
    PartAt at = place_of(task.part(0, 0));
    for (std::int64_t k = 0; k < K; k += task.step()) {
      for (std::int64_t i = 0; i < task.parts(); ++i) {
        const PartAt following = i + 1 < task.parts()  ? place_of(task.part(i + 1, k))
                                 : k + task.step() < K ? place_of(task.part(0, k + task.step()))
                                 : then                ? place_of(then->part(0, 0))
                                                       : PartAt{};
        multiply(task.part(i, k), at, x, scratch, scratch.c[i], following);
        at = following;
      }
    }
    // A few rows at a time: the panels' parts of a row lie side by side.
    constexpr std::int64_t kRows = 16;
    Beginning beginning(then, ceil_div(x.count, kRows) * task.panels);
    for (std::int64_t r = 0; r < x.count; r += kRows) {
      for (std::int64_t i = 0; i < task.panels; ++i) {
        const std::int64_t n = task.n0 + i * kPanel;
        beginning.bring_a_bit();
        kernels_.store(
            {.c = scratch.c[i] + r * kPanel,
             .up = product.up ? scratch.c[task.panels + i] + r * kPanel : nullptr,
             .scale = global_scale,
             .up_scale = up_scale,
             .out = out.data + (t0 + r) * stride + n * size_of(out.dtype),
             .out_bytes = stride,
             .rows = std::min(kRows, x.count - r),
             .size = static_cast<int>(std::min<std::int64_t>(kPanel, product.weight.rows - n)),
             .is_bf16 = out.dtype == DType::kBF16,
             .adds = product.adds,
             .past_caches = task.past_caches});
      }
    }
  }
}

void Products::multiply(const PanelPart& part, PartAt at, const Rows& x, Scratch& scratch, float* c,
                        const PartAt& next) const {
  const Weight& weight = part.weight;
  const Family& family = this->family(x.is_bf16);
  const Code code = code_of(weight);
  const bool is_packed = weight.layout == WeightLayout::kPacked;
  const bool decodes = x.count <= family.decode_tokens[code];
  // One pass over all of k where the codes are read once; else chunks that stay in L1.
  const bool reads_once = decodes && x.count <= family.tile_tokens;
  const std::int64_t step = is_packed && reads_once ? part.end - part.begin : kChunk;
  // Readings of a chunk by the tiles, if memory can bring the next one meanwhile.
  const std::int64_t readings =
      reads_once || !family.tile_tokens ? 0 : ceil_div(x.count, family.tile_tokens);
  const std::int64_t distance = family.ahead[x.count > 1][code];
  if (code == kCodeFp8 && next.scales) __builtin_prefetch(next.scales);
  for (std::int64_t k0 = part.begin; k0 < part.end; k0 += step) {
    const std::int64_t k = std::min(step, part.end - k0);
    if (k0 > part.begin) at = place_of({weight, part.n0, k0, part.end});
    const bool is_last = k0 + step >= part.end;
    const PartAt following =
        is_last || !is_packed ? next : place_of({weight, part.n0, k0 + step, part.end});
    const std::int64_t aligned = aligned_up(k, family.x_align);
    TileArgs tile = {.w = at.codes,
                     .scale = at.scales,
                     .block = weight.block_cols,
                     .panel_rows = kPanel,
                     .x = static_cast<const std::byte*>(x.data) + k0 * (x.is_bf16 ? 2 : 4),
                     .x_stride = x.stride,
                     .tokens = static_cast<int>(x.count),
                     .rows = static_cast<int>(x.readable),
                     .k = static_cast<int>(aligned),
                     .c = c,
                     .starts = k0 == 0,
                     .tiles = &scratch.tiles};
    if (is_packed) {
      const std::int64_t left = panel_bytes(code, part.end - k0);
      const std::int64_t lines = (decodes ? panel_bytes(code, k) : k * kPanel * 2) / 64;
      tile.ahead = readings ? ahead_evenly(readings * lines, at.codes, following)
                            : ahead_by(distance, at.codes, at.codes + left, next.codes);
    } else {
      PackArgs rows = pack_rows(weight, part.n0, k0, k, scratch.codes);
      // With few tokens memory is slower than the arithmetic: the next panel's rows are on their
      // way.
      if (x.count <= 16 && part.n0 + 2 * kPanel <= weight.rows) {
        rows.ahead = kPanel * rows.row_bytes;
      }
      if (is_last) rows.next = next.codes;
      kernels_.pack[code](rows);
      tile.w = scratch.codes;
      tile.ahead.at = scratch.codes;
    }
    if (code == kCodeNvfp4 && is_packed) {
      const std::int64_t left = padded(kCodeNvfp4, part.end - k0) / kNvfp4Group * kPanel;
      tile.scale_ahead = ahead_by(kScalesAhead, at.scales, at.scales + left, next.scales);
    } else if (code == kCodeNvfp4) {
      kernels_.pack_scales(pack_row_scales(weight, part.n0, k0, k, scratch.scale_codes));
      tile.scale = scratch.scale_codes;
      tile.scale_ahead.at = scratch.scale_codes;
    }
    if (decodes) {
      family.decode_multiply[code](tile);
      continue;
    }
    family.expand[code]({.panel = static_cast<const std::byte*>(tile.w),
                         .scale = tile.scale,
                         .block = tile.block,
                         .k = static_cast<int>(aligned_up(k, 32)),
                         .out = scratch.numbers,
                         .scales = scratch.scales,
                         .ahead = readings ? Ahead{} : tile.ahead});
    tile.w = scratch.numbers;
    if (!readings) tile.ahead = {.at = reinterpret_cast<const std::byte*>(scratch.numbers)};
    if (code == kCodeNvfp4) tile.scale = scratch.scales;
    family.multiply[code](tile);
  }
}

}  // namespace glint::cpu
