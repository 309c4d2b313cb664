#include "ops/conformance/workspace.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/ceil_div.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "ops/kv_rows.h"
#include "tensor/fp8.h"
#include "tensor/nvfp4.h"

namespace glint::conformance {
namespace {

constexpr std::int64_t kGuard = 256;  // bytes before and after each tensor; keeps its alignment
constexpr std::byte kGuardByte{0xA5};

template <class T>
void put(const T& value, std::byte* at) {
  std::memcpy(at, &value, sizeof value);
}

// `count` elements made by f(i); large tensors repeat a prime number of them.
template <class F>
std::vector<std::byte> repeated(std::int64_t count, F&& f) {
  constexpr std::int64_t kPeriod = 65521;
  constexpr std::size_t kSize = sizeof f(0);
  std::vector<std::byte> bytes(count * kSize);
  const std::int64_t fresh = std::min(count, kPeriod);
  for (std::int64_t i = 0; i < fresh; ++i) put(f(i), &bytes[i * kSize]);
  const std::size_t period = fresh * kSize;
  for (std::size_t begin = period; begin < bytes.size(); begin += period) {
    std::memcpy(&bytes[begin], bytes.data(), std::min(period, bytes.size() - begin));
  }
  return bytes;
}

std::int64_t product(Dims dims) {
  std::int64_t n = 1;
  for (const std::int64_t dim : dims) n *= dim;
  return n;
}

// Calls f(byte offset from x.data) for every row of the last dim of `x`, in order.
template <class F>
void for_each_row(const Tensor& x, F&& f, int axis = 0, std::int64_t offset = 0) {
  if (axis + 1 >= x.rank) return f(offset * size_of(x.dtype));
  for (std::int64_t i = 0; i < x.shape[axis]; ++i, offset += x.stride[axis]) {
    for_each_row(x, f, axis + 1, offset);
  }
}

// Appends `n` elements at `bytes` to `out`.
void append_row(DType dtype, const std::byte* bytes, std::int64_t n, Output& out) {
  if (n == 0) return;  // a vector of no tokens
  if (dtype == DType::kI32) {
    out.ids.resize(out.ids.size() + n);
    std::memcpy(&out.ids.back() + 1 - n, bytes, n * 4);
  } else if (dtype == DType::kF32) {
    out.values.resize(out.values.size() + n);
    std::memcpy(&out.values.back() + 1 - n, bytes, n * 4);
  } else {
    for (std::int64_t i = 0; i < n; ++i) {
      BF16 value;
      std::memcpy(&value, bytes + 2 * i, 2);
      out.values.push_back(to_float(value));
    }
  }
}

}  // namespace

Noise::Noise() : values_(kCount) {
  Random random(5);
  for (float& value : values_) value = static_cast<float>(random.normal());
}

std::int64_t Output::rows() const {
  return static_cast<std::int64_t>(values.size() + ids.size()) / std::max<std::int64_t>(width, 1);
}

bool Output::rows_equal(std::int64_t begin, std::int64_t count, const Output& other) const {
  const std::size_t first = begin * width, n = count * width;
  const auto equal = [&](const auto& mine, const auto& theirs) {
    if (mine.empty() && theirs.empty()) return true;
    return mine.size() >= first + n && theirs.size() >= n &&
           std::memcmp(&mine[first], theirs.data(), n * sizeof(mine[0])) == 0;
  };
  return width == other.width && equal(values, other.values) && equal(ids, other.ids);
}

Workspace::Workspace(Backend& ops, const Noise& noise, RunMode mode)
    : ops_(ops), noise_(noise), mode_(mode), arena_(ops.device()) {}

Tensor Workspace::tokens(const Tensor& x) const {
  if (mode_.no_token) return x.slice(0, 0, 0);
  return mode_.only_token ? x.slice(0, *mode_.only_token, 1) : x;
}

std::vector<std::int32_t> Workspace::tokens(const std::vector<std::int32_t>& values) const {
  if (mode_.no_token) return {};
  return mode_.only_token ? std::vector<std::int32_t>{values[*mode_.only_token]} : values;
}

std::vector<float> Workspace::noise(std::int64_t count, double scale, DType dtype) {
  ++stream_;
  std::vector<float> values(count);
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(noise_(stream_, i) * scale);
    if (dtype == DType::kBF16) values[i] = to_float(to_bf16(values[i]));
  }
  return values;
}

