#include "net/error_body.h"

#include <cstddef>

#include "base/cut_text.h"
#include "base/json_text.h"

namespace glint {
namespace {

constexpr std::size_t kMostBytes = 500;

}  // namespace

std::string message_of_error(const Json& body) {
  const Json* const error = body.find("error");
  const std::string* const message = text_of(error ? *error : body, "message");
  return cut_text(message ? *message : dump_json(body), kMostBytes);
}

std::string error_message(std::string_view body) {
  const Result<Json> json = parse_json(body, {.max_values = 4096});
  return json.ok() ? message_of_error(json.value()) : cut_text(body, kMostBytes);
}

}  // namespace glint
