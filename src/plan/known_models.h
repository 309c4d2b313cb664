// Published models whose configuration needs no network.
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

}  // namespace glint
