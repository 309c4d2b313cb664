#include "plan/advice.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/str.h"

namespace glint {
namespace {

std::vector<MeshShape> layouts_of(int count, const ModelConfig& config) {
  std::vector<MeshShape> layouts;
  for (int tp = count; tp >= 1; --tp) {
    if (count % tp || config.num_attention_heads % tp) continue;
    const int dp = count / tp;
    if (dp == 1 || tp == 1 || tp == 2 || tp == 4 || tp == 8) {
      if (dp == 1) layouts.push_back({.tp = tp});
      if (count > 1 && count <= config.n_routed_experts) {
        layouts.push_back({.tp = tp, .ep = count, .dp = dp});
      }
      if (tp > 1 && dp > 1) layouts.push_back({.tp = tp, .dp = dp});
    }
  }
  return layouts;
}

// The plan of what fits, without speeds; nothing for what does not.
std::optional<Deployment> fitting(const ModelConfig& config, DeploymentOptions options) {
  options.device.bandwidth = 0;
  Result<Deployment> plan = plan_deployment(config, options);
  if (!plan.ok() || !plan.value().fits) return {};
  return std::move(plan).value();
}

const char* name_for_people(Release release) {
  switch (release) {
    case Release::kBF16:
      return "BF16";
    case Release::kFp8:
      return "FP8";
    case Release::kNvfp4:
      return "NVFP4 experts";
  }
  return "?";
}

template <class Better>
const LayoutChoice* best(const std::vector<LayoutChoice>& choices, Better better) {
  const auto found = std::min_element(choices.begin(), choices.end(), better);
  return found == choices.end() ? nullptr : &*found;
}

}  // namespace

std::vector<LayoutChoice> choose_layouts(const ModelConfig& config,
                                         const DeploymentOptions& options) {
  std::vector<LayoutChoice> choices;
  for (const MeshShape& layout : layouts_of(options.count, config)) {
    DeploymentOptions tried = options;
    tried.layout = layout;
    const Result<Deployment> plan = plan_deployment(config, tried);
    if (!plan.ok() || !plan.value().fits || plan.value().decode.empty()) continue;
    LayoutChoice choice = {.layout = layout, .latency = plan.value().decode.front().floor.seconds};
    for (const DecodePoint& point : plan.value().decode) {
      if (point.sustained <= choice.tokens_per_s) continue;
      choice.tokens_per_s = point.sustained;
      choice.batch = point.batch;
    }
    choices.push_back(choice);
  }
  return choices;
}

const LayoutChoice* best_for_latency(const std::vector<LayoutChoice>& choices) {
  return best(choices, [](const auto& a, const auto& b) { return a.latency < b.latency; });
}
const LayoutChoice* best_for_throughput(const std::vector<LayoutChoice>& choices) {
  return best(choices,
              [](const auto& a, const auto& b) { return a.tokens_per_s > b.tokens_per_s; });
}

std::vector<std::string> advise(const ModelConfig& config, const Deployment& d) {
  std::vector<std::string> advice;
  DeploymentOptions o = d.options;
  o.cache_bytes = {};
  // With as much cache as there is room for, where another size was asked for.
  const std::optional<Deployment> here = d.fits ? d : fitting(config, o);
  if (!d.fits && here) advice.push_back(str("--kv-cache-memory ", here->cache >> 20, "MiB fits"));
  const auto try_layouts = [&](int count) -> std::optional<MeshShape> {
    o.count = count;
    for (const MeshShape& layout : layouts_of(count, config)) {
      o.layout = layout;
      if (fitting(config, o)) return layout;
    }
    return {};
  };
  if (!here) {
    if (const auto layout = try_layouts(d.options.count)) {
      advice.push_back(
          str(d.options.format, " fits on ", d.options.count, " with ", describe(*layout)));
    }
  }
  if (!d.fits && d.cache_tokens >= kPageSize && d.max_model_len > d.cache_tokens) {
    advice.push_back(str("--max-model-len ", d.cache_tokens, " fits"));
  }
  constexpr int kCounts[] = {1, 2, 4, 8, 16, 32, 64};
  for (const Release release : {Release::kNvfp4, Release::kFp8, Release::kBF16}) {
    o.formats = formats_of(config, release);
    for (const int count : kCounts) {
      if (count > 1 && d.options.device.link == 0) break;  // there is one of this machine
      const std::optional<MeshShape> layout = try_layouts(count);
      if (!layout) continue;
      // A fit on as many devices as there are is news where less is needed only.
      if (count < d.options.count || !here) {
        advice.push_back(str(name_for_people(release),
                             release == Release::kNvfp4 ? " fit on " : " fits on ", count, " (",
                             describe(*layout), ")"));
      }
      break;
    }
  }
  return advice;
}

}  // namespace glint
