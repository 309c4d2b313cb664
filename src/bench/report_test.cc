#include "bench/report.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace glint {
namespace {

BenchClock::time_point at(int ms) {
  return BenchClock::time_point{} + std::chrono::milliseconds(ms);
}

Measurement measured(int clients, int requests) {
  Measurement m = {.model = "<m>", .url = "http://x"};
  m.options.concurrency = clients;
  for (int i = 0; i < requests; ++i)
    m.result.records.push_back(
        {.start = at(10 * i), .chunks = {at(10 * i + 5), at(10 * i + 9)}, .usage_tokens = 2});
  m.result.records.push_back({.start = at(1), .failure = "\"broke\" & <b>"});
  m.result.summary = summarize(m.result.records, 1);
  return m;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t out = 0;
  for (std::size_t i = text.find(what); i != text.npos; i = text.find(what, i + 1)) ++out;
  return out;
}

TEST(Report, stands_alone_and_shows_every_request) {
  const std::vector<Measurement> all = {measured(1, 3), measured(8, 5)};
  const std::string page = load_html(all, "today");
  EXPECT_EQ(count(page, "class=\"answer\""), 8u);
  EXPECT_EQ(count(page, "class=\"failed\""), 2u);
  EXPECT_EQ(count(page, "<h2>Timeline</h2>"), 2u);
  EXPECT_EQ(count(page, "<h2>Throughput</h2>"), 1u);
  EXPECT_EQ(count(page, "<svg"), count(page, "</svg>"));
  EXPECT_EQ(page.find("<m>"), page.npos);
  EXPECT_EQ(page.find("<b>"), page.npos);
  for (const char* outside : {"<script", "src=", "href=", "url("})
    EXPECT_EQ(page.find(outside), page.npos) << outside;
  EXPECT_EQ(load_html(std::vector<Measurement>{measured(1, 3)}, "").find("<h2>Throughput"),
            std::string::npos);
}

TEST(Report, of_many_requests_a_part_is_drawn) {
  const std::vector<Measurement> all = {measured(1, 5001)};
  const std::string page = load_html(all, "today");
  EXPECT_LE(count(page, "class=\"wait\""), 2000u);
  EXPECT_NE(page.find("(one of 3)"), page.npos);
}

}  // namespace
}  // namespace glint
