// The table of other servers' flags.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace glint {

enum DialectBit : unsigned { kVllmBit = 1, kSglangBit = 2, kTrtllmBit = 4, kAllBits = 7 };

struct FlagRule {
  enum class Takes {
    kNothing,  // a switch, also --no-x and --x=false
    kValue,
    kValues,  // one or more words
    kJson,    // an object, whose members are flags of their own: --x.member
  };
  enum class Does {
    kSet,     // sets option `target`
    kClear,   // a switch that turns option `target` off
    kIgnore,  // nothing, because of `target`
    kExpect,  // config.json must have this value in field `target`
    kSpec,    // part `target` of the speculation: method, tokens, topk
    kLayout,  // part `target` of the layout: tp, dp, ep, pp, cp, attention-dp, all-experts
    kFile,    // names a configuration file
    kGraphs,  // part `target` of GraphFlags: eager, pads, rows, most; "no eager": its opposite
  };
  // The target's value; none leaves the target as it is. `why`, if not empty, is the reason with
  // which the given value is reported as ignored.
  struct Converted {
    std::optional<std::string> value;
    std::string why = {};
  };
  using Convert = Result<Converted> (*)(const std::string& value);

  std::string_view names;  // with dashes, blanks between; a final ".*" covers a whole group
  unsigned dialects = kAllBits;
  Takes takes = Takes::kValue;
  Does does = Does::kIgnore;
  std::string_view target;
  Convert convert = nullptr;
};

std::span<const FlagRule> flag_rules();

}  // namespace glint
