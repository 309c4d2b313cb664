#include "model/open_model.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/str.h"
#include "base/test_dir.h"

namespace glint {
namespace {

const std::string kModel = str(GLINT_SOURCE_DIR, "/models/glm5-tiny");

TEST(OpenModel, a_folder_gives_what_its_files_say) {
  const auto all = open_model(kModel, ModelFiles::kAll);
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all.value().config.vocab_size, 3712);
  EXPECT_FALSE(all.value().generation.eos_token_ids.empty());
  EXPECT_TRUE(all.value().checkpoint.has_value());

  const auto config = open_model(kModel, ModelFiles::kConfig);
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_FALSE(config.value().generation.eos_token_ids.empty());
  EXPECT_FALSE(config.value().checkpoint.has_value());
}

TEST(OpenModel, weights_may_be_missing_where_they_are_not_demanded) {
  const TestDir dir;
  std::filesystem::copy(kModel + "/config.json", dir / "config.json");
  dir.write("model.safetensors.index.json", R"({"weight_map": {"w": "model-1.safetensors"}})");
  const std::string path = dir / "";
  EXPECT_FALSE(open_model(path, ModelFiles::kAll).ok());
  for (const std::string& asked : {path, dir / "config.json"}) {
    const auto model = open_model(asked, ModelFiles::kIfStored);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(model.value().config.vocab_size, 3712);
    EXPECT_FALSE(model.value().checkpoint.has_value());
  }
  // Half of the weights is not none.
  dir.write("model-2.safetensors", "");
  EXPECT_FALSE(open_model(path, ModelFiles::kIfStored).ok());
  // A file is no folder of weights.
  EXPECT_FALSE(open_model(dir / "config.json", ModelFiles::kAll).ok());
}

}  // namespace
}  // namespace glint
