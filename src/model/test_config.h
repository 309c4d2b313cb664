// For tests: GLM-5's config.json with other values.
#pragma once

#include "base/json.h"

namespace glint {

inline Json glm5_with(const char* differences) {
  Json json = read_json_file(GLINT_SOURCE_DIR "/tests/data/configs/glm5.json").value();
  const Json others = parse_json(differences).value();
  for (const auto& [key, value] : others.as_object()) json.set(key, value);
  return json;
}

}  // namespace glint
