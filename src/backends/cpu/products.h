// Products: matrix products over panels (kernels.h), several of them in one phase of the threads.
#pragma once

#include <algorithm>
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
  // Aborts where there is no memory: what a step needs was reserved before.
  std::byte* at_least(std::int64_t bytes);
  // Takes the memory ahead of time. False: there is none.
  bool reserve(std::int64_t bytes);
  // The bytes held after at_least(bytes) of nothing before.
  static std::int64_t held_for(std::int64_t bytes);
  std::int64_t bytes() const { return static_cast<std::int64_t>(buffer_.bytes()); }

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

// Rows before they are copied as tiles read them: row r is x[places[r]], or x[r] without places.
struct Source {
  Tensor x = {};
  const std::int32_t* places = nullptr;
  std::int64_t count = 0;
};

// out[t, n] = sum_k x[t, k] * weight[n, k]; with `up`, of the same shape:
// out = silu(weight * x) * (up * x), both rounded to the type of out first.
struct Product {
  Weight weight = {};
  Weight up = {};
  Rows x = {};
  Source source = {};  // in place of x: each thread that multiplies it copies it into its own cache
  Tensor out = {};     // [rows of x, N], they may be strided
  bool adds = false;   // to what is in `out`, which is f32

  std::int64_t count() const { return source.count ? source.count : x.count; }
};

// Memory of a thread: the sums of some panels, and the chunk of one that is being multiplied.
struct Scratch {
  static constexpr int kTokens = 512;  // rows of x at a time
  static constexpr int kPanels = 8;    // with the sums of more, x would leave the L2 cache

  alignas(64) float c[kPanels][kTokens * kPanel];
  alignas(64) std::byte codes[kChunk * kPanel * 4];
  alignas(64) float numbers[kChunk * kPanel];
  alignas(64) float scales[kChunk / 16 * kPanel];
  alignas(64) std::byte scale_codes[kChunk / 16 * kPanel];
  TileRows tiles;
  // The rows of the last product that had a source.
  Growing copy;
  Rows copied;
  const Product* copied_for = nullptr;
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

// f(first, count) for pieces of rows [begin, end) that are few enough for a thread to copy.
template <class F>
void for_pieces(std::int64_t begin, std::int64_t end, F f) {
  for (; begin < end; begin += Scratch::kTokens) {
    f(begin, std::min<std::int64_t>(end - begin, Scratch::kTokens));
  }
}

class Products {
 public:
  Products(const Kernels& kernels, ThreadPool& pool);

  // Whether bf16 tiles multiply `weight` with activations of type `x`; else x is needed in f32.
  bool in_bf16(DType x, WeightFormat weight) const;

  // x [T, K] for a product in bf16 or f32: where it is if possible, else a copy in `copy`.
  Rows rows_of(const Tensor& x, bool as_bf16, Growing& copy) const;

  // Bytes of that copy; 0: none is made.
  std::int64_t copy_bytes(const Tensor& x, bool as_bf16) const;
  // Bytes of the copy of `count` rows of K elements.
  std::int64_t copy_bytes(std::int64_t count, std::int64_t K, bool as_bf16) const;
  // Memory of all threads.
  std::int64_t scratch_bytes() const;

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
  const Family& family(bool is_bf16) const { return is_bf16 ? kernels_.bf16 : kernels_.f32; }
  bool in_bf16(const Product& product) const;
  bool in_turns(const Product& product) const;
  Rows copied(const Source& source, bool as_bf16, Growing& to, bool on_all_threads) const;
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
  TypedRows(const Products& products, const Tensor& x, Copies& copies)
      : products_(products), x_(x), copies_(copies) {}

  const Rows& of(const Weight& weight);
  // Rows [first, first + count) only.
  Rows of(const Weight& weight, std::int64_t first, std::int64_t count);

 private:
  const Products& products_;
  Tensor x_;
  Copies& copies_;
  Rows made_[2];
};

}  // namespace glint::cpu
