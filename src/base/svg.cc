#include "base/svg.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/check.h"
#include "base/str.h"

namespace glint {
namespace {

// The drawing is kWidth x kHeight units; the plot lies inside the margins.
constexpr double kWidth = 720, kHeight = 260;
constexpr double kLeft = 64, kRight = 16, kTop = 34, kBottom = 46;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr double kLabelHeight = 12;       // font size
constexpr double kCharacterWidth = 11.2;  // of a digit in the size that phones show, rounded up

// "12.5", "3": two decimals at most.
std::string coordinate(double value) {
  std::string out = formatted("%.2f", value);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.ends_with('.')) out.pop_back();
  return out == "-0" ? "0" : out;
}

std::string tick_text(double value) { return formatted("%.4g", value); }

struct TextAt {
  double x = 0, y = 0;
  const char* anchor = "middle";  // "start", "middle", "end"
};

std::string text(const TextAt& at, std::string_view content) {
  return str("<text x=\"", coordinate(at.x), "\" y=\"", coordinate(at.y), "\" text-anchor=\"",
             at.anchor, "\">", escape_html(content), "</text>\n");
}

class Drawing {
 public:
  explicit Drawing(const Chart& chart) : chart_(chart) {
    double min = 0, max = 0;
    const bool bars = chart.marks == Chart::Marks::kBars;
    for (const ChartPoint& point : chart.points) {
      GLINT_CHECK(std::isfinite(point.value) && !(bars && point.value < 0),
                  "a chart draws finite values, and bars from 0 up");
      GLINT_CHECK(point.series < chart.num_series, "a point belongs to a series");
      min = std::min(min, point.value);
      max = std::max(max, point.value);
      const auto known = std::find(labels_.begin(), labels_.end(), point.label);
      const bool shared = chart.num_series > 1 && known != labels_.end();
      columns_.push_back(shared ? static_cast<std::size_t>(known - labels_.begin())
                                : labels_.size());
      if (!shared) labels_.push_back(point.label);
    }
    ticks_ = axis_ticks(std::max(max, -min));
    if (min == 0) return;
    const double step = ticks_[1];
    ticks_.clear();
    for (double i = std::floor(min / step); i <= std::ceil(max / step); ++i) {
      ticks_.push_back(i * step);
    }
  }

  std::string draw() const {
    return str("<svg viewBox=\"0 0 ", kWidth, " ", kHeight, "\" role=\"img\" aria-label=\"",
               escape_html(chart_.title), "\">\n", axes(),
               chart_.marks == Chart::Marks::kBars ? bars() : lines(), x_labels(), "</svg>\n");
  }

 private:
  // Points stand in the middle of columns of equal width.
  double column() const {
    return kPlotWidth / static_cast<double>(std::max<std::size_t>(labels_.size(), 1));
  }
  double column_x(std::size_t at) const {
    return kLeft + column() * (static_cast<double>(at) + 0.5);
  }
  double x(std::size_t i) const { return column_x(columns_[i]); }
  double y(double value) const {
    return kTop + kPlotHeight * (1 - (value - ticks_.front()) / (ticks_.back() - ticks_.front()));
  }

  std::string axes() const {
    std::string out = "<g class=\"grid\">\n";
    for (const double tick : ticks_) {
      const std::string at = coordinate(y(tick));
      out += str("<line x1=\"", kLeft, "\" y1=\"", at, "\" x2=\"", kWidth - kRight, "\" y2=\"", at,
                 "\"/>\n");
    }
    out += "</g>\n<g class=\"axis\">\n";
    for (const double tick : ticks_) {
      out +=
          text({.x = kLeft - 8, .y = y(tick) + kLabelHeight / 3, .anchor = "end"}, tick_text(tick));
    }
    out += text({.x = 0, .y = kLabelHeight, .anchor = "start"}, chart_.y_label);
    out += text({.x = kLeft + kPlotWidth / 2, .y = kHeight - 6}, chart_.x_label);
    return out + "</g>\n";
  }

