#include "text/answer/stop_text.h"

#include <gtest/gtest.h>

namespace glint {
namespace {

// Feeds `text` in pieces of `size` bytes; what comes out, and a "|" if it stopped.
std::string run(const std::string& text, std::vector<std::string> stops, std::size_t size) {
  StopText stop(std::move(stops));
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += size) out += stop.feed(text.substr(at, size));
  out += stop.flush();
  return stop.stopped() ? out + "|" : out;
}

TEST(StopText, the_cut_does_not_depend_on_the_pieces) {
  for (std::size_t size = 1; size < 12; ++size) {
    EXPECT_EQ(run("one, two. three", {". "}, size), "one, two|");
    EXPECT_EQ(run("aaab", {"aab"}, size), "a|");
    EXPECT_EQ(run("xx<en<end>y", {"<end>", "zzz"}, size), "xx<en|");
    EXPECT_EQ(run("nothing here <en", {"<end>"}, size), "nothing here <en");
    EXPECT_EQ(run("text", {""}, size), "text");
  }
  EXPECT_EQ(run("b then a", {"a", "b"}, 3), "|");
}

TEST(StopText, holds_back_no_more_than_it_must) {
  StopText stop({"<end>"});
  EXPECT_EQ(stop.feed("hello <"), "hello ");
  EXPECT_EQ(stop.feed("b>"), "<b>");
  EXPECT_EQ(stop.feed("<en"), "");
  EXPECT_EQ(stop.feed("d>more"), "");
  EXPECT_TRUE(stop.stopped());
  EXPECT_EQ(stop.feed("ignored"), "");
}

}  // namespace
}  // namespace glint
