// KvStore: the bytes of the paged KV cache. A page of all layers (latents, index keys, those of the
// MTP layer too) is one stretch of memory, to be copied or sent whole; which page belongs to whom
// is the engine's business.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "model/model_partition.h"
#include "ops/kv_layout.h"
#include "tensor/device.h"

namespace glint {

struct KvOptions {
  LatentFormat latent = LatentFormat::kBF16;
  IndexFormat index = IndexFormat::kFp8;
  int num_pages = 0;
  bool with_mtp = true;  // also the caches of the MTP layers
  LayerRange layers = {0,
                       std::numeric_limits<int>::max()};  // of the others, those with caches here
};

// One layer's part; `index` is empty in layers without an indexer.
struct LayerCache {
  LatentCache latent = {};
  IndexCache index = {};
};

class KvStore {
 public:
  // Fails with kResourceExhausted, naming the bytes, when the device has no room.
  static Result<KvStore> make(const ModelConfig& config, const KvOptions& options, Device& device);

  const LayerCache& layer(int i) const { return layers_[i]; }
  // Device memory.
  std::span<std::byte> page(PageId id) const;
  void copy_page(PageId from, PageId to);

  int num_pages() const { return options_.num_pages; }
  const KvOptions& options() const { return options_; }

 private:
  KvOptions options_;
  std::vector<LayerCache> layers_;
  std::int64_t page_bytes_ = 0;
  Buffer buffer_;
  Device* device_ = nullptr;
};

// Bytes of one page (kPageSize tokens) over all layers.
std::int64_t page_bytes(const ModelConfig& config, const KvOptions& options);

}  // namespace glint
