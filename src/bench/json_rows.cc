#include "bench/json_rows.h"

#include <utility>

#include "base/str.h"

namespace glint {

Result<Json::Array> parse_rows(std::string_view text) {
  Result<Json> whole = parse_json(text);
  const bool has_lines = !whole.ok() && parse_json(text.substr(0, text.find('\n'))).ok();
  if (!has_lines) {
    GLINT_TRY(Json json, std::move(whole));
    return json.is_array() ? std::move(json.as_array()) : Json::Array{std::move(json)};
  }
  Json::Array out;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    GLINT_TRY(Json row, parse_json(line).in(str("line ", number)));
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace glint
