// A file that the build puts into the program (cmake/embed.cmake).
#pragma once

#include <span>
#include <string_view>

namespace glint {

struct EmbeddedFile {
  std::string_view name, bytes;
};

}  // namespace glint
