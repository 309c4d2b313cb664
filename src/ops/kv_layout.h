// Bytes of the paged caches. A page holds kPageSize consecutive positions of one sequence; slot =
// page * kPageSize + offset. One cache object is one layer's, whose pages may lie apart: between
// them are those of other layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/ceil_div.h"
#include "tensor/tensor.h"

namespace glint {

inline constexpr int kPageSize = 64;  // tokens
// Pages of a sequence.
constexpr std::int64_t pages_of(std::int64_t tokens) { return ceil_div(tokens, kPageSize); }

// The latent row of a token: latent_dim values of the normalised latent, then rope_dim rotated key
// values.
enum class LatentFormat : std::uint8_t {
  kF32,
  kBF16,
  // Per row: latent_dim e4m3, then an f32 scale for each 128 of them, then rope_dim bf16. GLM-5:
  // 512 + 16 + 128 = 656 bytes, FlashMLA's record. Fields are not aligned for odd dims: use memcpy.
  kFp8,
};

struct LatentCache {
  std::byte* data = nullptr;
  LatentFormat format = LatentFormat::kBF16;
  std::int64_t num_slots = 0;
  int latent_dim = 0;
  int rope_dim = 0;
  std::int64_t page_stride = 0;  // bytes from a page to the next; 0: page_bytes()

  std::int64_t row_bytes() const;  // GLM-5: 2304, 1152, 656
  std::int64_t page_bytes() const { return kPageSize * row_bytes(); }
  std::int64_t stride() const { return page_stride ? page_stride : page_bytes(); }
  std::byte* row(std::int64_t slot) const {
    return data + slot / kPageSize * stride() + slot % kPageSize * row_bytes();
  }
};

// The indexer's key of a token, `dim` values.
enum class IndexFormat : std::uint8_t {
  kF32,   // exact mode under f32
  kBF16,  // exact mode under bf16
  // Per page: kPageSize * dim e4m3, then kPageSize f32 scales (a power of two each). GLM-5: 8,448
  // bytes a page.
  kFp8,
};

struct IndexCache {
  std::byte* data = nullptr;
  IndexFormat format = IndexFormat::kFp8;
  std::int64_t num_slots = 0;
  int dim = 0;
  std::int64_t page_stride = 0;  // bytes from a page to the next; 0: page_bytes()

  std::int64_t page_bytes() const;
  std::int64_t stride() const { return page_stride ? page_stride : page_bytes(); }
  std::int64_t key_bytes() const;  // without its scale
  // Key of `slot`: e4m3 codes, bf16 or f32.
  std::byte* key(std::int64_t slot) const;
  // The scale of the key of `slot`; kFp8 only.
  std::byte* scale(std::int64_t slot) const;

  explicit operator bool() const { return data != nullptr; }
};

const char* name_of(LatentFormat format);  // "f32", "bf16", "fp8"
const char* name_of(IndexFormat format);

// The batch as ops that touch a cache see it: T >= 0 tokens of S sequences. Rows of padding, whose
// position, slot, seq and token id are -1, are legal anywhere: they are not rotated, leave nothing
// in the caches, select no key and join no expert's group.
struct BatchView {
  Tensor positions = {};  // [T] i32: index of the token in its sequence
  Tensor slots = {};      // [T] i32: where its cache rows go
  Tensor seqs = {};       // [T] i32: its row of page_table
  // [S, P] i32: the pages of each sequence in position order; unused entries are -1.
  Tensor page_table = {};
  Tensor rope_table = {};  // [positions, rope_dim] f32 (ops/rope.h)
  // All positions are smaller, and the host knows: where it is at most index_topk every visible key
  // is selected, and nothing is computed to score keys.
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  // Tokens of all ranks that share experts or a sequence with this one, as the plan says; 0: T.
  std::int64_t all_tokens = 0;
};

}  // namespace glint
