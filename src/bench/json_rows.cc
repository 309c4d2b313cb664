#include "bench/json_rows.h"

#include <utility>

#include "base/line_file.h"

namespace glint {

Result<Json::Array> read_rows(const std::string& path) {
  GLINT_TRY(const LineFile file, read_lines(path));
  Result<Json> whole = parse_json(*file.contents);
  const bool has_lines = !whole.ok() && !file.lines.empty() && parse_json(file.lines[0].text).ok();
  if (!has_lines) {
    GLINT_TRY(Json json, std::move(whole).in(path));
    return json.is_array() ? std::move(json.as_array()) : Json::Array{std::move(json)};
  }
  Json::Array out;
  for (const LineFile::Line& line : file.lines) {
    GLINT_TRY(Json row, parse_json(line.text).in(file.where(line)));
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace glint
