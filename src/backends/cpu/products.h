// Products: matrix products over panels (kernels.h), several of them in one phase of the threads.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/packing.h"
#include "base/thread_pool.h"
#include "ops/ops.h"

namespace glint::cpu {

// Memory that only grows, aligned to 64 bytes.
class Growing {
 public:
  std::byte* at_least(std::int64_t bytes);

 private:
  Buffer buffer_;
};

// Rows of x as tiles read them.
struct Rows {
  const void* data = nullptr;
  std::int64_t stride = 0;  // elements
  std::int64_t count = 0;
  std::int64_t readable = 0;  // rows that may be read, whatever they hold: at least count
  bool is_bf16 = false;
};

// out[t, n] = sum_k x[t, k] * weight[n, k]; with `up`, of the same shape:
// out = silu(weight * x) * (up * x), both rounded to the type of out first.
struct Product {
  Weight weight = {};
  Weight up = {};
  Rows x = {};
  Tensor out = {};  // [x.count, N], rows may be strided
};

// What a thread works in: the sums of some panels, and the chunk of one that is being multiplied.
struct Scratch {
  static constexpr int kTokens = 512;  // rows of x at a time
  static constexpr int kPanels = 8;    // with the sums of more, x would leave the L2 cache

  alignas(64) float c[kPanels][kTokens * kPanel];
  alignas(64) std::byte codes[kChunk * kPanel * 4];
  alignas(64) float numbers[kChunk * kPanel];
  alignas(64) float scales[kChunk / 16 * kPanel];
  alignas(64) std::byte scale_codes[kChunk / 16 * kPanel];
  TileRows tiles;
};

// Panels of a product that a thread multiplies.
struct PanelTask {
  const Product* product;
  std::int64_t n0, panels;
  bool in_turns;     // chunk by chunk; else each is read as it lies in memory
  bool past_caches;  // the products of a run write more than a cache holds

  std::int64_t step() const { return in_turns ? kChunk : product->weight.cols; }

  // The panels of `weight`, then their likes of `up`.
  std::int64_t parts() const { return product->up ? 2 * panels : panels; }
  // Part i from column k on.
  PanelPart part(std::int64_t i, std::int64_t k) const;
};

class Products {
 public:
  Products(const Kernels& kernels, ThreadPool& pool);

  // Whether bf16 tiles multiply `weight` with activations of type `x`; else x is needed in f32.
  bool in_bf16(DType x, WeightFormat weight) const;

  // x [T, K] for a product in bf16 or f32: where it is if possible, else a copy in `copy`.
  Rows rows_of(const Tensor& x, bool as_bf16, Growing& copy) const;
  // The same for rows[r] of x (all of x where `rows` is empty).
  Rows gather(const Tensor& x, std::span<const std::int32_t> rows, bool as_bf16,
              Growing& copy) const;

  // All of them in one phase. Sizes were checked before.
  void run(std::span<const Product> products);

  // c [x.count][kPanel] = x times the part of a panel, which lies `at` place_of(part), or += where
  // it does not begin at column 0, on this thread; without nvfp4's global scale. c has x.readable
  // <= Scratch::kTokens rows. The thread goes on with `next`, or calls leave when it has multiplied
  // its last.
  void multiply(const PanelPart& part, PartAt at, const Rows& x, Scratch& scratch, float* c,
                const PartAt& next = {}) const;

  Scratch& scratch(int thread) { return *scratch_[static_cast<std::size_t>(thread)]; }
  const Kernels& kernels() const { return kernels_; }
  ThreadPool& pool() const { return pool_; }

 private:
  const Family& family(const Rows& x) const { return x.is_bf16 ? kernels_.bf16 : kernels_.f32; }
  bool in_turns(const Product& product) const;
  void run_task(const PanelTask& task, const PanelTask* next, Scratch& scratch) const;

  const Kernels& kernels_;
  ThreadPool& pool_;
  std::vector<std::unique_ptr<Scratch>> scratch_;  // one a thread
  std::vector<std::int64_t> first_;                // the first task of each product of a run
};

// One x for several weights: its rows in each type that they ask for, made when first asked.
class TypedRows {
 public:
  struct Copies {
    Growing bf16, f32;
  };
  // With `rows`, row r is x[rows[r]].
  TypedRows(const Products& products, const Tensor& x, Copies& copies,
            std::span<const std::int32_t> rows = {})
      : products_(products), x_(x), rows_(rows), copies_(copies) {}

  const Rows& of(const Weight& weight);
  // Rows [first, first + count) only.
  Rows of(const Weight& weight, std::int64_t first, std::int64_t count);

 private:
  const Products& products_;
  Tensor x_;
  std::span<const std::int32_t> rows_;
  Copies& copies_;
  Rows made_[2];
};

}  // namespace glint::cpu
