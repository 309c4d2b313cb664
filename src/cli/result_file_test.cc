#include "cli/result_file.h"

#include <gtest/gtest.h>

#include "base/test_dir.h"

namespace glint {
namespace {

TEST(ResultFile, holds_machine_build_and_figures_with_their_ranges) {
  const TestDir dir;
  const std::string path = dir / "figures.json";
  const BenchRun run = {
      .benchmark = "bench local",
      .options = Json::Object{{"model", "m"}},
      .rates = {.backend = "cpu", .threads = 2, .read_gb_s = 30},
      .figures = {{.name = "decode", .unit = "tok/s", .samples = {3, 1, 2, 10}},
                  {.name = "gap", .unit = "us", .more_is_better = false, .samples = {5}}}};
  ASSERT_TRUE(write_figures(path, run).ok());
  const Json json = read_json_file(path).value();
  EXPECT_EQ(json.find("format")->as_string(), "glint-figures-1");
  EXPECT_EQ(json.find("source")->as_string(), "measured");
  EXPECT_TRUE(json.find("machine")->find("cpu"));
  EXPECT_EQ(json.find("machine")->find("rates")->find("read_gb_per_s")->as_double(), 30);
  EXPECT_FALSE(json.find("build")->find("version")->as_string().empty());
  const Json& decode = json.find("figures")->as_array()[0];
  EXPECT_EQ(decode.find("median")->as_double(), 2.5);
  EXPECT_EQ(decode.find("low")->as_double(), 1);
  EXPECT_EQ(decode.find("high")->as_double(), 10);
  EXPECT_EQ(decode.find("rounds")->as_int(), 4);
  EXPECT_EQ(decode.find("better")->as_string(), "more");
  EXPECT_EQ(json.find("figures")->as_array()[1].find("better")->as_string(), "less");
}

TEST(ResultFile, without_a_name_there_is_none) {
  EXPECT_TRUE(write_figures("", {.benchmark = "b", .options = {}, .figures = {}}).ok());
  EXPECT_FALSE(
      write_figures("/no/such/folder/f.json", {.benchmark = "b", .options = {}, .figures = {}})
          .ok());
}

TEST(ResultFile, a_place_that_cannot_be_written_is_known_before) {
  const TestDir dir;
  EXPECT_TRUE(check_result_file("").ok());
  EXPECT_TRUE(check_result_file(dir / "f.json").ok());
  EXPECT_FALSE(check_result_file("/no/such/folder/f.json").ok());
}

}  // namespace
}  // namespace glint
