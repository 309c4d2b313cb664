// Backward pass of sparse_mla. Tokens go in blocks of a fixed size, each with sums of its own over
// the cache rows that it touches; these are added to dcache in the order of the blocks, whatever
// thread took which.
#include <immintrin.h>

#include <algorithm>

#include "backends/cpu/cpu_gradients.h"
#include "backends/cpu/for_rows.h"
#include "base/ceil_div.h"
#include "base/thread_pool.h"

namespace glint {
namespace {

constexpr std::int64_t kBlock = 16;  // tokens
constexpr std::int64_t kGroup = 4;   // heads, and keys: AttendBackArgs

// While it lives, this thread takes numbers below 1.2e-38 as zero. Keys that a token hardly looks
// at and tokens of which a model is sure have such gradients, and a processor needs some hundred
// cycles for each sum that meets one.
class TinyIsZero {
 public:
  TinyIsZero() { _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | 0x40); }  // 0x40: of operands too
  ~TinyIsZero() { _mm_setcsr(before_); }
  TinyIsZero(const TinyIsZero&) = delete;
  TinyIsZero& operator=(const TinyIsZero&) = delete;

 private:
  unsigned before_ = _mm_getcsr();
};

}  // namespace

// Memory of one thread.
struct CpuGradients::AttentionBlock {
  std::int64_t width = 0, row = 0, heads = 0;  // latent + rope; the others rounded up
  std::int64_t touched = 0;                    // slots
  float *q, *g, *dq, *lse, *along;             // [heads, row]; [heads]
  float* keys;                                 // [kGroup, row]
  float* out;                                  // [latent], of a head
  std::int32_t* place_of;                      // [slots]: which of the sums, or -1
  std::int32_t* slots;                         // of the sums
  float* sums;                                 // [touched, row]

  AttentionBlock(const SparseMlaArgs& op, Arena& memory)
      : width(op.kv.latent_dim + op.kv.rope_dim),
        row(round_up(width, cpu::kPanel)),
        heads(round_up(op.q_latent.dim(1), kGroup)) {
    const auto floats = [&](std::int64_t n) { return memory.take(DType::kF32, {n}).ptr<float>(); };
    const auto ints = [&](std::int64_t n) {
      return memory.take(DType::kI32, {n}).ptr<std::int32_t>();
    };
    const std::int64_t most = std::min<std::int64_t>(op.kv.num_slots, kBlock * op.indices.dim(1));
    for (float** rows : {&q, &g, &dq}) *rows = floats(heads * row);
    for (float** numbers : {&lse, &along}) *numbers = floats(heads);
    keys = floats(kGroup * row);
    out = floats(op.kv.latent_dim);
    place_of = ints(op.kv.num_slots);
    slots = ints(most);
    sums = floats(most * row);
  }

  // Before the first block: heads and columns that only round up stay 0.
  void clear(std::int64_t num_slots) {
    for (float* rows : {q, g}) std::fill_n(rows, heads * row, 0.0f);
    for (float* numbers : {lse, along}) std::fill_n(numbers, heads, 0.0f);
    std::fill_n(keys, kGroup * row, 0.0f);
    std::fill_n(place_of, num_slots, -1);
  }

  void begin() {
    for (std::int64_t i = 0; i < touched; ++i) place_of[slots[i]] = -1;
    touched = 0;
  }

  void add_token(const SparseMlaBackArgs& args, std::int64_t t, const cpu::Kernels& kernels) {
    const SparseMlaArgs& op = args.op;
    const std::int32_t* const indices = op.indices.row<std::int32_t>(t);
    const std::int64_t k = op.indices.dim(1);
    const std::int64_t n =
        std::find_if(indices, indices + k, [](int i) { return i < 0; }) - indices;
    read_heads(args, t, kernels);
    for (std::int64_t j = 0; j < n; ++j) {
      GLINT_CHECK(indices[j] < op.kv.num_slots, "a slot beyond the cache");
      std::int32_t& place = place_of[indices[j]];
      if (place >= 0) continue;
      place = static_cast<std::int32_t>(touched);
      slots[touched] = indices[j];
      std::fill_n(&sums[touched++ * row], row, 0.0f);
    }
    for (std::int64_t j = 0; j < n; j += kGroup) {
      const int count = static_cast<int>(std::min(kGroup, n - j));
      float* dkeys[kGroup] = {};
      for (int i = 0; i < count; ++i) {
        const std::int32_t slot = indices[j + i];
        kernels.convert(op.kv.row(slot), op.kv.format == LatentFormat::kBF16, &keys[i * row], false,
                        width);
        dkeys[i] = &sums[place_of[slot] * row];
      }
      std::fill(keys + count * row, keys + kGroup * row, 0.0f);
      for (std::int64_t h = 0; h < heads; h += kGroup) {
        kernels.attend_back({.keys = keys,
                             .q = &q[h * row],
                             .g = &g[h * row],
                             .lse = &lse[h],
                             .along = &along[h],
                             .dq = &dq[h * row],
                             .dkeys = dkeys,
                             .num_keys = count,
                             .size = row});
      }
    }
    add_queries(args, t);
  }

