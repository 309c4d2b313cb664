#include "bench/distribution.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/str.h"

namespace glint {

std::string Percentile::name() const { return formatted("p%.10g", percent); }

Distribution Distribution::of(std::vector<double> values, std::span<const double> percentiles) {
  Distribution out;
  for (const double percent : percentiles) out.asked.push_back({percent, 0});
  out.count = values.size();
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  const auto percentile = [&](double q) {
    const double at = q * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
  };
  const auto n = static_cast<double>(values.size());
  for (const double v : values) out.mean += v / n;
  double squares = 0;
  for (const double v : values) squares += (v - out.mean) * (v - out.mean) / n;
  out.std = std::sqrt(squares);
  out.p50 = percentile(0.5);
  out.p90 = percentile(0.9);
  out.p95 = percentile(0.95);
  out.p99 = percentile(0.99);
  out.max = values.back();
  for (Percentile& each : out.asked) each.value = percentile(each.percent / 100);
  return out;
}

std::string number_of(const Distribution& d, double value, int decimals) {
  return d.count > 0 ? formatted("%.*f", decimals, value) : "-";
}

Json to_json(const Distribution& d) {
  Json out = Json::Object{};
  for (const auto& [name, value] :
       {std::pair("mean", d.mean), std::pair("std", d.std), std::pair("p50", d.p50),
        std::pair("p90", d.p90), std::pair("p95", d.p95), std::pair("p99", d.p99),
        std::pair("max", d.max)}) {
    out.set(name, d.count > 0 ? Json(value) : Json());
  }
  for (const Percentile& each : d.asked)
    out.set(each.name(), d.count > 0 ? Json(each.value) : Json());
  out.set("count", static_cast<std::int64_t>(d.count));
  return out;
}

}  // namespace glint
