// The page: the files of server/web, which the build puts into the program. What a browser may do
// with them is as narrow as can be: scripts and styles from this server alone, nothing inline, no
// frames.
#pragma once

#include <span>
#include <string_view>

#include "net/http_server.h"

namespace glint {

struct WebFile {
  std::string_view name, bytes;
};
std::span<const WebFile> web_files();

// The answer for `path` ("/", "/style.css"); status 404 if the page has no such file.
HttpResponse web_response(std::string_view path);

}  // namespace glint
