// Flags of other servers as data: one file of this folder for each dialect, and one for flags that
// several servers share, which says how to read them. The build puts them into the program.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/embedded_file.h"
#include "base/result.h"

namespace glint {

enum class Dialect { kGlint, kVllm, kSglang, kTrtllm };

struct FlagRule {
  enum class Takes { kSwitch, kValue, kValues, kJson };
  enum class Does { kSet, kClear, kIgnore, kExpect, kSpec, kLayout, kFile, kGraphs };
  // The target's value; none leaves the target as it is. `why`, if not empty, is the reason with
  // which the given value is reported as ignored.
  struct Converted {
    std::optional<std::string> value;
    std::string why = {};
  };
  using Convert = Result<Converted> (*)(const std::string& value);

  std::vector<std::string_view> names = {};
  Takes takes = Takes::kValue;
  Does does = Does::kIgnore;
  std::string_view target = {};
  Convert convert = nullptr;
};

// The function of this name (flag_values.cc); null: there is none.
FlagRule::Convert flag_value(std::string_view name);

struct FlagTable {
  std::vector<std::string_view> defaults = {};  // of this server, as arguments of `glint serve`
  std::vector<FlagRule> rules = {};
};

// A file, whose text outlives the table. Fails naming the line that is not of the form.
Result<FlagTable> read_flags(std::string_view text);

// The flags that a dialect knows: its own and those shared; glint's knows all, and no defaults.
FlagTable flags_of(Dialect dialect);

// The files.
std::span<const EmbeddedFile> flag_files();

}  // namespace glint
