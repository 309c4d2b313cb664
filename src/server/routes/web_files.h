// The page: the files of server/web, which the build puts into the program. What a browser may do
// with them is as narrow as can be: scripts and styles from this server alone, nothing inline, no
// frames.
#pragma once

#include <string_view>

#include "base/embedded_file.h"
#include "net/http_server.h"

namespace glint {

std::span<const EmbeddedFile> web_files();

// The answer for `path` ("/", "/style.css"); status 404 if the page has no such file.
HttpResponse web_response(std::string_view path);

}  // namespace glint
