// Inputs of quantize and verify besides weights: manifests, calibrations, lists of excluded
// modules, globs.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/glob.h"
#include "quant/activation_ranges.h"
#include "quant/descriptors.h"
#include "quant/manifest.h"
#include "quant/matchers.h"

namespace {

using namespace glint;

void check_ranges(const Json& json) {
  const Result<ActivationRanges> parsed = parse_activation_ranges(json);
  if (!parsed.ok()) return;
  ActivationRanges ranges = parsed.value();
  for (const auto& [name, range] : ranges) {
    GLINT_CHECK(std::isfinite(range.amax) && range.amax >= 0 && range.tokens >= 0, "range");
  }
  GLINT_CHECK(parse_activation_ranges(to_json(ranges)).value() == ranges, "ranges survive");
  fill_unseen_experts(ranges);
}

void check_manifest(const Json& json) {
  const Result<Manifest> manifest = parse_manifest(json);
  if (!manifest.ok()) return;
  const Manifest again = parse_manifest(to_json(manifest.value())).value();
  GLINT_CHECK(again.shards.size() == manifest.value().shards.size(), "manifests survive");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t middle = text.find('\n');
  if (middle != text.npos) glob_matches(text.substr(0, middle), text.substr(middle + 1));
  const Result<Json> json = parse_json(text);
  if (!json.ok()) return 0;
  check_ranges(json.value());
  check_manifest(json.value());
  const std::vector<std::string> excludes = listed_excludes(json.value());
  for (const ServingEngine engine : kServingEngines) {
    engine_excludes(engine, excludes, "model.layers.3.mlp.shared_experts.gate_up_proj");
    engine_excludes_fp8(engine, excludes, "model.layers.3.mlp.shared_experts.gate_up_proj");
  }
  return 0;
}
