#include "train/event_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/test_dir.h"

namespace glint {
namespace {

TEST(EventFile, ChecksumsAreCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
}

TEST(EventFile, ARecordIsFramedWithMaskedChecksums) {
  const std::string record = framed_record("abc");
  ASSERT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

TEST(EventFile, NumbersWithASlashInTheirNamesAreScalars) {
  const TestDir temporary;
  const std::string dir = temporary / "new/events";
  EventFile events = EventFile::open(dir, 7).value();
  ASSERT_TRUE(
      events.add(7, Json::Object{{"round", 7}, {"a/b", 0.5}, {"c/d", 3}, {"e/f", "x"}}).ok());
  const std::filesystem::directory_iterator files(dir);
  const std::string bytes = read_file(files->path().string()).value();
  EXPECT_NE(bytes.find("brain.Event:2"), bytes.npos);
  // Value { tag = "a/b", simple_value = 0.5f }, then that of c/d, and nothing else.
  EXPECT_NE(bytes.find(std::string("\n\n\n\3a/b\x15\0\0\0\x3f\n\n\n\3c/d\x15\0\0\x40\x40", 24)),
            bytes.npos);
  EXPECT_EQ(bytes.find("round"), bytes.npos);
  EXPECT_EQ(bytes.find("e/f"), bytes.npos);
}

TEST(EventFile, AFolderThatCannotBeMadeIsNamed) {
  const Result<EventFile> events = EventFile::open("/proc/none", 0);
  ASSERT_FALSE(events.ok());
  EXPECT_NE(events.error().message.find("/proc/none"), std::string::npos);
}

}  // namespace
}  // namespace glint
