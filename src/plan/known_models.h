// Published models whose configuration needs no network, and how others say what they are.
#pragma once

#include <optional>
#include <string_view>

#include "model/release.h"

namespace glint {

struct KnownModel {
  std::string_view id;  // "zai-org/GLM-5-FP8"
  ModelConfig config;
  Release release = Release::kBF16;
};

// "zai-org/GLM-5-FP8", or its last part; none if it is another's.
std::optional<KnownModel> find_known_model(std::string_view id);

// The release that a configuration without weights describes; none if its format is another.
std::optional<Release> release_of(const ModelConfig& config);

}  // namespace glint
