// Options that say how a model is run are refused where none is run here.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "cli/rank_options.h"

namespace glint {

using GivenOptions = std::initializer_list<std::pair<std::string_view, bool>>;

// Empty if none is given.
inline std::string_view first_of(const GivenOptions& all) {
  for (const auto& [name, given] : all) {
    if (given) return name;
  }
  return {};
}

// The first of them that is not as by default; empty if all are.
inline std::string_view first_given(const RunOptions& o) {
  const RunOptions defaults;
  return first_of({{"--dtype", o.dtype != defaults.dtype},
                   {"--kv-dtype", o.kv_dtype != defaults.kv_dtype},
                   {"--index", o.index != defaults.index},
                   {"--threads", o.threads != defaults.threads},
                   {"--backend", o.backend != defaults.backend},
                   {"--cpu-isa", o.cpu_isa != defaults.cpu_isa},
                   {"--load-format", o.load_format != defaults.load_format},
                   {"--pack", o.pack != defaults.pack}});
}

inline std::string_view first_layout_given(const LayoutOptions& o) {
  const LayoutOptions defaults;
  return first_of({{"--tp", o.tp != defaults.tp},
                   {"--pp", o.pp != defaults.pp},
                   {"--dp", o.dp != defaults.dp},
                   {"--ep", o.ep != defaults.ep},
                   {"--cp", o.cp != defaults.cp},
                   {"--reduce-slices", o.reduce_slices != defaults.reduce_slices}});
}

}  // namespace glint
