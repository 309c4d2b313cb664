#include "server/flags/flag_table.h"

#include <algorithm>
#include <iterator>

#include "base/str.h"

namespace glint {
namespace {

// In the order of the enums.
constexpr std::string_view kTakes[] = {"switch", "value", "values", "json"};
constexpr std::string_view kDoes[] = {"set",  "clear",  "ignore", "expect",
                                      "spec", "layout", "file",   "graphs"};

template <class Enum, std::size_t N>
std::optional<Enum> value_of(const std::string_view (&names)[N], std::string_view name) {
  const auto* const found = std::find(names, names + N, name);
  if (found == names + N) return std::nullopt;
  return static_cast<Enum>(found - names);
}

// "[set value dtype] dtype"
std::optional<FlagRule> read_head(std::string_view line) {
  const std::size_t end = line.find(']');
  if (end == line.npos) return std::nullopt;
  const std::vector<std::string_view> words = words_of(line.substr(1, end - 1));
  if (words.size() < 2 || words.size() > 3) return std::nullopt;
  const auto does = value_of<FlagRule::Does>(kDoes, words[0]);
  const auto takes = value_of<FlagRule::Takes>(kTakes, words[1]);
  std::string_view target = line.substr(end + 1);
  if (target.starts_with(' ')) target.remove_prefix(1);
  FlagRule rule = {.target = target};
  if (!does || !takes) return std::nullopt;
  rule.does = *does;
  rule.takes = *takes;
  if (words.size() == 3 && (rule.convert = flag_value(words[2])) == nullptr) return std::nullopt;
  return rule;
}

FlagTable read_file_of(std::string_view name) {
  for (const EmbeddedFile& file : flag_files()) {
    if (file.name == name) return read_flags(file.bytes).in(file.name).value();
  }
  return {};
}

}  // namespace

Result<FlagTable> read_flags(std::string_view text) {
  FlagTable table;
  std::vector<std::string_view>* names = nullptr;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    if (line == "[defaults]") {
      names = &table.defaults;
    } else if (line.starts_with('[')) {
      const std::optional<FlagRule> rule = read_head(line);
      if (!rule) return invalid(str("line ", number, ": no head of a list of flags: ", line));
      names = &table.rules.emplace_back(*rule).names;
    } else if (names == nullptr) {
      return invalid(str("line ", number, ": flags without a head: ", line));
    } else {
      std::ranges::copy(words_of(line), std::back_inserter(*names));
    }
  }
  return table;
}

FlagTable flags_of(Dialect dialect) {
  FlagTable table = read_file_of("shared.flags");
  for (const auto& [of, name] :
       {std::pair(Dialect::kVllm, "vllm.flags"), std::pair(Dialect::kSglang, "sglang.flags"),
        std::pair(Dialect::kTrtllm, "trtllm.flags")}) {
    if (dialect != of && dialect != Dialect::kGlint) continue;
    FlagTable own = read_file_of(name);
    std::ranges::move(own.rules, std::back_inserter(table.rules));
    if (dialect == of) table.defaults = std::move(own.defaults);
  }
  return table;
}

}  // namespace glint