  // Every n-th label, n the least for which they do not touch. Names of bars cannot be guessed:
  // they are all there, a word a line.
  std::string x_labels() const {
    const bool are_names = chart_.marks == Chart::Marks::kBars && !labels_.empty() &&
                           !labels_[0].empty() &&
                           std::isalpha(static_cast<unsigned char>(labels_[0][0]));
    std::size_t longest = 1;
    for (const std::string& label : labels_) longest = std::max(longest, label.size());
    const double room = (static_cast<double>(longest) + 1) * kCharacterWidth;
    const std::size_t every = are_names ? 1 : static_cast<std::size_t>(std::ceil(room / column()));
    std::string out = "<g class=\"axis\">\n";
    for (std::size_t i = 0; i < labels_.size(); i += every) {
      TextAt at = {.x = column_x(i), .y = kHeight - kBottom + 16};
      for (const std::string_view line : split(labels_[i], are_names ? ' ' : '\0')) {
        out += text(at, line);
        at.y += kLabelHeight + 2;
      }
    }
    return out + "</g>\n";
  }

  std::string bars() const {
    // A gap of two units between bars; none wider than 40.
    const double width = std::clamp(column() - 2, 0.5, 40.0);
    std::string out = "<g class=\"bars\">\n";
    for (std::size_t i = 0; i < chart_.points.size(); ++i) {
      const double top = y(chart_.points[i].value);
      out +=
          str("<rect x=\"", coordinate(x(i) - width / 2), "\" y=\"", coordinate(top), "\" width=\"",
              coordinate(width), "\" height=\"", coordinate(kTop + kPlotHeight - top), "\"><title>",
              escape_html(chart_.points[i].note), "</title></rect>\n");
    }
    return out + "</g>\n";
  }

  std::string lines() const {
    if (chart_.num_series == 1) return line(0);
    std::string out;
    for (std::size_t k = 0; k < chart_.num_series; ++k)
      out += str("<g class=\"s", k, "\">\n", line(k), "</g>\n");
    return out;
  }

  std::string line(std::size_t series) const {
    std::string path, dots;
    // The target of the pointer is a whole column, the dot inside it what is seen; of several
    // series, whose columns are shared, the dot alone.
    const double radius = std::clamp(column() / 4, 1.5, 4.0);
    for (std::size_t i = 0; i < chart_.points.size(); ++i) {
      const ChartPoint& point = chart_.points[i];
      if (point.series != series) continue;
      const std::string at_x = coordinate(x(i)), at_y = coordinate(y(point.value));
      path += str(path.empty() ? "" : " ", at_x, ",", at_y);
      dots += str("<g><title>", escape_html(point.note), "</title>");
      if (chart_.num_series == 1)
        dots += str("<rect x=\"", coordinate(x(i) - column() / 2), "\" y=\"", kTop, "\" width=\"",
                    coordinate(column()), "\" height=\"", kPlotHeight, "\"/>");
      dots +=
          str("<circle cx=\"", at_x, "\" cy=\"", at_y, "\" r=\"", coordinate(radius), "\"/></g>\n");
    }
    return str("<polyline class=\"line\" points=\"", path, "\"/>\n<g class=\"dots\">\n", dots,
               "</g>\n");
  }

  const Chart& chart_;
  std::vector<std::string> labels_;   // of the columns
  std::vector<std::size_t> columns_;  // of the points
  std::vector<double> ticks_;
};

}  // namespace

std::string svg_chart(const Chart& chart) { return Drawing(chart).draw(); }

std::vector<double> axis_ticks(double max) {
  if (!(max > 0)) return {0, 1};
  constexpr int kMostSteps = 6;
  // The least power of ten that reaches max in kMostSteps steps of 1, 2 or 5 of it.
  double power = std::pow(10, std::floor(std::log10(max)) - 1);
  for (;; power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double step = factor * power;
      const double steps = std::ceil(max / step - 1e-9);
      if (steps > kMostSteps) continue;
      std::vector<double> ticks;
      for (int i = 0; i <= static_cast<int>(steps); ++i) ticks.push_back(step * i);
      return ticks;
    }
  }
}

}  // namespace glint
