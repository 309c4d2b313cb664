// Options that say how a model is run are refused where none is run here.
#pragma once

#include <string_view>
#include <utility>

#include "cli/model_options.h"

namespace glint {

// The first of them that is not as by default; empty if all are.
inline std::string_view first_given(const RunOptions& o) {
  const RunOptions defaults;
  const std::pair<std::string_view, bool> all[] = {
      {"--dtype", o.dtype != defaults.dtype},
      {"--kv-dtype", o.kv_dtype != defaults.kv_dtype},
      {"--index", o.index != defaults.index},
      {"--threads", o.threads != defaults.threads},
      {"--backend", o.backend != defaults.backend},
      {"--cpu-isa", o.cpu_isa != defaults.cpu_isa},
      {"--load-format", o.load_format != defaults.load_format},
      {"--pack", o.pack != defaults.pack}};
  for (const auto& [name, given] : all) {
    if (given) return name;
  }
  return {};
}

}  // namespace glint
