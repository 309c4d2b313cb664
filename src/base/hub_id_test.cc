#include "base/hub_id.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

TEST(HubId, names_a_repository_and_a_revision) {
  EXPECT_EQ(parse_hub_id("zai-org/GLM-5").value().revision, "main");
  const HubId id = parse_hub_id("zai-org/GLM-5@refs/pr/1").value();
  EXPECT_EQ(id.name, "zai-org/GLM-5");
  EXPECT_EQ(id.revision, "refs/pr/1");
  EXPECT_EQ(parse_hub_id("squad@v1", "v2").value().revision, "v2");
  for (const char* bad : {"", "a/b/c", "../x", "a/..", "/a", "a b", "a/b@", "a/b@../x", "a/b@x//y"})
    EXPECT_FALSE(parse_hub_id(bad).ok()) << bad;
  EXPECT_TRUE(is_hub_id("a/b"));
  EXPECT_FALSE(is_hub_id("gpt2"));  // as likely a folder that was misspelt
  EXPECT_EQ(hub_folder("model", "zai-org/GLM-5"), "models--zai-org--GLM-5");
}

}  // namespace
}  // namespace glint