std::byte* Workspace::place(const std::vector<std::byte>& bytes, std::int64_t offset) {
  std::vector<std::byte> host(kGuard + offset, kGuardByte);
  host.insert(host.end(), bytes.begin(), bytes.end());
  host.insert(host.end(), kGuard, kGuardByte);
  Buffer buffer = ops_.device().allocate(host.size());
  GLINT_CHECK(buffer.data(), "no memory for a conformance case");
  ops_.device().copy_in(buffer.data(), host.data(), host.size());
  blocks_.push_back({.buffer = std::move(buffer), .host = std::move(host)});
  return blocks_.back().buffer.data() + kGuard + offset;
}

Tensor Workspace::place_padded(DType dtype, Dims dims, Pad pad,
                               const std::function<float(std::int64_t)>& f) {
  const std::int64_t D = *(dims.end() - 1), row = pad.front + D + pad.back;
  const std::int64_t rows = product(dims) / std::max<std::int64_t>(D, 1);
  std::vector<std::byte> bytes(rows * row * size_of(dtype));
  std::byte* at = bytes.data();
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t d = -pad.front; d < D + pad.back; ++d, at += size_of(dtype)) {
      const bool inside = d >= 0 && d < D;
      // NaN spoils whatever reads it, the large number shows an op that rewrites it.
      const float outside = d % 2 ? std::numeric_limits<float>::quiet_NaN() : 3e30f;
      const float value = inside ? f(r * D + d) : outside;
      if (dtype == DType::kBF16) {
        put(to_bf16(value), at);
      } else if (dtype == DType::kF32) {
        put(value, at);
      } else {
        put(static_cast<std::int32_t>(value), at);
      }
    }
  }
  Tensor x(place(bytes) + pad.front * size_of(dtype), dtype, dims);
  for (int axis = x.rank - 2; axis >= 0; --axis) x.stride[axis] = x.stride[axis] / D * row;
  return x;
}

Tensor Workspace::input(DType dtype, Dims dims, const std::vector<float>& values, Pad pad) {
  return place_padded(dtype, dims, pad, [&](std::int64_t i) { return values[i]; });
}

Tensor Workspace::input(DType dtype, Dims dims, Pad pad) {
  return input(dtype, dims, noise(product(dims)), pad);
}

Tensor Workspace::ints(const std::vector<std::int32_t>& values, Dims dims) {
  GLINT_CHECK(product(dims) == static_cast<std::int64_t>(values.size()), "integers do not fit");
  std::vector<std::byte> bytes(values.size() * 4);
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Tensor(place(bytes), DType::kI32, dims);
}

