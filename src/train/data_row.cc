#include "train/data_row.h"

#include "base/str.h"
#include "text/template/chat_template.h"

namespace glint {

Result<Json> parse_data_row(std::string_view line) {
  GLINT_TRY(Json row, parse_json(line).in("expected an object of JSON on each line"));
  if (!row.is_object()) return invalid(str("is ", row.kind(), "; expected an object"));
  std::erase_if(row.as_object(), [](const auto& member) { return member.second.is_null(); });
  if (Json* const tools = row.find("tools"); tools && tools->is_string()) {
    GLINT_TRY(*tools, parse_json(tools->as_string()).in("\"tools\" are a text, but not of JSON"));
  }
  return row;
}

Result<Json> template_kwargs_of(const Json& row) {
  const Json* const given = row.find("chat_template_kwargs");
  if (!given) return Json(Json::Object{});
  if (!given->is_object()) {
    return invalid(str("\"chat_template_kwargs\" is ", given->kind(), "; expected an object"));
  }
  if (const char* name = find_reserved_kwarg(*given)) {
    return invalid(str("\"chat_template_kwargs\" has ", quoted(name),
                       ", which is not its to set; leave it out"));
  }
  return *given;
}

}  // namespace glint
