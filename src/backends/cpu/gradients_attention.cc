// Backward pass of sparse_mla. Tokens go in blocks of a fixed size, each with sums of its own over
// the cache rows that it touches; these are added to dcache in the order of the blocks, whatever
// thread took which.
#include <immintrin.h>

#include <algorithm>

#include "backends/cpu/cpu_gradients.h"
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
  std::vector<float> q, g, dq, lse, along;     // [heads, row]; [heads]
  std::vector<float> keys;                     // [kGroup, row]
  std::vector<std::int32_t> place_of;          // [slots]: which of the sums, or -1
  std::vector<std::int32_t> slots;             // of the sums
  std::vector<float> sums;                     // [slots touched, row]

  explicit AttentionBlock(const SparseMlaArgs& op)
      : width(op.kv.latent_dim + op.kv.rope_dim),
        row(round_up(width, cpu::kPanel)),
        heads(round_up(op.q_latent.dim(1), kGroup)),
        q(heads * row),
        g(heads * row),
        dq(heads * row),
        lse(heads),
        along(heads),
        keys(kGroup * row),
        place_of(op.kv.num_slots, -1) {}

  void begin() {
    for (const std::int32_t slot : slots) place_of[slot] = -1;
    slots.clear();
    sums.clear();
  }

  void add_token(const SparseMlaBackArgs& args, std::int64_t t, const cpu::Kernels& kernels) {
    const SparseMlaArgs& op = args.op;
    const std::int32_t* const indices = op.indices.row<std::int32_t>(t);
    const std::int64_t k = op.indices.dim(1);
    const std::int64_t n =
        std::find_if(indices, indices + k, [](int i) { return i < 0; }) - indices;
    read_heads(args, t, kernels);
    // Rows of sums first: they move as there come more of them.
    for (std::int64_t j = 0; j < n; ++j) {
      GLINT_CHECK(indices[j] < op.kv.num_slots, "a slot beyond the cache");
      std::int32_t& place = place_of[indices[j]];
      if (place >= 0) continue;
      place = static_cast<std::int32_t>(slots.size());
      slots.push_back(indices[j]);
    }
    sums.resize(slots.size() * static_cast<std::size_t>(row));
    for (std::int64_t j = 0; j < n; j += kGroup) {
      const int count = static_cast<int>(std::min(kGroup, n - j));
      float* dkeys[kGroup] = {};
      for (int i = 0; i < count; ++i) {
        const std::int32_t slot = indices[j + i];
        kernels.convert(op.kv.row(slot), op.kv.format == LatentFormat::kBF16, &keys[i * row], false,
                        width);
        dkeys[i] = &sums[place_of[slot] * row];
      }
      std::fill(keys.begin() + count * row, keys.end(), 0.0f);
      for (std::int64_t h = 0; h < heads; h += kGroup) {
        kernels.attend_back({.keys = keys.data(),
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
    std::fill(dq.begin(), dq.end(), 0.0f);
    const auto read = [&](const Tensor& x, std::int64_t h, float* to) {
      const std::int64_t at = t * x.stride[0] + h * x.stride[1];
      kernels.convert(x.data + at * size_of(x.dtype), is_bf16, to, false, x.dim(2));
    };
    std::vector<float> out(static_cast<std::size_t>(latent));
    for (std::int64_t h = 0; h < op.q_latent.dim(1); ++h) {
      float *const query = &q[h * row], *const grad = &g[h * row];
      read(op.q_latent, h, query);
      read(op.q_rope, h, query + latent);
      for (std::int64_t d = 0; d < latent + rope; ++d) query[d] *= op.softmax_scale;
      float* const dout = head_of<float>(args.dout, t, h);
      std::copy_n(dout, latent, grad);
      std::fill_n(dout, latent, 0.0f);
      read(op.out, h, out.data());
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

void CpuGradients::sparse_mla_back(const SparseMlaBackArgs& args) {
  check(args);
  const std::int64_t T = args.op.q_latent.dim(0);
  const std::int64_t blocks = ceil_div(T, kBlock);
  const std::int64_t threads = std::min<std::int64_t>(pool_.num_threads(), blocks);
  std::vector<AttentionBlock> memory(static_cast<std::size_t>(threads), AttentionBlock(args.op));
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
      for_rows(std::ssize(block.slots), block.width, [&](std::int64_t r) {
        float* const to = args.dcache.row<float>(block.slots[r]);
        const float* const from = &block.sums[r * block.row];
        for (std::int64_t d = 0; d < block.width; ++d) to[d] += from[d];
      });
    }
  }
}

}  // namespace glint
