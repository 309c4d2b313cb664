// Workspace: the memory of one run of a conformance case on one backend. The same calls put the
// same values there whatever the backend, so that a case is written once and run on both.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace glint::conformance {

// Standard normal numbers, made once; index i of stream s is a function of (s, i).
class Noise {
 public:
  Noise();
  float operator()(std::int64_t stream, std::int64_t i) const {
    return values_[static_cast<std::size_t>(stream * 7919 + i) % kCount];
  }

 private:
  static constexpr std::size_t kCount = 65521;
  std::vector<float> values_;
};

// One output of a run: rows of numbers, or of exact integers.
struct Output {
  std::string name;
  std::int64_t width = 0;              // elements a row
  bool per_token = true;               // row t belongs to token t
  double ulp = 0;                      // largest relative distance of two neighbours, if not f32
  std::vector<float> values = {};      // of floats
  std::vector<std::int32_t> ids = {};  // of integers, or the bytes of a cache

  std::int64_t rows() const;
  // The rows [begin, begin + count) equal `other`'s first ones bit by bit.
  bool rows_equal(std::int64_t begin, std::int64_t count, const Output& other) const;
};

// Elements around each row of the last dim, so that it is a slice of something larger. Ops must
// neither use nor write them.
struct Pad {
  std::int64_t front = 0, back = 0;
};

using Dims = std::initializer_list<std::int64_t>;

// A sequence of the batch: its tokens in this batch are positions [first, first + count). From -1:
// rows of padding.
struct Sequence {
  int first = 0, count = 1;

  bool is_padding() const { return first < 0; }
};

// How a run differs from the plain one.
struct RunMode {
  std::optional<std::int64_t> only_token = {};  // compute this token alone
  bool no_token = false;                        // T = 0
  bool packed = false;                          // weights as the backend packs them
};

// Weight::block_rows and block_cols.
struct Fp8Blocks {
  int rows = kFp8Block, cols = kFp8Block;
};

class Workspace {
 public:
  Workspace(Backend& ops, const Noise& noise, RunMode mode = {});
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  Backend& ops() { return ops_; }
  Arena& arena() { return arena_; }
  bool is_alone() const { return mode_.only_token || mode_.no_token; }
  bool has_packed() const { return has_packed_; }  // a weight
  // `x` [T, ..] or per-token values, cut to this run's tokens.
  Tensor tokens(const Tensor& x) const;
  std::vector<std::int32_t> tokens(const std::vector<std::int32_t>& values) const;

  // The next values: normal numbers times `scale`, as `dtype` holds them.
  std::vector<float> noise(std::int64_t count, double scale = 1, DType dtype = DType::kF32);

  // A tensor of `values`, or of noise.
  Tensor input(DType dtype, Dims dims, const std::vector<float>& values, Pad pad = {});
  Tensor input(DType dtype, Dims dims, Pad pad = {});
  Tensor ints(const std::vector<std::int32_t>& values, Dims dims);
  // `unaligned`: data that starts one element after a multiple of 256 bytes, as in a mapped file.
  Weight weight(WeightFormat format, std::int64_t rows, std::int64_t cols, bool unaligned = false);
  // `count` of them, one after another with gaps in between.
  WeightStack stack(WeightFormat format, std::int64_t count, std::int64_t rows, std::int64_t cols,
                    Fp8Blocks blocks = {});
  // `count` anywhere in memory, of these formats in turn. For backends with mixed_stacks.
  WeightStack list(const std::vector<WeightFormat>& formats, std::int64_t count, std::int64_t rows,
                   std::int64_t cols);

  // [T, ..] of garbage, cut to this run's tokens, to be written by the op and compared: floats
  // within the tolerance, integers exactly.
  Tensor output(const char* name, DType dtype, Dims dims, Pad pad = {});
  // `x`, cut to this run's tokens, which the op updates and which is compared.
  Tensor updated(const char* name, const Tensor& x);
  // A result that is not one row a token.
  Tensor whole_output(const char* name, DType dtype, Dims dims);
  // `x`, not one row a token, which the op updates.
  Tensor whole_updated(const char* name, const Tensor& x);
  // Values for a case's own judge.
  void note(const char* name, std::vector<float> values, std::int64_t width);

  // Caches with `pages` pages of noise. `keys` [slots, dim], if given, are the index keys.
  LatentCache latent_cache(LatentFormat format, int pages, int latent_dim, int rope_dim);
  IndexCache index_cache(IndexFormat format, int pages, int dim,
                         const std::vector<float>& keys = {});
  // `cache` as it was placed, in host memory.
  LatentCache on_host(LatentCache cache);
  IndexCache on_host(IndexCache cache);
  // The op writes this cache: all of its bytes are compared exactly, or the rows at `slots` as
  // numbers.
  void compare_bytes(const char* name, std::byte* cache);
  void compare_rows(const LatentCache& cache, const std::vector<std::int32_t>& slots);
  void compare_rows(const IndexCache& cache, const std::vector<std::int32_t>& slots);

  // The run's outputs; call it after the op. Writes to memory that is no output are a failure of
  // the op: an output named "stray write".
  std::vector<Output> outputs();

 private:
  // Memory of one tensor or cache, with guard bytes around it.
  struct Block {
    Buffer buffer;
    std::vector<std::byte> host;        // what was put there
    std::vector<Tensor> writable = {};  // views that the op may write
    bool all_writable = false;
  };
  struct Recorded {
    Output output;
    std::function<void(Output&)> read;
  };

  std::byte* place(const std::vector<std::byte>& bytes, std::int64_t offset = 0);
  Tensor place_padded(DType dtype, Dims dims, Pad pad, const std::function<float(std::int64_t)>& f);
  // Weights (one, or a stack) as the backend packs them, if this run has packed ones.
  template <class Weights>
  Weights placed(const Weights& weights);
  Tensor in_host_memory(const Tensor& x);  // as it was placed
  void spoil(const Tensor& x);
  Block& block_of(const std::byte* data);
  std::vector<std::byte> read_back(const Block& block) const;
  void record(const char* name, const Tensor& x, bool per_token);
  bool only_outputs_changed() const;

  Backend& ops_;
  const Noise& noise_;
  RunMode mode_;
  bool has_packed_ = false;
  Arena arena_;
  std::int64_t stream_ = 0;
  std::vector<Block> blocks_;
  std::vector<Recorded> recorded_;
  std::vector<std::vector<Weight>> lists_;
};

// The batch of `sequences`, whose pages lie scattered in a cache of num_pages pages.
struct TestBatch {
  std::vector<std::int32_t> positions, slots, seqs, page_table;
  std::int64_t num_seqs = 0, max_pages = 0;
  int num_pages = 0;
};
TestBatch make_batch(const std::vector<Sequence>& sequences);

// As the ops take it; the rotation has theta 1e4.
BatchView view_of(Workspace& ws, const TestBatch& batch, int rope_dim);

}  // namespace glint::conformance
