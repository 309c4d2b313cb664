#include "net/sse_reader.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

// "name=data|" for each event of `text`, fed in pieces of `piece` bytes.
std::string events(std::string_view text, std::size_t piece = std::string_view::npos) {
  std::string out;
  SseReader reader([&](std::string_view event, std::string_view data) {
    out.append(event).append("=").append(data).append("|");
    return true;
  });
  for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size() - at)) {
    EXPECT_TRUE(reader.feed(text.substr(at, piece)));
  }
  return out;
}

TEST(SseReader, the_standard_s_examples) {
  EXPECT_EQ(events("data: YHOO\ndata: +2\ndata: 10\n\n"), "=YHOO\n+2\n10|");
  EXPECT_EQ(events(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  "
                   "third event\n\n"),
            "=first event|=second event|= third event|");
  EXPECT_EQ(events("data\n\ndata\ndata\n\ndata:"), "=|=\n|");
  EXPECT_EQ(events("data:test\n\ndata: test\n\n"), "=test|=test|");
  EXPECT_EQ(
      events("event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent: x\n\ndata: y\n\n"),
      "add=73857293|remove=2153|=y|");
}

TEST(SseReader, every_line_ending_cut_anywhere) {
  for (const std::string end : {"\n", "\r", "\r\n"}) {
    std::string text = "\xef\xbb\xbf";
    for (const char* line :
         {"event: a", "data: one", "data: two", "", ": ping", "", "data: {\"x\":\"y: z\"}", "",
          "retry: 5", "data: [DONE]", "", "data: never ended"}) {
      text += line + end;
    }
    const std::string expected = "a=one\ntwo|={\"x\":\"y: z\"}|=[DONE]|";
    for (std::size_t piece = 1; piece <= text.size(); ++piece) {
      EXPECT_EQ(events(text, piece), expected) << piece;
    }
  }
  EXPECT_EQ(events("data: a\r\n\rdata: b\n\r\n"), "=a|=b|");  // mixed
}

TEST(SseReader, the_function_ends_the_reading) {
  int num_events = 0;
  SseReader reader([&](std::string_view, std::string_view) { return ++num_events < 2; });
  EXPECT_TRUE(reader.feed("data: 1\n\n"));
  EXPECT_FALSE(reader.feed("data: 2\n\ndata: 3\n\n"));
  EXPECT_FALSE(reader.feed("data: 4\n\n"));
  EXPECT_EQ(num_events, 2);
}

TEST(SseReader, a_server_cannot_fill_the_memory) {
  SseReader line([](std::string_view, std::string_view) { return true; }, 100);
  EXPECT_TRUE(line.feed("data: " + std::string(90, 'a')));
  EXPECT_FALSE(line.feed("aaaaaaaaaaaa"));
  SseReader lines([](std::string_view, std::string_view) { return true; }, 100);
  bool going = true;
  int fed = 0;
  while (going && fed < 1000) going = lines.feed("data: aaaa\n"), ++fed;
  EXPECT_LT(fed, 30);
}

}  // namespace
}  // namespace glint
