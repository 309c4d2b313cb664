#include "model/kv_store.h"

#include "base/str.h"

namespace glint {
namespace {

// Caches of `num_pages` pages without memory yet.
std::vector<LayerCache> plan_layers(const ModelConfig& config, const KvOptions& options) {
  const std::int64_t num_slots = std::int64_t{options.num_pages} * kPageSize;
  std::vector<LayerCache> layers;
  const int count = options.with_mtp ? config.num_layers_with_mtp() : config.num_hidden_layers;
  for (int i = 0; i < count; ++i) {
    LayerCache& cache = layers.emplace_back();
    if (i < config.num_hidden_layers && !options.layers.holds(i)) continue;
    cache.latent = {.format = options.latent,
                    .num_slots = num_slots,
                    .latent_dim = static_cast<int>(config.kv_lora_rank),
                    .rope_dim = static_cast<int>(config.qk_rope_head_dim)};
    if (config.layers[i].has_indexer) {
      cache.index = {.format = options.index,
                     .num_slots = num_slots,
                     .dim = static_cast<int>(config.index_head_dim)};
    }
  }
  return layers;
}

std::int64_t latent_bytes(const LayerCache& cache) {
  return cache.latent.num_slots * cache.latent.row_bytes();
}
std::int64_t index_bytes(const LayerCache& cache) {
  return cache.index.num_slots / kPageSize * cache.index.page_bytes();
}

}  // namespace

Result<KvStore> KvStore::make(const ModelConfig& config, const KvOptions& options, Device& device) {
  KvStore store;
  store.options_ = options;
  store.device_ = &device;
  store.layers_ = plan_layers(config, options);
  const auto allocate = [&](std::int64_t bytes) {
    store.buffers_.push_back(device.allocate(static_cast<std::size_t>(bytes)));
    return store.buffers_.back().data();
  };
  for (LayerCache& cache : store.layers_) {
    if (cache.latent.num_slots == 0) continue;
    cache.latent.data = allocate(latent_bytes(cache));
    if (cache.index.num_slots) cache.index.data = allocate(index_bytes(cache));
    if (!cache.latent.data || (cache.index.num_slots && !cache.index.data)) {
      const std::int64_t bytes = page_bytes(config, options) * options.num_pages;
      return Error{ErrorCode::kResourceExhausted,
                   str("no room on ", device.name(), " for a KV cache of ",
                       human_bytes(static_cast<double>(bytes)), " (", options.num_pages,
                       " pages); a shorter context or fewer sequences need less")};
    }
  }
  return store;
}

void KvStore::copy_page(PageId from, PageId to) {
  const auto copy = [&](std::byte* data, std::int64_t bytes) {
    device_->copy(data + to * bytes, data + from * bytes, static_cast<std::size_t>(bytes));
  };
  for (const LayerCache& cache : layers_) {
    if (cache.latent.data) copy(cache.latent.data, kPageSize * cache.latent.row_bytes());
    if (cache.index) copy(cache.index.data, cache.index.page_bytes());
  }
}

std::int64_t page_bytes(const ModelConfig& config, const KvOptions& options) {
  KvOptions one = options;
  one.num_pages = 1;
  std::int64_t bytes = 0;
  for (const LayerCache& cache : plan_layers(config, one))
    bytes += latent_bytes(cache) + index_bytes(cache);
  return bytes;
}

}  // namespace glint
