// The answers of the page: its files, each with its type and the headers that confine it.
#include "server/routes/web_files.h"

namespace glint {
namespace {

constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string_view type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return "image/svg+xml";
}

}  // namespace

HttpResponse web_response(std::string_view path) {
  const std::string_view name = path == "/" ? "index.html" : path.substr(1);
  for (const EmbeddedFile& file : web_files()) {
    if (file.name != name) continue;
    return {.status = 200,
            .headers = {{"content-type", std::string(type_of(name))},
                        {"content-security-policy", kPolicy},
                        {"x-content-type-options", "nosniff"},
                        {"referrer-policy", "no-referrer"},
                        {"cache-control", "no-cache"}},
            .body = std::string(file.bytes)};
  }
  return {.status = 404};
}

}  // namespace glint
