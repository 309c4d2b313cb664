#include "train/small_checkpoint.h"

#include <gtest/gtest.h>

#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "model/synthetic.h"

namespace glint {
namespace {

std::string write(const TestDir& base) {
  Json json = read_json_file(GLINT_SOURCE_DIR "/models/glm5-tiny/config.json").value();
  const std::pair<const char*, int> sizes[] = {
      {"hidden_size", 64},      {"intermediate_size", 128}, {"moe_intermediate_size", 32},
      {"q_lora_rank", 64},      {"kv_lora_rank", 64},       {"qk_nope_head_dim", 24},
      {"qk_rope_head_dim", 16}, {"head_dim", 16},           {"qk_head_dim", 40},
      {"v_head_dim", 32},       {"index_head_dim", 32},     {"index_topk", 64}};
  for (const auto& [name, size] : sizes) json.set(name, size);
  const auto model = SyntheticModel::plan(parse_config(json).value(), Release::kBF16, 1).value();
  ThreadPool pool(1);
  EXPECT_TRUE(write_synthetic_checkpoint(model, json, base / "small", pool, {}).ok());
  return base / "small";
}

}  // namespace

const std::string& small_checkpoint() {
  static const TestDir base;
  static const std::string dir = write(base);
  return dir;
}

}  // namespace glint
