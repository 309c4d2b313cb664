// For tests: a small checkpoint of the real architecture, with made-up weights.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/test_dir.h"
#include "base/thread_pool.h"
#include "model/synthetic.h"

namespace glint {

// The directory `dir`/small, 6 MiB in BF16: the bundled model's config with 8 experts, few words
// and one file.
inline std::string make_small_model(const TestDir& dir, Release release = Release::kBF16) {
  Json json = read_json_file(GLINT_SOURCE_DIR "/models/glm5-tiny/config.json").value();
  json.set("n_routed_experts", 8);
  json.set("vocab_size", 512);
  json.set("eos_token_id", Json::Array{1, 2});
  json.set("pad_token_id", 1);
  json.set("num_attention_heads", 2);
  json.set("num_key_value_heads", 2);
  const auto model = SyntheticModel::plan(parse_config(json).value(), release, 1).value();
  ThreadPool pool(2);
  EXPECT_TRUE(write_synthetic_checkpoint(model, json, dir / "small", pool, {}).ok());
  return dir / "small";
}

}  // namespace glint
