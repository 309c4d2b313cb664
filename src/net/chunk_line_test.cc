#include "net/chunk_line.h"

#include <gtest/gtest.h>

#include <string>

namespace glint {
namespace {

using State = ChunkLine::State;

TEST(ChunkLine, whole_lines_and_their_ends) {
  const ChunkLine line = look_at_chunk_line("1a;x=y\r\nabc", true);
  EXPECT_EQ(line.state, State::kWhole);
  EXPECT_EQ(line.end, 6u);
  EXPECT_FALSE(line.last);
  EXPECT_EQ(look_at_chunk_line("\r\n1a\r\n", false).end, 4u);
  for (const char* last : {"0\r\n", "000\r\n", "0;x\r\n", "0\t ;x\r\n"}) {
    EXPECT_TRUE(look_at_chunk_line(last, true).last) << last;
  }
  EXPECT_FALSE(look_at_chunk_line("0a\r\n", true).last);
}

TEST(ChunkLine, extensions_are_left_out) {
  for (const char* line :
       {"1a;x\r\n", "1a;x=y\r\n", "1a ; x=\"a;b\\\"c\"\r\n", "1a;x = \"\";y\r\n"}) {
    EXPECT_EQ(look_at_chunk_line(line, true).state, State::kWhole) << line;
    EXPECT_EQ(look_at_chunk_line(line, true).size, "1a") << line;
  }
}

TEST(ChunkLine, fields_behind_a_body_end_with_an_empty_line) {
  EXPECT_EQ(look_at_trailers("\r\nGET").bytes, 2u);
  EXPECT_EQ(look_at_trailers("a: b\r\nc:\r\n\r\nGET").bytes, 12u);
  for (const char* part : {"", "\r", "a: b", "a: b\r\n", "a: b\r\n\r"}) {
    EXPECT_EQ(look_at_trailers(part).state, State::kNeedMore) << part;
  }
  for (const char* bad : {"a\r\n\r\n", ": b\r\n\r\n", " a: b\r\n\r\n", "a : b\r\n\r\n",
                          "a: b\nc: d\r\n\r\n", "a: \x01\r\n\r\n"}) {
    EXPECT_EQ(look_at_trailers(bad).state, State::kBad) << bad;
  }
}

TEST(ChunkLine, parts_need_more) {
  for (const char* part : {"", "\r", "\r\n", "\r\n1", "\r\n1\r"}) {
    EXPECT_EQ(look_at_chunk_line(part, false).state, State::kNeedMore) << part;
  }
  EXPECT_EQ(look_at_chunk_line("1", true).state, State::kNeedMore);
}

TEST(ChunkLine, doubtful_lines_are_bad) {
  for (const char* line : {"x", "\n", "\r1", "\r\n\r\n", "\r\n1\n\r\n", "\r\n1 a\r\n", "\r\n1 \r\n",
                           "\r\n1;\r\n", "\r\n1;=b\r\n", "\r\n1;a=\r\n", "\r\n1;a=\"b\r\n",
                           "\r\n1;a=\"b\\\"\r\n", "\r\n1\x01\r\n", "\r\n1\xff\r\n"}) {
    EXPECT_EQ(look_at_chunk_line(line, false).state, State::kBad) << line;
  }
  EXPECT_EQ(look_at_chunk_line("\r\n", true).state, State::kBad);
  const std::string zeros(4096, '0');
  EXPECT_EQ(look_at_chunk_line(zeros + "\r\n", true).state, State::kWhole);
  EXPECT_EQ(look_at_chunk_line(zeros + "\r", true).state, State::kNeedMore);
  EXPECT_EQ(look_at_chunk_line(zeros + "0\r", true).state, State::kBad);
  EXPECT_EQ(look_at_chunk_line(zeros + "0\r\n", true).state, State::kBad);
}

}  // namespace
}  // namespace glint