namespace {

// A weight's bytes and how they are to be read.
struct WeightBytes {
  std::vector<std::byte> data = {}, scale = {}, global_scale = {};
  Weight weight = {};  // its tensors have no memory yet
};

WeightBytes make_weight(const Noise& noise, std::int64_t stream, WeightFormat format,
                        std::int64_t rows, std::int64_t cols, Fp8Blocks blocks) {
  const std::int64_t n = rows * cols;
  const float scale = 1 / std::sqrt(static_cast<float>(cols));  // of a row's typical weight
  const auto value = [&](std::int64_t i) { return noise(stream, i); };
  // Scales in [0.5, 1.5), so that a kernel that takes its neighbour's is found out.
  const auto factor = [&](std::int64_t i) {
    return 1 + std::clamp(noise(stream + 31, i), -1.f, 1.f) / 2;
  };
  WeightBytes w = {.weight = {.format = format, .rows = rows, .cols = cols}};
  switch (format) {
    case WeightFormat::kF32:
      w.data = repeated(n, [&](std::int64_t i) { return value(i) * scale; });
      w.weight.data = Tensor(nullptr, DType::kF32, {rows, cols});
      break;
    case WeightFormat::kBF16:
      w.data = repeated(n, [&](std::int64_t i) { return to_bf16(value(i) * scale); });
      w.weight.data = Tensor(nullptr, DType::kBF16, {rows, cols});
      break;
    case WeightFormat::kFp8Block: {
      w.weight.block_rows = blocks.rows, w.weight.block_cols = blocks.cols;
      const std::int64_t m = fp8_blocks(rows, blocks.rows), k = fp8_blocks(cols, blocks.cols);
      w.data = repeated(n, [&](std::int64_t i) { return float_to_e4m3(64 * value(i)); });
      w.scale = repeated(m * k, [&](std::int64_t i) { return factor(i) * scale / 64; });
      w.weight.data = Tensor(nullptr, DType::kF8E4M3, {rows, cols});
      w.weight.scale = Tensor(nullptr, DType::kF32, {m, k});
      break;
    }
    case WeightFormat::kNvfp4: {
      const auto pair = [&](std::int64_t i) {
        return static_cast<std::uint8_t>(float_to_e2m1(2 * value(2 * i)) |
                                         float_to_e2m1(2 * value(2 * i + 1)) << 4);
      };
      w.data = repeated(n / 2, pair);
      w.scale = repeated(n / 16, [&](std::int64_t i) { return float_to_e4m3(100 * factor(i)); });
      w.global_scale = repeated(1, [&](std::int64_t) { return scale / 200 * factor(stream); });
      w.weight.data = Tensor(nullptr, DType::kU8, {rows, cols / 2});
      w.weight.scale = Tensor(nullptr, DType::kF8E4M3, {rows, cols / 16});
      w.weight.global_scale = Tensor(nullptr, DType::kF32, {1});
      break;
    }
  }
  return w;
}

}  // namespace

Weight Workspace::weight(WeightFormat format, std::int64_t rows, std::int64_t cols,
                         bool unaligned) {
  WeightBytes made = make_weight(noise_, ++stream_, format, rows, cols, {});
  Weight& w = made.weight;
  w.data.data = place(made.data, unaligned ? size_of(w.data.dtype) : 0);
  if (w.scale.rank) w.scale.data = place(made.scale, unaligned ? size_of(w.scale.dtype) : 0);
  if (w.global_scale.rank) w.global_scale.data = place(made.global_scale);
  check_weight("a weight of a case", w);
  return placed(w);
}

WeightStack Workspace::stack(WeightFormat format, std::int64_t count, std::int64_t rows,
                             std::int64_t cols, Fp8Blocks blocks) {
  constexpr std::size_t kGap = 256;  // after each, of the bytes of guards
  WeightBytes all;
  const auto append = [&](std::vector<std::byte>& to, const std::vector<std::byte>& from) {
    to.insert(to.end(), from.begin(), from.end());
    if (!from.empty()) to.resize(round_up(to.size() + kGap, kGap), kGuardByte);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const WeightBytes one = make_weight(noise_, ++stream_, format, rows, cols, blocks);
    all.weight = one.weight;
    append(all.data, one.data);
    append(all.scale, one.scale);
    append(all.global_scale, one.global_scale);
  }
  Weight& first = all.weight;
  first.data.data = place(all.data);
  if (first.scale.rank) first.scale.data = place(all.scale);
  if (first.global_scale.rank) first.global_scale.data = place(all.global_scale);
  check_weight("the first of a stack", first);
  const auto stride = [&](const std::vector<std::byte>& bytes) {
    return std::ssize(bytes) / count;
  };
  WeightStack stack = stack_of(first, count, stride(all.data));
  if (stack.scale) stack.scale.stride[0] = stride(all.scale) / size_of(stack.scale.dtype);
  if (stack.global_scale) stack.global_scale.stride[0] = stride(all.global_scale) / 4;
  return placed(stack);
}

