#include "bench/report.h"

#include <gtest/gtest.h>

#include "bench/testing.h"

namespace glint {
namespace {

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

TEST(Report, a_run_without_answers_has_no_points_among_latencies) {
  const std::vector<Measurement> all = {measured(1, 3), measured(8, 0)};
  const std::string page = load_html(all, "today");
  EXPECT_NE(page.find("8 at once: 0.00 output tokens a second"), page.npos);
  EXPECT_EQ(page.find("8 at once: 0.00 TTFT"), page.npos);
}

TEST(Report, of_many_requests_a_part_is_drawn) {
  const std::vector<Measurement> all = {measured(1, 5001)};
  const std::string page = load_html(all, "today");
  EXPECT_LE(count(page, "class=\"wait\""), 2000u);
  EXPECT_NE(page.find("(one of 3)"), page.npos);
}

TEST(Report, says_what_a_file_leaves_open) {
  Measurement all_at_once = measured(0, 3);
  all_at_once.result.summary.peak_tokens_per_s = 0;
  const std::string table = load_table(std::vector<Measurement>{all_at_once});
  EXPECT_NE(table.find("all at once           6.0            -"), table.npos) << table;
}

TEST(Report, says_what_the_generator_cost) {
  std::vector<Measurement> all = {measured(1, 3)};
  EXPECT_NE(load_html(all, "").find("<td>1</td><td>-</td><td>-</td></tr>"), std::string::npos);
  all[0].result.client_cpu = 0.25;
  all[0].result.lag_ms = Distribution::of({1.5});
  EXPECT_NE(load_html(all, "").find("<td>25</td><td>1.50</td></tr>"), std::string::npos);
}

TEST(Report, shows_runs_side_by_side) {
  std::vector<Measurement> all = {measured(1, 3), measured(8, 3), measured(1, 2), measured(8, 2)};
  for (std::size_t i = 0; i < 4; ++i) all[i].label = i < 2 ? "before" : "<after>";
  all[3].result.records.clear();  // saved without every request
  const std::string page = load_html(all, "today");
  EXPECT_NE(page.find("<h1>before, &lt;after&gt;</h1>"), page.npos);
  EXPECT_EQ(page.find("<after>"), page.npos);
  EXPECT_EQ(count(page, "<polyline"), 2 * 4u);  // four curves of two runs
  EXPECT_EQ(count(page, "class=\"legend\">"), 4u);
  EXPECT_EQ(count(page, "<h2>Timeline</h2>"), 3u);
  EXPECT_NE(page.find("<td>before</td><td>1 at once</td>"), page.npos);
  // The same load of both, one below the other.
  const std::string table = load_table(all);
  EXPECT_EQ(count(table, "\n"), 5u);
  EXPECT_LT(table.find("before   1 at once"), table.find("<after>  1 at once"));
  EXPECT_LT(table.find("<after>  1 at once"), table.find("before   8 at once"));
}

}  // namespace
}  // namespace glint
