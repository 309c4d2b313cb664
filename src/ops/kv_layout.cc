#include "ops/kv_layout.h"

namespace glint {

std::int64_t LatentCache::row_bytes() const {
  switch (format) {
    case LatentFormat::kF32:
      return std::int64_t{4} * (latent_dim + rope_dim);
    case LatentFormat::kBF16:
      return std::int64_t{2} * (latent_dim + rope_dim);
    case LatentFormat::kFp8:
      return latent_dim + std::int64_t{4} * ((latent_dim + 127) / 128) + std::int64_t{2} * rope_dim;
  }
  return 0;
}

std::int64_t IndexCache::page_bytes() const {
  switch (format) {
    case IndexFormat::kF32:
      return std::int64_t{kPageSize} * 4 * dim;
    case IndexFormat::kBF16:
      return std::int64_t{kPageSize} * 2 * dim;
    case IndexFormat::kFp8:
      return std::int64_t{kPageSize} * (dim + 4);
  }
  return 0;
}

std::int64_t IndexCache::key_bytes() const {
  return dim * (format == IndexFormat::kF32 ? 4 : format == IndexFormat::kBF16 ? 2 : 1);
}

std::byte* IndexCache::key(std::int64_t slot) const {
  return data + slot / kPageSize * stride() + slot % kPageSize * key_bytes();
}

std::byte* IndexCache::scale(std::int64_t slot) const {
  GLINT_CHECK(format == IndexFormat::kFp8, "only fp8 index keys have scales");
  return data + slot / kPageSize * stride() + std::int64_t{kPageSize} * dim + slot % kPageSize * 4;
}

const char* name_of(LatentFormat format) {
  switch (format) {
    case LatentFormat::kF32:
      return "f32";
    case LatentFormat::kBF16:
      return "bf16";
    case LatentFormat::kFp8:
      return "fp8";
  }
  return "?";
}

const char* name_of(IndexFormat format) {
  switch (format) {
    case IndexFormat::kF32:
      return "f32";
    case IndexFormat::kBF16:
      return "bf16";
    case IndexFormat::kFp8:
      return "fp8";
  }
  return "?";
}

}  // namespace glint
