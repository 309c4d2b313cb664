#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "base/str.h"
#include "base/thread_pool.h"
#include "model/field_reader.h"

namespace glint {
namespace {

void read_yarn_scales(FieldReader& fields, RopeConfig& rope) {
  const double mscale = fields.number("mscale", 0, 1e3, 0);
  const double mscale_all_dim = fields.number("mscale_all_dim", 0, 1e3, 0);
  const auto m = [&](double scale) { return 0.1 * scale * std::log(rope.factor) + 1; };
  const bool has_both = mscale != 0 && mscale_all_dim != 0;
  rope.softmax_factor = m(mscale_all_dim) * m(mscale_all_dim);
  rope.attention_factor =
      fields.number("attention_factor", 1e-6, 1e6, has_both ? m(mscale) / m(mscale_all_dim) : m(1));
}

// Parses the scaling in one of its two places (rope_parameters, rope_scaling).
Result<RopeConfig> parse_scaling(std::string_view place, const Json& json) {
  FieldReader fields(json);
  RopeConfig rope;
  const std::string type = fields.text("rope_type", fields.text("type", "default"));
  if (type == "default" || type == "none") {
    if (const double factor = fields.number("factor", 0, 1e6, 1); factor != 1) {
      fields.fail(str("type ", quoted(type), " with factor ", factor, " is a contradiction"));
    }
  } else if (type == "yarn" || type == "deepseek_yarn") {
    rope.factor = fields.number("factor", 1, 1e6);
    rope.original_max_position_embeddings =
        fields.integer("original_max_position_embeddings", 1, std::int64_t{1} << 24);
    rope.beta_fast = fields.number("beta_fast", 1e-3, 1e6, 32);
    rope.beta_slow = fields.number("beta_slow", 1e-3, 1e6, 1);
    rope.truncate = fields.boolean("truncate", true);
    read_yarn_scales(fields, rope);
    if (rope.beta_fast < rope.beta_slow) {
      fields.fail(str("beta_fast ", rope.beta_fast, " is below beta_slow ", rope.beta_slow));
    }
  } else {
    fields.fail(str("type ", quoted(type), " is not supported; expected \"default\", \"none\" or ",
                    "\"yarn\""));
  }
  if (!fields.ok()) return fields.status().take_error().in(place);
  return rope;
}

// A place that only holds rope_theta leaves the scaling to the other one.
bool says_nothing(const FieldReader& place) {
  return !place.has("rope_type") && !place.has("type") && !place.has("factor");
}

Result<double> parse_theta(const Json& config) {
  static const Json kNothing = Json::Object{};
  std::optional<double> theta;
  std::string first_place;
  const auto read = [&](const Json* holder, std::string place) -> Status {
    FieldReader fields(holder ? *holder : kNothing);
    if (!fields.has("rope_theta")) return Ok{};
    const double found = fields.number("rope_theta", 2, 1e18);
    if (theta && *theta != found) {
      fields.fail(str(place, " is ", found, " but ", first_place, " is ", *theta));
    }
    if (!theta) theta = found, first_place = place;
    return fields.status();
  };
  GLINT_TRY_STATUS(read(config.find("rope_parameters"), "rope_parameters.rope_theta"));
  GLINT_TRY_STATUS(read(&config, "rope_theta"));
  GLINT_TRY_STATUS(read(config.find("rope_scaling"), "rope_scaling.rope_theta"));
  if (!theta) {
    return invalid("rope_theta is missing; expected it in rope_parameters or beside it");
  }
  return *theta;
}

}  // namespace

Result<RopeConfig> parse_rope(const Json& config) {
  FieldReader fields(config);
  std::optional<RopeConfig> rope;
  for (const char* place : {"rope_parameters", "rope_scaling"}) {
    const Json* json = fields.find(place);
    if (!json) continue;
    if (!json->is_object())
      return invalid(str(place, " is ", json->kind(), "; expected an object"));
    if (says_nothing(FieldReader(*json))) continue;
    GLINT_TRY(const RopeConfig found, parse_scaling(place, *json));
    if (rope && *rope != found) {
      return invalid("rope_parameters and rope_scaling disagree about the scaling");
    }
    rope = found;
  }
  if (!rope) rope = RopeConfig{};
  GLINT_TRY(rope->theta, parse_theta(config));
  return *rope;
}

std::vector<float> rope_inv_freq(const RopeConfig& rope, std::int64_t dim) {
  std::vector<float> table(static_cast<std::size_t>(dim / 2));
  for (std::size_t j = 0; j < table.size(); ++j) {
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(dim);
    table[j] = 1.0f / static_cast<float>(std::pow(rope.theta, exponent));
  }
  if (!rope.is_yarn()) return table;

  // The (fractional) pair that turns `rotations` times within the original context.
  const auto pair_of = [&](double rotations) {
    const double turns = static_cast<double>(rope.original_max_position_embeddings) /
                         (2 * std::numbers::pi * rotations);
    return static_cast<double>(dim) * std::log(turns) / (2 * std::log(rope.theta));
  };
  double low = pair_of(rope.beta_fast), high = pair_of(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  // With a tiny original context `high` may be below `low`: the formula is as published.
  if (high == low) high += 1e-3;
  for (std::size_t j = 0; j < table.size(); ++j) {
    const float ramp =
        static_cast<float>(std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0));
    table[j] = table[j] / static_cast<float>(rope.factor) * ramp + table[j] * (1 - ramp);
  }
  return table;
}

std::vector<float> rope_table(const RopeConfig& rope, std::int64_t dim, std::int64_t positions,
                              ThreadPool& pool) {
  const std::vector<float> inv_freq = rope_inv_freq(rope, dim);
  const auto factor = static_cast<float>(rope.attention_factor);
  std::vector<float> table(static_cast<std::size_t>(positions * dim));
  pool.run_dynamic(positions, [&](std::int64_t p, int) {
    float* const cos = table.data() + p * dim;
    float* const sin = cos + dim / 2;
    for (std::size_t j = 0; j < inv_freq.size(); ++j) {
      const double angle = static_cast<float>(p) * inv_freq[j];
      cos[j] = static_cast<float>(std::cos(angle)) * factor;
      sin[j] = static_cast<float>(std::sin(angle)) * factor;
    }
  });
  return table;
}

}  // namespace glint
