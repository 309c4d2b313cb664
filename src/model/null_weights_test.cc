#include "model/null_weights.h"

#include <gtest/gtest.h>

#include "model/release.h"
#include "tensor/null_device.h"

namespace glint {
namespace {

ModelConfig glm5() { return read_config(GLINT_SOURCE_DIR "/tests/data/configs/glm5.json").value(); }

std::int64_t bytes_on(const ModelConfig& config, Release release, int tp, MeshShape shape) {
  NullDevice device;
  const ModelPartition partition = plan_partition(config, shape, 0).value();
  ModelWeights weights = null_weights(
      config, partition,
      {.format = [&](const ModelTensor& t) { return format_in(release, t, config); }, .tp = tp},
      device);
  return bytes_of(weights);
}

double gib(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

TEST(NullWeights, are_as_many_bytes_as_the_release_has) {
  const ModelConfig config = glm5();
  for (const Release release : {Release::kBF16, Release::kFp8, Release::kNvfp4}) {
    // FP8's scales of kv_b_proj's halves are four times as many; an NVFP4 file has input scales.
    const std::int64_t stored = release_bytes(config, release, false);
    EXPECT_NEAR(gib(bytes_on(config, release, 1, {})), gib(stored), 2e-3) << name_of(release);
  }
}

// By a script of its own, from config.json alone: what is divided / ranks + the rest.
TEST(NullWeights, are_divided_as_the_table_says) {
  const ModelConfig config = glm5();
  EXPECT_NEAR(gib(bytes_on(config, Release::kFp8, 8, {})), 88.69, 0.005);
  EXPECT_NEAR(gib(bytes_on(config, Release::kBF16, 8, {})), 176.64, 0.005);
  EXPECT_NEAR(gib(bytes_on(config, Release::kNvfp4, 8, {})), 55.35, 0.005);
  // That script keeps kv_b_proj beside a copy of its halves in BF16.
  const double copies = 78.0 * 512 * 64 * (192 + 256) * 2 / (1 << 30);
  const MeshShape ep8 = {.ep = 8, .dp = 8};
  EXPECT_NEAR(gib(bytes_on(config, Release::kFp8, 1, ep8)), 106.25 - copies, 0.005);
  EXPECT_NEAR(gib(bytes_on(config, Release::kBF16, 1, ep8)), 206.53 - copies, 0.005);
}

}  // namespace
}  // namespace glint
