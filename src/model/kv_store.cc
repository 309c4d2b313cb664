#include "model/kv_store.h"

#include "base/str.h"

namespace glint {
namespace {

// The caches of all layers in pages that begin at `data`; where there is none, this is a plan.
struct Layout {
  std::vector<LayerCache> layers;
  std::int64_t page_bytes = 0;
};

Layout lay_out(const ModelConfig& config, const KvOptions& options, std::byte* data) {
  const std::int64_t num_slots = std::int64_t{options.num_pages} * kPageSize;
  Layout layout;
  const auto put = [&](auto& cache) {
    cache.data = data ? data + layout.page_bytes : nullptr;
    layout.page_bytes += cache.page_bytes();
  };
  const int count = options.with_mtp ? config.num_layers_with_mtp() : config.num_hidden_layers;
  for (int i = 0; i < count; ++i) {
    LayerCache& cache = layout.layers.emplace_back();
    if (i < config.num_hidden_layers && !options.layers.holds(i)) continue;
    cache.latent = {.format = options.latent,
                    .num_slots = num_slots,
                    .latent_dim = static_cast<int>(config.kv_lora_rank),
                    .rope_dim = static_cast<int>(config.qk_rope_head_dim)};
    put(cache.latent);
    if (!config.layers[i].has_indexer) continue;
    cache.index = {.format = options.index,
                   .num_slots = num_slots,
                   .dim = static_cast<int>(config.index_head_dim)};
    put(cache.index);
  }
  for (LayerCache& cache : layout.layers)
    cache.latent.page_stride = cache.index.page_stride = layout.page_bytes;
  return layout;
}

}  // namespace

Result<KvStore> KvStore::make(const ModelConfig& config, const KvOptions& options, Device& device) {
  KvStore store;
  store.options_ = options;
  store.device_ = &device;
  store.page_bytes_ = page_bytes(config, options);
  const std::int64_t bytes = store.page_bytes_ * options.num_pages;
  store.buffer_ = device.allocate(static_cast<std::size_t>(bytes));
  if (bytes > 0 && store.buffer_.data() == nullptr)
    return exhausted(str("no room on ", device.name(), " for a KV cache of ", human_bytes(bytes),
                         " (", options.num_pages,
                         " pages); a shorter context or fewer sequences need less"));
  store.layers_ = lay_out(config, options, store.buffer_.data()).layers;
  return store;
}

std::span<std::byte> KvStore::page(PageId id) const {
  return {buffer_.data() + id * page_bytes_, static_cast<std::size_t>(page_bytes_)};
}

void KvStore::copy_page(PageId from, PageId to) {
  device_->copy(page(to).data(), page(from).data(), page(to).size());
}

std::int64_t page_bytes(const ModelConfig& config, const KvOptions& options) {
  return lay_out(config, options, nullptr).page_bytes;
}

}  // namespace glint