WeightStack Workspace::list(const std::vector<WeightFormat>& formats, std::int64_t count,
                            std::int64_t rows, std::int64_t cols) {
  std::vector<Weight> each;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto f = static_cast<std::size_t>(i) % formats.size();
    each.push_back(weight(formats[f], rows, cols));
  }
  lists_.push_back(std::move(each));
  return stack_of(lists_.back());
}

template <class Weights>
Weights Workspace::placed(const Weights& weights) {
  if (!mode_.packed) return weights;
  Weights result = weights;
  for (Tensor* part : {&result.data, &result.scale, &result.global_scale}) {
    if (*part) *part = in_host_memory(*part);
  }
  WeightPlan measure(ops_, nullptr);
  Weights measured = result;
  measure.place(measured);
  if (measure.bytes() == 0) return weights;
  has_packed_ = true;
  WeightPlan plan(ops_, place(std::vector<std::byte>(static_cast<std::size_t>(measure.bytes()))));
  blocks_.back().all_writable = true;
  plan.place(result);
  ThreadPool threads(2);
  ops_.pack(plan.pairs(), threads);
  // Packed weights must not need the file's bytes any more.
  for (const Tensor* part : {&weights.data, &weights.scale, &weights.global_scale}) spoil(*part);
  return result;
}

Tensor Workspace::in_host_memory(const Tensor& x) {
  Block& block = block_of(x.data);
  Tensor host = x;
  host.data = block.host.data() + (x.data - block.buffer.data());
  return host;
}

void Workspace::spoil(const Tensor& x) {
  if (!x) return;
  Block& block = block_of(x.data);
  block.host.assign(block.host.size(), std::byte{0xFF});
  ops_.device().copy_in(block.buffer.data(), block.host.data(), block.host.size());
}

Tensor Workspace::output(const char* name, DType dtype, Dims dims, Pad pad) {
  // i32 garbage is a large negative index.
  const float garbage = dtype == DType::kI32 ? -1e9f : std::numeric_limits<float>::quiet_NaN();
  const Tensor x = tokens(place_padded(dtype, dims, pad, [&](std::int64_t) { return garbage; }));
  record(name, x, true);
  return x;
}

Tensor Workspace::updated(const char* name, const Tensor& x) {
  record(name, tokens(x), true);
  return tokens(x);
}

Tensor Workspace::whole_output(const char* name, DType dtype, Dims dims) {
  const Tensor x = place_padded(dtype, dims, {}, [](std::int64_t) { return -1e9f; });
  record(name, x, false);
  return x;
}

Tensor Workspace::whole_updated(const char* name, const Tensor& x) {
  record(name, x, false);
  return x;
}

void Workspace::note(const char* name, std::vector<float> values, std::int64_t width) {
  recorded_.push_back(
      {.output = {.name = name, .width = width, .per_token = false, .values = std::move(values)},
       .read = [](Output&) {}});
}

void Workspace::record(const char* name, const Tensor& x, bool per_token) {
  block_of(x.data).writable.push_back(x);
  const auto read = [this, x](Output& output) {
    const Block& block = block_of(x.data);
    const std::vector<std::byte> bytes = read_back(block);
    const std::byte* base = bytes.data() + (x.data - block.buffer.data());
    for_each_row(
        x, [&](std::int64_t offset) { append_row(x.dtype, base + offset, x.dim(-1), output); });
  };
  const std::int64_t width = x.dim(0) ? x.size() / x.dim(0) : 0;
  const double ulp = x.dtype == DType::kBF16 ? 0x1p-7 : 0;
  recorded_.push_back(
      {.output = {.name = name, .width = width, .per_token = per_token, .ulp = ulp}, .read = read});
}

// Between the pages of a cache, where those of other layers are; nobody writes there.
constexpr std::int64_t kPageGap = 192;

