#include "model/kv_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/str.h"
#include "model/config.h"

namespace glint {
namespace {

using Part = std::pair<const std::byte*, std::int64_t>;  // its first byte, its size

// The parts of a page: each layer's rows and keys.
std::vector<Part> parts_of(const KvStore& store, int num_layers, PageId page) {
  std::vector<Part> parts;
  const std::int64_t slot = std::int64_t{page} * kPageSize;
  for (int i = 0; i < num_layers; ++i) {
    const LayerCache& cache = store.layer(i);
    if (cache.latent.data) parts.emplace_back(cache.latent.row(slot), cache.latent.page_bytes());
    if (cache.index) parts.emplace_back(cache.index.key(slot), cache.index.page_bytes());
  }
  std::ranges::sort(parts);
  return parts;
}

TEST(KvStore, a_page_of_all_layers_is_one_stretch_of_memory) {
  const ModelConfig config =
      read_config(str(GLINT_SOURCE_DIR, "/models/glm5-tiny/config.json")).value();
  const std::unique_ptr<Device> device = make_host_device();
  for (const LatentFormat latent : {LatentFormat::kF32, LatentFormat::kBF16, LatentFormat::kFp8})
    for (const LayerRange layers : {LayerRange{0, 1 << 20}, LayerRange{1, 3}, LayerRange{0, 0}}) {
      const KvOptions options = {.latent = latent, .num_pages = 4, .layers = layers};
      const KvStore store = KvStore::make(config, options, *device).value();
      for (PageId page = 0; page < 4; ++page) {
        const std::byte* at = store.page(page).data();
        EXPECT_EQ(at, store.page(0).data() + page * page_bytes(config, options));
        for (const auto& [begin, size] : parts_of(store, config.num_layers_with_mtp(), page)) {
          EXPECT_EQ(begin, at);
          at += size;
        }
        EXPECT_EQ(at, store.page(page).data() + store.page(page).size());
      }
    }
}

TEST(KvStore, copies_a_page_of_all_layers_and_nothing_else) {
  const ModelConfig config =
      read_config(str(GLINT_SOURCE_DIR, "/models/glm5-tiny/config.json")).value();
  const std::unique_ptr<Device> device = make_host_device();
  KvStore store = KvStore::make(config, {.num_pages = 3}, *device).value();
  for (PageId page = 0; page < 3; ++page)
    std::memset(store.page(page).data(), 1 + page, store.page(page).size());
  store.copy_page(2, 0);
  const auto holds = [&](PageId page, int value) {
    return std::ranges::all_of(store.page(page),
                               [&](std::byte b) { return b == std::byte(value); });
  };
  EXPECT_TRUE(holds(0, 3));
  EXPECT_TRUE(holds(1, 2));
  EXPECT_TRUE(holds(2, 3));
}

}  // namespace
}  // namespace glint
