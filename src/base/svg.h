// SVG charts, for pages that open offline: no script, no file besides.
//
// Colours are CSS variables of the page (--ink, --muted, --grid, --series), so that a chart follows
// its light and dark form. Every mark has a <title>, which browsers show on hover. Of several
// series each is a group of class s0, s1, ..., in which the page gives --series another colour.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace glint {

struct ChartPoint {
  std::string label;  // below the axis; of many labels only some are drawn
  double value = 0;   // finite; of bars >= 0
  std::string note;   // on hover: "after layer 3: 1.2e-03"
  std::size_t series = 0;
};

struct Chart {
  enum class Marks { kLine, kBars };

  std::string title = {};    // what a screen reader says of it
  std::string y_label = {};  // drawn above the axis, with the unit
  std::string x_label = {};
  Marks marks = Marks::kLine;
  std::vector<ChartPoint> points = {};
  // Lines only, at most. With more than one, points of the same label stand above each other, and
  // labels come in the order of the points.
  std::size_t num_series = 1;
};

// An <svg> element; numbers in it have two decimals at most, so that equal charts are equal bytes.
std::string svg_chart(const Chart& chart);

// Ticks of an axis from 0 to at least `max`: multiples of 1, 2 or 5 times a power of ten, 6 at most
// beside the zero. {0, 1} where max is 0.
std::vector<double> axis_ticks(double max);

}  // namespace glint
