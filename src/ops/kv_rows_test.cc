#include "ops/kv_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"

namespace glint {
namespace {

std::vector<float> noise(int n, double scale) {
  Random random(n);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random.normal() * scale);
  return values;
}

int byte_at(const std::vector<std::byte>& bytes, std::size_t i) {
  return std::to_integer<int>(bytes[i]);
}

TEST(KvRows, the_fp8_latent_row_is_the_656_byte_record) {
  std::vector<std::byte> memory(3 * 656);
  const LatentCache cache = {memory.data(), LatentFormat::kFp8, 3, 512, 64};
  ASSERT_EQ(cache.row_bytes(), 656);
  std::vector<float> latent(512, 0.0f), k_rope(64, -1.5f);
  latent[0] = 448, latent[1] = 1, latent[130] = -896;
  write_latent_row(cache, 1, latent.data(), k_rope.data());
  EXPECT_EQ(byte_at(memory, 656), 0x7E);            // 448 / 1
  EXPECT_EQ(byte_at(memory, 656 + 1), 0x38);        // 1 / 1
  EXPECT_EQ(byte_at(memory, 656 + 130), 0xFE);      // -896 / 2
  EXPECT_EQ(byte_at(memory, 656 + 512 + 3), 0x3F);  // 1.0f, little endian
  EXPECT_EQ(byte_at(memory, 656 + 516 + 3), 0x40);  // 2.0f
  EXPECT_EQ(byte_at(memory, 656 + 520 + 2), 0x80);  // FLT_MIN: a group of zeros
  EXPECT_EQ(byte_at(memory, 656 + 529), 0xBF);      // bf16 -1.5 = 0xBFC0
  EXPECT_EQ(byte_at(memory, 655), 0);
  EXPECT_EQ(byte_at(memory, 2 * 656), 0);

  std::vector<float> back(576);
  read_latent_row(cache, 1, back.data());
  EXPECT_EQ(back[130], -896);
  EXPECT_EQ(back[512], -1.5f);
}

TEST(KvRows, latents_survive_within_their_formats_precision) {
  for (const auto& [format, tolerance] : {std::pair{LatentFormat::kF32, 0.0},
                                          {LatentFormat::kBF16, 0x1p-8},
                                          {LatentFormat::kFp8, 0x1p-4}}) {
    const int latent_dim = 200, rope_dim = 6;  // the last group of 128 is ragged
    LatentCache cache = {nullptr, format, 2, latent_dim, rope_dim};
    std::vector<std::byte> memory(2 * cache.row_bytes());
    cache.data = memory.data();
    const std::vector<float> latent = noise(latent_dim, 3), k_rope = noise(rope_dim, 1);
    write_latent_row(cache, 1, latent.data(), k_rope.data());
    std::vector<float> back(latent_dim + rope_dim);
    read_latent_row(cache, 1, back.data());
    for (int i = 0; i < latent_dim; ++i) {
      EXPECT_NEAR(back[i], latent[i], tolerance * std::fabs(latent[i]) + tolerance * 0.02) << i;
    }
    for (int i = 0; i < rope_dim; ++i) {
      EXPECT_NEAR(back[latent_dim + i], k_rope[i],
                  std::min(tolerance, 0x1p-8) * std::fabs(k_rope[i]));
    }
  }
}

TEST(KvRows, an_fp8_index_page_is_64_keys_then_64_scales) {
  IndexCache cache = {nullptr, IndexFormat::kFp8, 128, 128};
  std::vector<std::byte> memory(2 * cache.page_bytes());
  cache.data = memory.data();
  ASSERT_EQ(cache.page_bytes(), 8448);
  std::vector<float> key(128, 0.0f);
  key[5] = 449;
  write_index_key(cache, 64 + 3, key.data());
  EXPECT_EQ(byte_at(memory, 8448 + 3 * 128 + 5), 0x76);       // 449 / 2 = 224.5 -> 224
  EXPECT_EQ(byte_at(memory, 8448 + 8192 + 3 * 4 + 3), 0x40);  // 2.0f
  std::vector<float> back(128);
  EXPECT_EQ(read_index_key(cache, 64 + 3, back.data()), 2);
  EXPECT_EQ(back[5], 224);
}

TEST(KvRows, exact_index_keys_have_no_scale) {
  for (const IndexFormat format : {IndexFormat::kF32, IndexFormat::kBF16}) {
    IndexCache cache = {nullptr, format, 64, 5};
    std::vector<std::byte> memory(cache.page_bytes());
    cache.data = memory.data();
    const float key[] = {1, -2, 0.5f, 0, 96};
    write_index_key(cache, 63, key);
    float back[5];
    EXPECT_EQ(read_index_key(cache, 63, back), 1);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(back[i], key[i]);
  }
}

}  // namespace
}  // namespace glint
