// config.json and generation_config.json: what is accepted makes sense.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "model/kv_store.h"
#include "model/release.h"

namespace {

using namespace glint;

void check_config(const ModelConfig& config) {
  GLINT_CHECK(std::isfinite(config.softmax_scale) && config.softmax_scale > 0, "softmax scale");
  GLINT_CHECK(config.layers.size() == static_cast<std::size_t>(config.num_layers_with_mtp()),
              "layers");
  GLINT_CHECK(config.layers[0].has_indexer, "the first layer shares an indexer");
  for (const float frequency : rope_inv_freq(config.rope, config.qk_rope_head_dim)) {
    GLINT_CHECK(std::isfinite(frequency) && frequency >= 0, "inverse frequency");
  }
  const ParameterCount count = count_parameters(config);
  GLINT_CHECK(count.active > 0 && count.active <= count.main, "parameters");
  GLINT_CHECK(release_bytes(config, Release::kBF16, true) >= 2 * count.total(), "bytes");
  GLINT_CHECK(page_bytes(config, {.latent = LatentFormat::kF32, .index = IndexFormat::kF32}) > 0,
              "cache");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<Json> json = parse_json({reinterpret_cast<const char*>(data), size});
  if (!json.ok()) return 0;
  const Result<ModelConfig> config = parse_config(json.value());
  if (config.ok()) check_config(config.value());
  const Result<GenerationConfig> generation = parse_generation_config(json.value(), 1 << 20);
  GLINT_CHECK(generation.ok() || !generation.error().message.empty(), "an error without words");
  return 0;
}
