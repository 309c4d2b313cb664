#include "checkpoint/model_dir.h"

#include "base/test_dir.h"

namespace glint {
namespace {

std::string refusal(const std::string& model, const std::string& cache) {
  const Result<std::string> dir = resolve_model(model, cache);
  return dir.ok() ? "accepted" : dir.error().message;
}

TEST(ModelDir, a_directory_is_taken_as_it_is) {
  const TestDir dir;
  EXPECT_EQ(resolve_model(dir.path(), "/nowhere").value(), dir.path());
}

TEST(ModelDir, a_hub_id_is_found_through_refs_and_snapshots) {
  const TestDir cache;
  const std::string repository = "models--zai-org--GLM-5";
  cache.write(repository + "/refs/main", "abc123\n");
  cache.write(repository + "/snapshots/abc123/config.json", "{}");
  cache.write(repository + "/snapshots/def456/config.json", "{}");
  EXPECT_EQ(resolve_model("zai-org/GLM-5", cache.path()).value(),
            cache / (repository + "/snapshots/abc123"));
  EXPECT_EQ(resolve_model("zai-org/GLM-5@def456", cache.path()).value(),
            cache / (repository + "/snapshots/def456"));
  EXPECT_EQ(refusal("zai-org/GLM-5@v2", cache.path()),
            "the cache has no snapshot \"v2\" of zai-org/GLM-5: there is no " +
                cache / (repository + "/snapshots/v2"));
  cache.write(repository + "/refs/refs/pr/7", "def456");
  EXPECT_EQ(resolve_model("zai-org/GLM-5@refs/pr/7", cache.path()).value(),
            cache / (repository + "/snapshots/def456"));
  EXPECT_EQ(refusal("zai-org/GLM-5@../main", cache.path()),
            "there is no directory \"zai-org/GLM-5@../main\"");
  cache.write(repository + "/refs/main", "../../..");
  EXPECT_EQ(refusal("zai-org/GLM-5", cache.path()),
            cache / (repository + "/refs/main") + " holds \"../../..\"; expected a commit");
}

TEST(ModelDir, what_is_no_model_is_told_in_one_sentence) {
  const TestDir dir;
  EXPECT_EQ(refusal("", dir.path()), "the model is empty; expected a directory or a hub id");
  EXPECT_EQ(refusal(std::string("/\0x", 3), dir.path()),
            "the model \"/\\x00x\" holds a NUL, which no path does");
  EXPECT_EQ(refusal("a/b/c", dir.path()), "there is no directory \"a/b/c\"");
  EXPECT_EQ(refusal("../x", dir.path()), "there is no directory \"../x\"");
  EXPECT_EQ(refusal("zai-org/GLM-6", dir.path()),
            "there is no directory \"zai-org/GLM-6\" and no model of that name in " + dir.path() +
                "; `glint pull zai-org/GLM-6` fetches a model");
  dir.write("models--a--b/snapshots/abc/config.json", "{}");
  EXPECT_EQ(
      refusal(dir / "models--a--b", dir.path()),
      str("\"", dir / "models--a--b", "\" is the cache's folder of all revisions; expected the ",
          "model's id, or one of the folders in ", dir / "models--a--b/snapshots"));
  const std::string file = dir.write("file", "");
  EXPECT_EQ(refusal(file, dir.path()),
            str("\"", file, "\" is a file; expected the directory of a checkpoint"));
  std::filesystem::create_symlink("loop", dir / "loop");
  EXPECT_EQ(refusal(dir / "loop", dir.path()),
            str("cannot open \"", dir / "loop", "\": Too many levels of symbolic links"));
}

}  // namespace
}  // namespace glint