LatentCache Workspace::latent_cache(LatentFormat format, int pages, int latent_dim, int rope_dim) {
  LatentCache cache = {nullptr, format, std::int64_t{pages} * kPageSize, latent_dim, rope_dim};
  cache.page_stride = cache.page_bytes() + kPageGap;
  std::vector<std::byte> bytes(pages * cache.page_stride);
  cache.data = bytes.data();
  const std::vector<float> rows = noise(cache.num_slots * (latent_dim + rope_dim));
  for (std::int64_t slot = 0; slot < cache.num_slots; ++slot) {
    const float* row = &rows[slot * (latent_dim + rope_dim)];
    write_latent_row(cache, slot, row, row + latent_dim);
  }
  cache.data = place(bytes);
  return cache;
}

IndexCache Workspace::index_cache(IndexFormat format, int pages, int dim,
                                  const std::vector<float>& keys) {
  IndexCache cache = {nullptr, format, std::int64_t{pages} * kPageSize, dim};
  cache.page_stride = cache.page_bytes() + kPageGap;
  std::vector<std::byte> bytes(pages * cache.page_stride);
  cache.data = bytes.data();
  const std::vector<float> rows = keys.empty() ? noise(cache.num_slots * dim) : keys;
  for (std::int64_t slot = 0; slot < cache.num_slots; ++slot) {
    write_index_key(cache, slot, &rows[slot * dim]);
  }
  cache.data = place(bytes);
  return cache;
}

LatentCache Workspace::on_host(LatentCache cache) {
  cache.data = block_of(cache.data).host.data() + kGuard;
  return cache;
}

IndexCache Workspace::on_host(IndexCache cache) {
  cache.data = block_of(cache.data).host.data() + kGuard;
  return cache;
}

void Workspace::compare_bytes(const char* name, std::byte* cache) {
  block_of(cache).all_writable = true;
  const auto read = [this, cache](Output& output) {
    for (const std::byte b : read_back(block_of(cache))) output.ids.push_back(static_cast<int>(b));
  };
  recorded_.push_back({.output = {.name = name, .width = 1, .per_token = false}, .read = read});
}

void Workspace::compare_rows(const LatentCache& cache, const std::vector<std::int32_t>& slots) {
  block_of(cache.data).all_writable = true;
  const int width = cache.latent_dim + cache.rope_dim;
  const auto read = [=, this](Output& output) {
    std::vector<std::byte> bytes = read_back(block_of(cache.data));
    LatentCache host = cache;
    host.data = bytes.data() + kGuard;
    output.values.resize(slots.size() * width);
    for (std::size_t t = 0; t < slots.size(); ++t) {
      read_latent_row(host, slots[t], &output.values[t * width]);
    }
  };
  recorded_.push_back({.output = {.name = "cached latents", .width = width}, .read = read});
}

void Workspace::compare_rows(const IndexCache& cache, const std::vector<std::int32_t>& slots) {
  block_of(cache.data).all_writable = true;
  const auto read = [=, this](Output& output) {
    std::vector<std::byte> bytes = read_back(block_of(cache.data));
    IndexCache host = cache;
    host.data = bytes.data() + kGuard;
    for (const std::int32_t slot : slots) {
      std::vector<float> key(cache.dim);
      const float scale = read_index_key(host, slot, key.data());
      for (const float value : key) output.values.push_back(value * scale);
    }
  };
  recorded_.push_back({.output = {.name = "cached index keys", .width = cache.dim}, .read = read});
}

std::vector<Output> Workspace::outputs() {
  ops_.device().synchronize();
  std::vector<Output> all;
  for (Recorded& recorded : recorded_) {
    recorded.read(recorded.output);
    all.push_back(recorded.output);
  }
  if (!only_outputs_changed()) all.push_back({.name = "stray write", .width = 1, .ids = {1}});
  return all;
}

