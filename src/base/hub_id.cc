#include "base/hub_id.h"

#include <algorithm>

#include "base/str.h"

namespace glint {
namespace {

bool are_names(std::string_view text, std::size_t max_parts) {
  const auto parts = split(text, '/');
  return parts.size() <= max_parts && std::all_of(parts.begin(), parts.end(), is_hub_name);
}

}  // namespace

bool is_hub_name(std::string_view text) {
  return !text.empty() && text.size() <= 96 && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

Result<HubId> parse_hub_id(std::string_view text, const std::string& revision) {
  const std::size_t at = std::min(text.find('@'), text.size());
  HubId out = {.name = std::string(text.substr(0, at))};
  if (at < text.size()) out.revision = text.substr(at + 1);
  if (!revision.empty()) out.revision = revision;
  if (!are_names(out.name, 2))
    return invalid(str(quoted(text), " is no id of a hub; expected one such as zai-org/GLM-5"));
  if (!are_names(out.revision, 8))
    return invalid(str("the revision ", quoted(out.revision), " is no branch, tag or commit"));
  return out;
}

bool is_hub_id(std::string_view text) {
  return text.find('/') != text.npos && parse_hub_id(text).ok();
}

std::string hub_folder(std::string_view type, std::string_view name) {
  std::string out = str(type, "s");
  for (const std::string_view part : split(name, '/')) out += str("--", part);
  return out;
}

}  // namespace glint
