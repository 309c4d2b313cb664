#include "train/round_log.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/test_dir.h"

namespace glint {
namespace {

class RoundLogTest : public testing::Test {
 protected:
  RoundLog open(std::int64_t end) { return RoundLog::open(path_, "round", end).value(); }
  void write(const std::string& text) { dir_.write("logs/log.jsonl", text); }
  std::string contents() { return read_file(path_).value(); }

  const TestDir dir_;
  const std::string path_ = dir_ / "logs/log.jsonl";  // in a folder that the log makes
};

TEST_F(RoundLogTest, RoundsThatAreDoneAgainAreDropped) {
  RoundLog log = open(0);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(log.add(Json::Object{{"round", i}, {"x", 0.5}}).ok());
  }
  EXPECT_EQ(contents(),
            "{\"round\":0,\"x\":0.5}\n{\"round\":1,\"x\":0.5}\n{\"round\":2,\"x\":0.5}\n");
  RoundLog again = open(2);
  EXPECT_EQ(again.lines().size(), 2u);
  ASSERT_TRUE(again.add(Json::Object{{"round", 2}, {"x", 1}}).ok());
  EXPECT_EQ(again.lines().size(), 3u);
  EXPECT_EQ(contents(),
            "{\"round\":0,\"x\":0.5}\n{\"round\":1,\"x\":0.5}\n{\"round\":2,\"x\":1}\n");
}

TEST_F(RoundLogTest, LinesThatAreTakenOutOfMemoryStayInTheFile) {
  RoundLog log = open(0);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(log.add(Json::Object{{"round", i}}).ok());
  log.thin([](std::vector<Json>& lines) { lines.erase(lines.begin()); });
  EXPECT_EQ(log.lines().size(), 2u);
  EXPECT_EQ(contents(), "{\"round\":0}\n{\"round\":1}\n{\"round\":2}\n");
}

TEST_F(RoundLogTest, ALineThatWasCutShortIsDropped) {
  ASSERT_TRUE(open(0).add(Json::Object{{"round", 0}}).ok());
  write(contents() + "{\"round\":1,\"x");
  EXPECT_EQ(open(5).lines().size(), 1u);
  EXPECT_EQ(contents(), "{\"round\":0}\n");
}

TEST_F(RoundLogTest, OfALargeLogTheNewestIsRead) {
  RoundLog log = open(0);
  ASSERT_TRUE(log.add(Json::Object{{"round", -1}}).ok());
  std::filesystem::resize_file(path_, (std::uintmax_t{1} << 30) + 1);  // a hole, on no disk
  ASSERT_TRUE(log.add(1).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(log.add(Json::Object{{"round", i}}).ok());
  const std::uintmax_t size = std::filesystem::file_size(path_);
  EXPECT_EQ(open(2).lines().size(), 2u);
  EXPECT_EQ(std::filesystem::file_size(path_), size - std::string("{\"round\":2}\n").size());
}

TEST_F(RoundLogTest, AFileOfOthersStaysAsItIs) {
  const std::string rows = "{\"messages\": []}\n";
  write(rows);
  const Result<RoundLog> log = RoundLog::open(path_, "round", 0);
  ASSERT_FALSE(log.ok());
  EXPECT_NE(log.error().message.find("no log of a run"), std::string::npos);
  EXPECT_EQ(contents(), rows);
}

TEST_F(RoundLogTest, ALogWhoseFirstLineWasCutShortBeginsAnew) {
  write("{\"rou");
  EXPECT_TRUE(open(0).lines().empty());
  EXPECT_EQ(contents(), "");
}

TEST(RoundLog, AFileThatCannotBeWrittenIsNamed) {
  const Result<RoundLog> log = RoundLog::open("/proc/none/log.jsonl", "round", 0);
  ASSERT_FALSE(log.ok());
  EXPECT_NE(log.error().message.find("/proc/none"), std::string::npos);
}

}  // namespace
}  // namespace glint