bool Workspace::only_outputs_changed() const {
  constexpr std::size_t kLarge = 1 << 20;  // weights: too slow to read back each time
  for (const Block& block : blocks_) {
    if (block.host.size() > kLarge && block.writable.empty() && !block.all_writable) continue;
    std::vector<std::byte> now = read_back(block), then = block.host;
    for (const Tensor& x : block.writable) {
      const std::int64_t at = x.data - block.buffer.data();
      for_each_row(x, [&](std::int64_t offset) {
        std::memcpy(&then[at + offset], &now[at + offset], x.dim(-1) * size_of(x.dtype));
      });
    }
    const std::int64_t inner = block.all_writable ? now.size() - 2 * kGuard : 0;
    std::copy_n(now.begin() + kGuard, inner, then.begin() + kGuard);
    // == of the vectors goes byte by byte.
    if (std::memcmp(now.data(), then.data(), now.size()) != 0) return false;
  }
  return true;
}

Workspace::Block& Workspace::block_of(const std::byte* data) {
  for (Block& block : blocks_) {
    const std::byte* begin = block.buffer.data();
    if (data >= begin && data < begin + block.host.size()) return block;
  }
  GLINT_CHECK(false, "memory that is not the workspace's");
}

std::vector<std::byte> Workspace::read_back(const Block& block) const {
  std::vector<std::byte> bytes(block.host.size());
  ops_.device().copy_out(bytes.data(), block.buffer.data(), bytes.size());
  return bytes;
}

TestBatch make_batch(const std::vector<Sequence>& sequences) {
  TestBatch batch;
  batch.num_seqs = static_cast<std::int64_t>(sequences.size());
  int used = 0;
  for (const Sequence& s : sequences) {
    if (s.is_padding()) continue;
    const int pages = ceil_div(s.first + s.count, kPageSize);
    batch.max_pages = std::max<std::int64_t>(batch.max_pages, pages);
    used += pages;
  }
  batch.max_pages += 1;  // a spare column of -1
  batch.num_pages = used + 1;
  // A sequence's pages are neither adjacent nor ascending.
  std::vector<std::int32_t> order(batch.num_pages);
  for (int i = 0; i < batch.num_pages; ++i) order[i] = i;
  Random random(17);
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[random.below(static_cast<std::uint32_t>(i) + 1)]);
  }
  batch.page_table.assign(batch.num_seqs * batch.max_pages, -1);
  int next = 0;
  for (std::int64_t s = 0; s < batch.num_seqs; ++s) {
    if (sequences[s].is_padding()) {
      for (auto* column : {&batch.positions, &batch.slots, &batch.seqs}) {
        column->insert(column->end(), static_cast<std::size_t>(sequences[s].count), -1);
      }
      continue;
    }
    std::int32_t* pages = &batch.page_table[s * batch.max_pages];
    const int end = sequences[s].first + sequences[s].count;
    for (int i = 0; i * kPageSize < end; ++i) pages[i] = order[next++];
    for (int p = sequences[s].first; p < end; ++p) {
      batch.positions.push_back(p);
      batch.slots.push_back(pages[p / kPageSize] * kPageSize + p % kPageSize);
      batch.seqs.push_back(static_cast<std::int32_t>(s));
    }
  }
  return batch;
}

BatchView view_of(Workspace& ws, const TestBatch& batch, int rope_dim) {
  const std::int64_t T = static_cast<std::int64_t>(batch.positions.size());
  std::int32_t last = 0;
  for (const std::int32_t position : batch.positions) last = std::max(last, position);
  std::vector<float> table;  // cos, then sin
  for (int position = 0; position <= last; ++position) {
    for (int i = 0; i < rope_dim; ++i) {
      const double angle = position * std::pow(1e4, -2.0 * (i % (rope_dim / 2)) / rope_dim);
      table.push_back(static_cast<float>(i < rope_dim / 2 ? std::cos(angle) : std::sin(angle)));
    }
  }
  return {.positions = ws.tokens(ws.ints(batch.positions, {T})),
          .slots = ws.tokens(ws.ints(batch.slots, {T})),
          .seqs = ws.tokens(ws.ints(batch.seqs, {T})),
          .page_table = ws.ints(batch.page_table, {batch.num_seqs, batch.max_pages}),
          .rope_table = ws.input(DType::kF32, {last + 1, rope_dim}, table)};
}

}  // namespace glint::conformance
