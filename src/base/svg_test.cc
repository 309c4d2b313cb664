#include "base/svg.h"

#include <gtest/gtest.h>

#include <cmath>

namespace glint {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Svg, bars_are_these_bytes) {
  const Chart chart = {.title = "a \"title\"",
                       .y_label = "share, %",
                       .x_label = "x < y",
                       .marks = Chart::Marks::kBars,
                       .points = {{"0", 0, "none"}, {"1e-3", 3, "three & more"}}};
  // The plot is 640 x 180 at (64, 34): columns of 320, bars of 40, ticks 60 apart.
  EXPECT_EQ(svg_chart(chart),
            "<svg viewBox=\"0 0 720 260\" role=\"img\" aria-label=\"a &#34;title&#34;\">\n"
            "<g class=\"grid\">\n"
            "<line x1=\"64\" y1=\"214\" x2=\"704\" y2=\"214\"/>\n"
            "<line x1=\"64\" y1=\"184\" x2=\"704\" y2=\"184\"/>\n"
            "<line x1=\"64\" y1=\"154\" x2=\"704\" y2=\"154\"/>\n"
            "<line x1=\"64\" y1=\"124\" x2=\"704\" y2=\"124\"/>\n"
            "<line x1=\"64\" y1=\"94\" x2=\"704\" y2=\"94\"/>\n"
            "<line x1=\"64\" y1=\"64\" x2=\"704\" y2=\"64\"/>\n"
            "<line x1=\"64\" y1=\"34\" x2=\"704\" y2=\"34\"/>\n"
            "</g>\n"
            "<g class=\"axis\">\n"
            "<text x=\"56\" y=\"218\" text-anchor=\"end\">0</text>\n"
            "<text x=\"56\" y=\"188\" text-anchor=\"end\">0.5</text>\n"
            "<text x=\"56\" y=\"158\" text-anchor=\"end\">1</text>\n"
            "<text x=\"56\" y=\"128\" text-anchor=\"end\">1.5</text>\n"
            "<text x=\"56\" y=\"98\" text-anchor=\"end\">2</text>\n"
            "<text x=\"56\" y=\"68\" text-anchor=\"end\">2.5</text>\n"
            "<text x=\"56\" y=\"38\" text-anchor=\"end\">3</text>\n"
            "<text x=\"0\" y=\"12\" text-anchor=\"start\">share, %</text>\n"
            "<text x=\"384\" y=\"254\" text-anchor=\"middle\">x &lt; y</text>\n"
            "</g>\n"
            "<g class=\"bars\">\n"
            "<rect x=\"204\" y=\"214\" width=\"40\" height=\"0\"><title>none</title></rect>\n"
            "<rect x=\"524\" y=\"34\" width=\"40\" height=\"180\">"
            "<title>three &amp; more</title></rect>\n"
            "</g>\n"
            "<g class=\"axis\">\n"
            "<text x=\"224\" y=\"230\" text-anchor=\"middle\">0</text>\n"
            "<text x=\"544\" y=\"230\" text-anchor=\"middle\">1e-3</text>\n"
            "</g>\n"
            "</svg>\n");
}

TEST(Svg, several_lines_share_the_columns_of_their_labels) {
  const Chart chart = {.points = {{"1", 1, "a"}, {"1", 2, "b", 1}, {"4", 2, "c", 1}, {"8", 0, "d"}},
                       .num_series = 2};
  const std::string svg = svg_chart(chart);
  // Three columns of 213.33.
  EXPECT_NE(
      svg.find("<g class=\"s0\">\n<polyline class=\"line\" points=\"170.67,124 597.33,214\"/>"),
      std::string::npos)
      << svg;
  EXPECT_NE(svg.find("<g class=\"s1\">\n<polyline class=\"line\" points=\"170.67,34 384,34\"/>"),
            std::string::npos)
      << svg;
  EXPECT_EQ(count(svg, "y=\"230\""), 3u);
}

TEST(Svg, values_below_zero_have_ticks_of_their_own) {
  const std::string svg = svg_chart({.points = {{"a", -0.5, ""}, {"b", 1, ""}}});
  // Ticks from -0.6 to 1, 0.2 apart: the plot's 180 units are 1.6.
  EXPECT_NE(svg.find("text-anchor=\"end\">-0.6<"), svg.npos) << svg;
  EXPECT_NE(svg.find("text-anchor=\"end\">1<"), svg.npos) << svg;
  EXPECT_NE(svg.find("points=\"224,202.75 544,34\""), svg.npos) << svg;
}

TEST(Svg, a_line_goes_through_its_points) {
  const Chart chart = {
      .title = "t",
      .y_label = "y",
      .x_label = "x",
      .points = {{"a", 1, "first"}, {"b", 0, ""}, {"c", 0.25, ""}, {"d", 0.5, ""}}};
  const std::string svg = svg_chart(chart);
  EXPECT_NE(svg.find("points=\"144,34 304,214 464,169 624,124\""), std::string::npos) << svg;
  EXPECT_NE(svg.find("<title>first</title>"), std::string::npos);
}

TEST(Svg, of_many_labels_only_those_are_drawn_that_do_not_touch) {
  Chart chart = {.title = "t"};
  for (int i = 0; i < 80; ++i) chart.points.push_back({std::to_string(100 + i), 1, ""});
  const std::string svg = svg_chart(chart);
  EXPECT_EQ(count(svg, "<circle"), 80u);
  // A label of three digits takes 44.8 units, a column 8: every sixth.
  EXPECT_EQ(count(svg, "y=\"230\""), 14u);
}

TEST(Svg, every_bar_has_its_name) {
  Chart chart = {.title = "t", .marks = Chart::Marks::kBars};
  for (int i = 0; i < 12; ++i) chart.points.push_back({"bar number" + std::to_string(i), 1, ""});
  const std::string svg = svg_chart(chart);
  EXPECT_EQ(count(svg, ">bar<"), 12u);
  EXPECT_EQ(count(svg, ">number11<"), 1u);
}

TEST(Svg, nothing_to_draw_is_an_empty_plot) {
  const std::string svg = svg_chart({.title = "t"});
  EXPECT_EQ(count(svg, "<svg"), 1u);
  EXPECT_EQ(count(svg, "nan"), 0u);
}

TEST(Svg, ticks_are_round_and_reach_the_maximum) {
  EXPECT_EQ(axis_ticks(0), (std::vector<double>{0, 1}));
  EXPECT_EQ(axis_ticks(6), (std::vector<double>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(axis_ticks(7).back(), 8);
  EXPECT_EQ(axis_ticks(13), (std::vector<double>{0, 5, 10, 15}));
  for (double max = 1e-9; max < 1e9; max *= 1.37) {
    const std::vector<double> ticks = axis_ticks(max);
    EXPECT_GE(ticks.back(), max * (1 - 1e-8));
    EXPECT_LE(ticks.size(), 7u);
    EXPECT_LE(ticks.back(), max * 2) << "at least half of the height is used";
  }
}

TEST(SvgDeathTest, values_that_cannot_be_drawn_are_a_bug) {
  EXPECT_DEATH(svg_chart({.title = "t", .points = {{"a", NAN, ""}}}), "finite");
  EXPECT_DEATH(svg_chart({.title = "t", .marks = Chart::Marks::kBars, .points = {{"a", -1, ""}}}),
               "bars from 0 up");
}

}  // namespace
}  // namespace glint