 private:
  template <class T>
  static T* head_of(const Tensor& x, std::int64_t t, std::int64_t h) {
    return x.row<T>(t) + h * x.stride[1];
  }

  // q times the scale, dout, which becomes zero, and dout . out.
  void read_heads(const SparseMlaBackArgs& args, std::int64_t t, const cpu::Kernels& kernels) {
    const SparseMlaArgs& op = args.op;
    const bool is_bf16 = op.q_latent.dtype == DType::kBF16;
    const std::int64_t latent = op.kv.latent_dim, rope = op.kv.rope_dim;
    std::fill_n(dq, heads * row, 0.0f);
    const auto read = [&](const Tensor& x, std::int64_t h, float* to) {
      const std::int64_t at = t * x.stride[0] + h * x.stride[1];
      kernels.convert(x.data + at * size_of(x.dtype), is_bf16, to, false, x.dim(2));
    };
    for (std::int64_t h = 0; h < op.q_latent.dim(1); ++h) {
      float *const query = &q[h * row], *const grad = &g[h * row];
      read(op.q_latent, h, query);
      read(op.q_rope, h, query + latent);
      for (std::int64_t d = 0; d < latent + rope; ++d) query[d] *= op.softmax_scale;
      float* const dout = head_of<float>(args.dout, t, h);
      std::copy_n(dout, latent, grad);
      std::fill_n(dout, latent, 0.0f);
      read(op.out, h, out);
      double sum = 0;
      for (std::int64_t d = 0; d < latent; ++d) sum += double{grad[d]} * out[d];
      along[h] = static_cast<float>(sum);
      lse[h] = op.lse.row<float>(t)[h];
    }
  }

  void add_queries(const SparseMlaBackArgs& args, std::int64_t t) const {
    const std::int64_t latent = args.op.kv.latent_dim, rope = args.op.kv.rope_dim;
    for (std::int64_t h = 0; h < args.op.q_latent.dim(1); ++h) {
      const float* const from = &dq[h * row];
      float* const to = head_of<float>(args.dq_latent, t, h);
      float* const to_rope = head_of<float>(args.dq_rope, t, h);
      for (std::int64_t d = 0; d < latent; ++d) to[d] += from[d] * args.op.softmax_scale;
      for (std::int64_t d = 0; d < rope; ++d)
        to_rope[d] += from[latent + d] * args.op.softmax_scale;
    }
  }
};

// One a thread that has a block.
std::vector<CpuGradients::AttentionBlock> CpuGradients::take_blocks(const SparseMlaArgs& op,
                                                                    ThreadPool& pool,
                                                                    Arena& scratch) {
  const std::int64_t blocks = ceil_div(op.q_latent.dim(0), kBlock);
  std::vector<AttentionBlock> all;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(pool.num_threads(), blocks); ++i) {
    all.emplace_back(op, scratch);
  }
  return all;
}

void CpuGradients::plan_blocks(const SparseMlaArgs& op, ThreadPool& pool, Arena& scratch) {
  take_blocks(op, pool, scratch);
}

void CpuGradients::sparse_mla_back(const SparseMlaBackArgs& args) {
  check(args);
  const Arena::Scope scope(scratch_);
  const std::int64_t T = args.op.q_latent.dim(0);
  const std::int64_t blocks = ceil_div(T, kBlock);
  std::vector<AttentionBlock> memory = take_blocks(args.op, pool_, scratch_);
  const std::int64_t threads = std::ssize(memory);
  for (AttentionBlock& block : memory) block.clear(args.op.kv.num_slots);
  for (std::int64_t first = 0; first < blocks; first += threads) {
    const std::int64_t count = std::min(threads, blocks - first);
    pool_.run(count, [&](std::int64_t i, int) {
      const TinyIsZero tiny_is_zero;
      AttentionBlock& block = memory[static_cast<std::size_t>(i)];
      block.begin();
      const std::int64_t begin = (first + i) * kBlock, end = std::min(begin + kBlock, T);
      for (std::int64_t t = begin; t < end; ++t) block.add_token(args, t, kernels_);
    });
    for (std::int64_t i = 0; i < count; ++i) {
      const AttentionBlock& block = memory[static_cast<std::size_t>(i)];
      cpu::for_rows(pool_, block.touched, block.width, [&](std::int64_t r, int) {
        float* const to = args.dcache.row<float>(block.slots[r]);
        const float* const from = &block.sums[r * block.row];
        for (std::int64_t d = 0; d < block.width; ++d) to[d] += from[d];
      });
    }
  }
}

}  // namespace glint
