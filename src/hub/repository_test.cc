#include "hub/repository.h"

#include <gtest/gtest.h>

#include "base/str.h"

namespace glint {
namespace {

const std::string kSha1(40, 'a'), kSha256(64, 'b');

std::string entry(const std::string& path, const std::string& fields) {
  return R"({"type": "file", "path": ")" + path + "\", " + fields + "}";
}
std::string error_of(const std::string& listing) {
  const auto files = read_tree(parse_json(listing).value());
  return files.ok() ? "<ok>" : files.error().message;
}

TEST(Repository, ids_and_where_their_files_lie) {
  const Repository model = parse_repository("zai-org/GLM-5@v1", "model", "").value();
  EXPECT_EQ(model.revision, "v1");
  EXPECT_EQ(model.folder(), "models--zai-org--GLM-5");
  EXPECT_EQ(model.api(), "/api/models/zai-org/GLM-5");
  EXPECT_EQ(model.file_target("c0", "a b/c#.json"), "/zai-org/GLM-5/resolve/c0/a%20b/c%23.json");
  const Repository data = parse_repository("squad", "dataset", "refs/pr/1").value();
  EXPECT_EQ(data.revision, "refs/pr/1");
  EXPECT_EQ(data.folder(), "datasets--squad");
  EXPECT_EQ(data.file_target("c0", "x"), "/datasets/squad/resolve/c0/x");
}

TEST(Repository, listings_are_read_and_hostile_ones_refused) {
  const std::string small = entry("config.json", R"("size": 3, "oid": ")" + kSha1 + '"');
  const std::string large =
      entry("sub/w.safetensors", R"("size": 130, "oid": ")" + kSha1 +
                                     R"(", "lfs": {"size": 9, "oid": ")" + kSha256 + "\"}");
  const auto files = read_tree(parse_json("[{\"type\": \"directory\", \"path\": \"sub\"}, " +
                                          small + ", " + large + "]")
                                   .value())
                         .value();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].hash(), kSha1);
  EXPECT_EQ(files[1].hash(), kSha256);
  EXPECT_EQ(files[1].size, 9);
  const std::string oid = R"("size": 1, "oid": ")" + kSha1 + '"';
  for (const char* path :
       {"../x", "a/../../x", "/etc/passwd", "a//b", "", ".", "a/./b", "a\\\\b", "a\\nb"})
    EXPECT_NE(error_of("[" + entry(path, oid) + "]").find("no folder could hold"),
              std::string::npos)
        << path;
  EXPECT_NE(error_of("[" + entry("x", R"("size": 1, "oid": "../../x")") + "]").find("no hash of"),
            std::string::npos);
  for (const char* size : {"-1", "9223372036854775807"}) {
    const std::string listed = str(R"("size": )", size, R"(, "oid": ")", kSha1, '"');
    EXPECT_NE(error_of("[" + entry("x", listed) + "]").find("no sound size"), std::string::npos);
  }
  EXPECT_NE(error_of("[" + entry("x", oid + R"(, "lfs": {"oid": "x"})") + "]").find("no SHA-256"),
            std::string::npos);
  EXPECT_NE(error_of("{}"), "<ok>");
}

TEST(Repository, patterns_are_those_of_the_hubs_tools) {
  EXPECT_TRUE(is_chosen("a/b.json", {}, {}));
  EXPECT_TRUE(is_chosen("a/b.json", {"*.json"}, {}));  // * matches /
  EXPECT_FALSE(is_chosen("a/b.json", {"*.txt"}, {}));
  EXPECT_FALSE(is_chosen("a/b.json", {"*"}, {"a/"}));
  EXPECT_TRUE(is_chosen(".hidden", {"*"}, {}));
  EXPECT_TRUE(is_chosen("x7", {"x[!0-5]"}, {}));
  EXPECT_FALSE(is_chosen("A.json", {"a.json"}, {}));
}

}  // namespace
}  // namespace glint
